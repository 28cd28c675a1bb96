// The answers of a session's mutating frames, kept until the client has them: what makes sending a
// frame again safe. Unreliable delivery below, exactly-once above (the idea of RIFL, Lee et al.,
// SOSP 2015, with the client's `ack_watermark` in place of its acknowledgement).
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "proto/wire/answer.h"
#include "storage/value_io.h"

namespace tidepool::daemon {

// What became of one group of a kept frame.
enum class GroupFate : std::uint8_t {
  kUnseen = 0,   // Of a frame kept for another group's sake.
  kWaiting = 1,  // Its term is newer than the core's map; will be answered.
  kDone = 2,     // Applied, or ended as a whole. Its reads may run again, its changes not.
};

// One frame. Holds an entry for each mutating operation and each group that ended as a whole.
struct CachedReply {
  std::vector<GroupFate> fates;  // Index = group.
  struct Entry {
    wire::Answer answer;  // answer.value is empty: the bytes lie in `values`.
    std::uint16_t group = 0;
    std::uint32_t value_at = 0;
    std::uint32_t value_bytes = 0;
    // Of a taken value that is streamed: the store has it no more.
    std::shared_ptr<const storage::ValueReader> taken;
  };
  std::vector<Entry> entries;
  std::vector<std::byte> values;
  std::uint64_t value_bytes = 0;  // That it counts for.
  // What must be durable before anybody hears of these answers; 0: nothing.
  std::uint64_t commit_position = 0;

  // The answer as it was. A view of `values`.
  wire::Answer AnswerOf(const Entry& entry) const {
    wire::Answer answer = entry.answer;
    answer.value = Bytes(values).subspan(entry.value_at, entry.value_bytes);
    return answer;
  }
};

// One per session and core. Owner core only. Bounded by kFramesUnfinishedMax frames and
// kCachedReplyBytesMax of values, which the dispatcher enforces and clients count too; all of a
// core's, with their entries, by what its Sessions allow, which count them in `total_bytes`. Frames
// with up to kReplyCacheWarmBytes of values cost no allocation once warm.
class ReplyCache {
 public:
  // `total_bytes`, if there is one, outlives it.
  explicit ReplyCache(std::uint64_t* total_bytes = nullptr) : total_bytes_(total_bytes) {}
  ~ReplyCache() {
    if (total_bytes_ != nullptr) *total_bytes_ -= held_bytes();
  }
  ReplyCache(const ReplyCache&) = delete;
  ReplyCache& operator=(const ReplyCache&) = delete;

  // Null if the frame is not kept.
  CachedReply* Find(std::uint64_t frame_id);
  CachedReply& Make(std::uint64_t frame_id, std::size_t groups);
  // Adds an entry, with the answer's value as its bytes.
  void Add(CachedReply* frame, const wire::Answer& answer, std::uint16_t group,
           std::shared_ptr<const storage::ValueReader> taken);
  // Of a quiet group, which keeps nothing else. Counts with kCachedFailureBytes more, as such
  // groups are not bounded by the credit in operations.
  void AddFailure(CachedReply* frame, const wire::Answer& answer, std::uint16_t group);
  // Frames below are finished at the client: their answers go. `below` never falls.
  void ReleaseBelow(std::uint64_t below);
  std::uint64_t ack_watermark() const { return ack_watermark_; }
  std::size_t size() const { return frames_.size(); }
  std::uint64_t value_bytes() const { return value_bytes_; }
  // What counts in `total_bytes`: entries too, which are most of what answers without values take.
  std::uint64_t held_bytes() const { return value_bytes_ + entries_ * sizeof(CachedReply::Entry); }

 private:
  void CountValues(std::uint64_t bytes) {
    value_bytes_ += bytes;
    if (total_bytes_ != nullptr) *total_bytes_ += bytes;
  }
  void Uncount(const CachedReply& frame);

  std::uint64_t* const total_bytes_;
  absl::flat_hash_map<std::uint64_t, std::unique_ptr<CachedReply>> frames_;
  std::vector<std::unique_ptr<CachedReply>> spare_;  // Reused: they keep their vectors' capacity.
  std::uint64_t ack_watermark_ = 1;
  std::uint64_t value_bytes_ = 0;
  std::uint64_t entries_ = 0;
};

}  // namespace tidepool::daemon
