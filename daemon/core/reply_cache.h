// The answers of a session's mutating frames, cached until the client has them, so that resending a
// frame is safe: exactly-once execution over unreliable delivery. The idea is RIFL's (Lee et al.,
// SOSP 2015), with the client's `ack_watermark` in place of its acknowledgements.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/copies/copy_waits.h"
#include "proto/wire/answer.h"
#include "storage/value_io.h"

namespace tidepool::daemon {

// State of one group of a cached frame.
enum class GroupFate : std::uint8_t {
  kUnseen = 0,   // In a frame cached for another group.
  kWaiting = 1,  // Its term is newer than the core's map; it will be answered.
  kDone = 2,     // Applied, or ended as a whole. Its reads may run again, its changes must not.
};

// One frame. Holds an entry for each mutating operation and each group that ended as a whole.
struct CachedReply {
  std::vector<GroupFate> fates;  // Index = group.
  struct Entry {
    wire::Answer answer;  // answer.value is empty: the bytes lie in `values`.
    std::uint16_t group = 0;
    std::uint32_t value_at = 0;
    std::uint32_t value_bytes = 0;
    // A taken value that is streamed; the store no longer has it.
    std::shared_ptr<const storage::ValueReader> taken;
  };
  std::vector<Entry> entries;
  std::vector<std::byte> values;
  std::uint64_t value_bytes = 0;  // Bytes that it counts for.
  // Position that must be durable before these answers are sent; 0: none.
  std::uint64_t commit_position = 0;
  CopyWaits copy_waits;  // Copies that must have the changes before these answers are sent.

  // Returns the original answer, as a view of `values`.
  wire::Answer AnswerOf(const Entry& entry) const {
    wire::Answer answer = entry.answer;
    answer.value = Bytes(values).subspan(entry.value_at, entry.value_bytes);
    return answer;
  }
};

// One per session and core. Owner core only. Bounded by kFramesUnfinishedMax frames and
// kCachedReplyBytesMax of values; the dispatcher enforces these bounds, and clients count too. The
// core's Sessions bound the sum over all sessions, entries included, in `total_bytes`. Frames with
// up to kReplyCacheWarmBytes of values cost no allocation after the first frames.
class ReplyCache {
 public:
  // `total_bytes`, if not null, must outlive the cache.
  explicit ReplyCache(std::uint64_t* total_bytes = nullptr) : total_bytes_(total_bytes) {}
  ~ReplyCache() {
    if (total_bytes_ != nullptr) *total_bytes_ -= held_bytes();
  }
  ReplyCache(const ReplyCache&) = delete;
  ReplyCache& operator=(const ReplyCache&) = delete;

  // Returns null if the frame is not cached.
  CachedReply* Find(std::uint64_t frame_id);
  CachedReply& Make(std::uint64_t frame_id, std::size_t groups);
  // Adds an entry with a copy of the answer's value.
  void Add(CachedReply* frame, const wire::Answer& answer, std::uint16_t group,
           std::shared_ptr<const storage::ValueReader> taken);
  // Adds the failure of a quiet group, which caches nothing else. Counts kCachedFailureBytes more,
  // because credits in operations do not bound quiet groups.
  void AddFailure(CachedReply* frame, const wire::Answer& answer, std::uint16_t group);
  // Drops the answers of frames below `below`, which the client has finished. `below` never falls.
  void ReleaseBelow(std::uint64_t below);
  std::uint64_t ack_watermark() const { return ack_watermark_; }
  std::size_t size() const { return frames_.size(); }
  std::uint64_t value_bytes() const { return value_bytes_; }
  // Returns the bytes counted in `total_bytes`. Includes entries, which dominate for answers
  // without values.
  std::uint64_t held_bytes() const { return value_bytes_ + entries_ * sizeof(CachedReply::Entry); }

 private:
  void CountValues(std::uint64_t bytes) {
    value_bytes_ += bytes;
    if (total_bytes_ != nullptr) *total_bytes_ += bytes;
  }
  void Uncount(const CachedReply& frame);

  std::uint64_t* const total_bytes_;
  absl::flat_hash_map<std::uint64_t, std::unique_ptr<CachedReply>> frames_;
  std::vector<std::unique_ptr<CachedReply>> spare_;  // Reused for the capacity of their vectors.
  std::uint64_t ack_watermark_ = 1;
  std::uint64_t value_bytes_ = 0;
  std::uint64_t entries_ = 0;
};

}  // namespace tidepool::daemon
