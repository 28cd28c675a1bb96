// Keeps the copies of partitions with replicas that this node owns: fills joining copies, asks for
// their admission, and drops copies that have failed. Tells the coordinator of owners that may have
// ended.
//
//   map, core: daemon/copies -> [copy_keeper] => Moves.OpenCopy of the copy's node; => Moves.Change
//       of the coordinator
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <tuple>
#include <vector>

#include "daemon/control/node_state.h"
#include "daemon/copies/copy_job.h"
#include "tidepool/v1/moves.pb.h"

namespace tidepool::daemon {

// One thread. Thread-safe: Start and Stop, once each.
//
// Invariant: a copy leaves the set that answers wait for only by a map that does not name it. The
// cores see to that (Copies::OnMap); this thread only asks for such maps.
class CopyKeeper {
 public:
  // `node` must outlive it.
  explicit CopyKeeper(NodeState* node) : node_(*node) {}
  ~CopyKeeper();
  CopyKeeper(const CopyKeeper&) = delete;
  CopyKeeper& operator=(const CopyKeeper&) = delete;

  // Once the node has joined. Errors: kResourceExhausted (no thread).
  Status Start();
  // Copies stay as they are.
  void Stop();

 private:
  // A copy of a partition that this node owns.
  struct Kept {
    PartitionId partition;
    placement::PartitionPlace place;
    placement::CopyPlace copy;

    auto key() const {
      return std::tuple(partition.value(), place.term.value(), copy.node.value(), copy.incarnation,
                        copy.since);
    }
  };
  struct Filling {
    std::shared_ptr<CopyJob> job;  // Null: not begun.
    std::uint64_t not_before_ns = 0;
    int tries = 0;
    std::uint64_t failed_ns = 0;  // When it was first seen to have failed; 0: it has not.
  };
  using Fillings = std::map<
      std::tuple<std::uint32_t, std::uint32_t, std::uint16_t, std::uint64_t, std::uint64_t>,
      Filling>;
  struct Alarm {
    std::uint64_t first_ns = 0;
    std::uint64_t not_before_ns = 0;
  };

  void Run();
  // False: this thread is being stopped.
  bool SleepMs(std::uint64_t ms);
  std::vector<Kept> FindKept(const placement::PlacementMap& map) const;
  void Look(const std::vector<Kept>& kept);
  void See(const Kept& kept, Filling* filling);
  void Begin(const Kept& kept, Filling* filling);
  void Drop(const Kept& kept, Filling* filling);
  void Ask(const Kept& kept, v1::EntryStep::What what, Filling* filling);
  void TellOfOwners(const placement::PlacementMap& map);
  void Suspect(NodeId node, std::uint64_t incarnation);

  NodeState& node_;
  Fillings fillings_;
  std::map<NodeId, Alarm> alarms_;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
};

}  // namespace tidepool::daemon
