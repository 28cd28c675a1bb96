// Moves the upper part of an ordered partition's keys to a new partition on another core of this
// node, while both cores serve.
//
//   range_splitter (decides, asks the coordinator) -> [RangeMoves of the source core]
//       -> parcels, by mailbox -> [RangeMoves of the target core]
//
// 1. The source copies the records in key order, a slice per poll. Behind them it sends every
//    change of these keys, as an observer of the partition's log. This is one stream, so the target
//    always equals the source of a moment before.
// 2. When the copy is complete, the splitter has the coordinator make the new map. Until then the
//    source serves, and the copy can be dropped.
// 3. The map reaches the source. The task that installs it also gives the partition its new term
//    and bounds, so the stream then has the last change of a moved key. The source marks the end.
// 4. The target keeps groups for the new partition waiting (it is frozen) and serves it after it
//    has applied the whole stream. From the cut on the source removes the moved records, a slice
//    per poll. It keeps large values that it has not sent, because the target may need the room.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "proto/base/ids.h"
#include "proto/base/status.h"
#include "storage/core_store.h"
#include "storage/log_record.h"
#include "storage/value_io.h"

namespace tidepool::daemon {

class Core;
class Dispatcher;

// One move, shared by both cores and its observers. Fields that are not atomic never change.
struct RangeMove {
  enum class Stage : std::uint8_t {
    kCopying,    // Step 1.
    kFollowing,  // All records are copied; changes follow.
    kCut,        // Step 3.
    kDone,       // The target serves.
    kFailed,     // Given up by one side: its partition is gone, or has changed otherwise.
  };

  PartitionId from;
  Term term;  // Term of `from` before the split.
  PartitionId to;
  std::string key;  // First key that moves.
  CoreId source;
  CoreId target;
  std::function<bool(CoreId, std::function<void(Core&)>)> post;

  std::atomic<Stage> stage{Stage::kCopying};
  std::atomic<bool> out_of_memory{false};         // The target waits for memory.
  std::atomic<std::uint64_t> unapplied_bytes{0};  // Of parcels.
  std::atomic<std::uint64_t> records{0};          // Copied so far.

  // Lag of the target at which the copy waits; changes continue.
  static constexpr std::uint64_t kUnappliedBytesMax = 4u << 20;
  // Lag at which changes wait too, until the copy continues. Parcels lie on the heap, beyond
  // --memory. A target with memory and CPU time stays far below it.
  static constexpr std::uint64_t kUnappliedBytesHold = 64u << 20;
};
using RangeMovePtr = std::shared_ptr<RangeMove>;

class RangeSource;
class RangeTarget;

// Owner core only. A core has few moves at a time: the splitter makes one.
class RangeMoves {
 public:
  // Both must outlive it.
  RangeMoves(Dispatcher& dispatcher, storage::CoreStore& store);
  ~RangeMoves();
  RangeMoves(const RangeMoves&) = delete;
  RangeMoves& operator=(const RangeMoves&) = delete;

  // On the target's core: opens the new partition, frozen. Errors: kResourceExhausted, kNotFound.
  Status StartTarget(const RangeMovePtr& move);
  // On the source's core: starts the copy. Errors: kFailedPrecondition (not served here under this
  // term, or records of the last split are still being removed).
  Status StartSource(const RangeMovePtr& move);
  // Cancels the split. The source continues as before; the copy is dropped.
  void CancelSource(const RangeMove& move);
  void CancelTarget(const RangeMove& move);

  // Call after a map was installed, before any operation runs.
  void OnMap();
  // Works for about `budget_ns`. Returns true if there is more to do at once.
  bool Slice(std::uint64_t budget_ns);
  // Sends the changes of this poll; call at each poll.
  void Flush();
  bool active() const { return !sources_.empty() || !targets_.empty() || !moved_out_.empty(); }
  // Returns true for a target whose range the map gives to this node, because clients wait for it;
  // and for a target so far behind that the copy waits.
  bool urgent() const;

  // Receives a parcel from the other core.
  void Receive(PartitionId to, std::shared_ptr<const std::vector<std::byte>> parcel);
  void Left(PartitionId from, std::uint64_t records);

 private:
  // Moved-out keys that are still to be removed from their old partition.
  struct MovedOutRecords {
    PartitionId partition;
    std::string key;
    std::string next;          // Next key to remove.
    std::int64_t records = 0;  // Negative until the target has reported how many there are.
    // Number of large values that the source still had to send when removal passed them; they were
    // skipped.
    std::optional<std::size_t> passed_over;
  };
  bool Work(std::uint64_t end_ns);
  bool RemoveMovedOut(std::uint64_t end_ns);
  const RangeSource* SourceOf(PartitionId partition) const;
  // Begins or ends holding changes back.
  void BoundUnapplied(RangeSource& source);
  void EndHold(RangeSource& source);
  void RemoveSource(std::size_t i);

  Dispatcher& dispatcher_;
  storage::CoreStore& store_;
  std::vector<std::unique_ptr<RangeSource>> sources_;
  std::vector<std::unique_ptr<RangeTarget>> targets_;
  std::vector<MovedOutRecords> moved_out_;
  bool fetching_ = false;  // A slice has met records on a device.
};

}  // namespace tidepool::daemon
