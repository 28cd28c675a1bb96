// The upper part of an ordered partition's keys on its way to a partition of its own, on another
// core of this node, while both cores serve.
//
//   range_splitter (decides, asks the coordinator) -> [RangeMoves of the source core]
//       -> parcels, by mailbox -> [RangeMoves of the target core]
//
// 1. The source copies the records in key order, a slice per poll, and behind them every change of
//    these keys (it is a observer of the partition's log): one stream, so the target is at each
//    moment as the source was a little before.
// 2. When the copy is through, the splitter has the coordinator make the new map. Until then
// nothing
//    has happened: the source serves, and the copy can be dropped.
// 3. The map reaches the source: the same task that takes it over gives the partition its new term
//    and bounds, so the last change of a moved key is in the stream by then. It says so behind it.
// 4. The target has held back what came for the new partition (it is frozen) and serves it once it
//    has applied the stream to its end. From the cut on the source removes what has left it, a
//    slice per poll, but for large values that it has not sent: for these the target may need the
//    room.
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

// One move, shared by both cores and who watches it. What is not atomic never changes.
struct RangeMove {
  enum class Stage : std::uint8_t {
    kCopying,    // Step 1.
    kFollowing,  // All is copied; changes follow.
    kCut,        // Step 3.
    kDone,       // The target serves.
    kFailed,     // Given up by one side: its partition is gone, or has changed otherwise.
  };

  PartitionId from;
  Term term;  // Of `from` before the split.
  PartitionId to;
  std::string key;  // The first that moves.
  CoreId source;
  CoreId target;
  std::function<bool(CoreId, std::function<void(Core&)>)> post;

  std::atomic<Stage> stage{Stage::kCopying};
  std::atomic<bool> out_of_memory{false};         // The target waits for memory.
  std::atomic<std::uint64_t> unapplied_bytes{0};  // Of parcels.
  std::atomic<std::uint64_t> records{0};          // Copied so far.

  // The target is that far behind: the copy waits, changes go on.
  static constexpr std::uint64_t kUnappliedBytesMax = 4u << 20;
  // So far: changes are held back as well, until the copy goes on. Parcels lie in the heap, beside
  // --memory. It is far more than a target falls behind that has memory and its core's time.
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
  // On the source's core. Errors: kFailedPrecondition (not served here under this term, or what
  // left it by the last split is still being removed).
  Status StartSource(const RangeMovePtr& move);
  // The split will not be. The source goes on as it was, the copy is dropped.
  void CancelSource(const RangeMove& move);
  void CancelTarget(const RangeMove& move);

  // A map was installed, and nothing has been executed since.
  void OnMap();
  // Work for about `budget_ns`. True: there is more to do at once.
  bool Slice(std::uint64_t budget_ns);
  // What the changes of this poll have made; each poll.
  void Flush();
  bool active() const { return !sources_.empty() || !targets_.empty() || !moved_out_.empty(); }
  // A target whose range is this node's by the map, so that clients wait for it; or that is so far
  // behind that the copy waits.
  bool urgent() const;

  // From the other core.
  void Receive(PartitionId to, std::shared_ptr<const std::vector<std::byte>> parcel);
  void Left(PartitionId from, std::uint64_t records);

 private:
  // Keys to be removed from a partition that they have left.
  struct MovedOutRecords {
    PartitionId partition;
    std::string key;
    std::string next;          // Where to go on.
    std::int64_t records = 0;  // Below 0 until the target has told how many there are.
    // The large values that the source still had to send when this went by: they were passed over.
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
  bool fetching_ = false;  // What a slice has met on a device.
};

}  // namespace tidepool::daemon
