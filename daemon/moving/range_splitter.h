// Decides which ranges of ordered namespaces on this node are split, and sees each split through.
//
//   kvctl namespace split => services/namespaces_service -> [range_splitter] -> cores (range_moves)
//                                                              '-> coordinator
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/core/core_group.h"
#include "daemon/core/range_moves.h"
#include "daemon/membership/range_rules.h"
#include "proto/base/clock.h"
#include "proto/base/result.h"
#include "proto/placement/placement_map.h"

namespace tidepool::daemon {

struct NodeState;

struct SplitOutcome {
  std::uint32_t partition = 0;  // The new one.
  std::string key;              // Where it begins.
  CoreId core;
  Epoch epoch;
};

// One thread, one split at a time: a split costs its two cores a fifth of their time, and memory
// for what it copies. Thread-safe but for Start and Stop.
class RangeSplitter {
 public:
  // `node` must outlive it.
  explicit RangeSplitter(NodeState* node) : node_(*node) {}
  ~RangeSplitter();
  RangeSplitter(const RangeSplitter&) = delete;
  RangeSplitter& operator=(const RangeSplitter&) = delete;

  // Once the node has joined.
  Status Start();  // Errors: kResourceExhausted (no thread).
  // A split that the coordinator was asked for may be found done, or not, by whoever comes next.
  void Stop();

  // Splits the range of this node that has `key`, at this key; without one `partition`, in its
  // middle. Waits for its turn and for the end. Errors: kInvalidArgument (the key cannot be one),
  // kFailedPrecondition (too few keys, or not now), kResourceExhausted (no memory for the copy: the
  // range is as it was), kUnavailable, kUnknown (under way still, or the coordinator does not say).
  Result<SplitOutcome> Split(NamespaceId space, std::uint32_t partition,
                             std::optional<std::string> key, Deadline deadline);

 private:
  struct Job {
    NamespaceId space;
    std::uint32_t partition = 0;
    std::optional<std::string> key;
    Deadline deadline{0};
    std::optional<Result<SplitOutcome>> outcome;
  };

  void Run();
  Result<SplitOutcome> RunOne(NamespaceId space, std::uint32_t partition,
                              const std::optional<std::string>& key);
  // kAborted: another range of the namespace was split first.
  Result<SplitOutcome> TryOne(NamespaceId space, std::uint32_t partition,
                              const std::optional<std::string>& key);
  Result<std::string> ChooseKey(const placement::Namespace& space, std::uint32_t partition,
                                const std::optional<std::string>& asked);
  CoreId ChooseCore(const placement::Namespace& space, CoreId source) const;
  Status Copy(const RangeMovePtr& move);
  void Cancel(const RangeMovePtr& move);
  Result<Epoch> Commit(const RangeSplit& split);
  Result<Epoch> AskCoordinator(const RangeSplit& split);
  // Makes sure that a split which was refused (`why`) is not granted later. Returns `why`, or the
  // epoch of a map in which it was granted all the same.
  Result<Epoch> Withdraw(const RangeSplit& split, const Status& why);
  // Looks every millisecond. False: this splitter is being stopped.
  bool Await(const std::function<bool()>& condition);
  bool SleepMs(std::uint64_t ms);

  // What grows: splits the range that needs it most, if any.
  void Check();
  std::optional<PartitionId> ChooseRange(const placement::PlacementMap& map);
  bool IsBusy(const PartitionStats& stats, CoreId core, double seconds,
              const std::map<CoreId, double>& per_core) const;

  NodeState& node_;
  std::thread thread_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Job>> jobs_;
  bool stopping_ = false;

  // Of Check.
  std::map<PartitionId, std::uint64_t> operations_;
  std::map<CoreId, std::uint64_t> core_operations_;
  std::uint64_t looked_ns_ = 0;
  std::map<PartitionId, std::uint64_t> not_before_ns_;  // Of those whose last split failed.
};

}  // namespace tidepool::daemon
