// The partitions that this core owns by the newest placement map, and the decision on each group of
// operations: its {partition, term} decides, not the equality of epochs.
//
//   daemon/core/dispatcher -> [ownership] -> storage::CoreStore
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "daemon/core/memory_shares.h"
#include "proto/base/ids.h"
#include "proto/base/status.h"
#include "proto/placement/placement_map.h"
#include "storage/core_store.h"

namespace tidepool::daemon {

// Decision on a group. `partition` is set for kRun only.
struct Verdict {
  enum class Kind : std::uint8_t {
    kRun,
    kWait,    // Its term is newer than our map: keep it, in order, until the map catches up.
    kHold,    // The partition is frozen: keep it, in order, until it is thawed or a map moves it.
    kRefuse,  // Ends with `code`; nothing was executed. kWrongEpoch: final for {partition, term}.
  };
  Kind kind = Kind::kRefuse;
  storage::Partition* partition = nullptr;
  // Code of kRefuse. kWrongEpoch for kHold too: the answer for clients that cannot be kept waiting
  // and ask again.
  StatusCode code = StatusCode::kOk;
};

// Returns the store's options for a partition of the namespace.
storage::PartitionOptions PartitionOptionsOf(const placement::Namespace& space,
                                             std::uint32_t index);

// Owner core only.
class Ownership {
 public:
  Ownership(CoreId core, storage::CoreStore& store) : core_(core), store_(store), shares_(store) {}

  // Opens, re-terms and closes partitions so that the store holds exactly the partitions that `map`
  // gives to {self, core}. Completely imported partitions are adopted under their new term; others
  // open empty. Lost partitions are not opened: they answer kDataLoss. Ignores a map that is not
  // newer. `may_grant_durable`: this node has durably recorded the map's durable partitions. If
  // false, durable partitions stay as they are, and answer kDeviceError under newer terms.
  // Returns: kOk, kResourceExhausted (some partitions could not be opened; they answer it).
  Status Install(placement::PlacementMapPtr map, NodeId self, bool may_grant_durable = true);

  // Before the first map: registers a partition that the store has read back. The first map that
  // may grant it decides: the partition is adopted if its contents are still current, and dropped
  // otherwise.
  void NoteRecovered(PartitionId partition) { recovered_.insert(partition.value()); }

  // Decides on a group. The common case is one look-up in the store.
  Verdict Check(PartitionId partition, Term term) const {
    storage::Partition* held = store_.Find(partition);
    if (held != nullptr && held->Serves(term)) return {Verdict::Kind::kRun, held};
    return CheckSlow(partition, term);
  }

  // Holds back all groups on a partition while its contents move elsewhere: nothing is executed and
  // nothing refused. Ends with Thaw, or with a map that gives the partition a newer term (served
  // again) or takes it away (dropped); other maps do not affect it. The caller must end the freeze
  // within the deadlines of the waiting groups. The partition's contents must stay until then,
  // because repeated reads are answered from them. Freezing twice equals freezing once.
  // Returns: kOk, kWrongEpoch (not served here under this term).
  StatusCode Freeze(PartitionId partition, Term term);
  // Ends a freeze. Only the dispatcher calls it, and then runs the waiting groups. Returns false if
  // the partition is not frozen under this term.
  bool Thaw(PartitionId partition, Term term);

  // Opens a partition that no map has granted yet, to copy records into it. It is frozen, and maps
  // do not touch it until the import ends, not even a map that grants it to this core. `term`: term
  // of the copied versions.
  // Errors: kNotFound (the namespace), kResourceExhausted, kAlreadyExists.
  Status BeginImport(PartitionId partition, Term term);
  // Completes an import: the partition serves as the map says. Returns false if the map does not
  // give it to this core, or if it is gone.
  bool EndImport(PartitionId partition);
  void CancelImport(PartitionId partition);
  bool importing(PartitionId partition) const { return importing_.contains(partition.value()); }

  const placement::PlacementMapPtr& map() const { return map_; }
  MemoryShares& shares() { return shares_; }
  NodeId self() const { return self_; }
  Epoch epoch() const { return map_ == nullptr ? Epoch(0) : map_->epoch; }

 private:
  Verdict CheckSlow(PartitionId partition, Term term) const;
  bool AdoptRecovered(const placement::Namespace& space, PartitionId partition);

  const CoreId core_;
  storage::CoreStore& store_;
  MemoryShares shares_;
  std::set<std::uint32_t> importing_;
  std::set<std::uint32_t> recovered_;  // Neither adopted nor dropped yet.
  bool may_grant_durable_ = true;
  placement::PlacementMapPtr map_;
  NodeId self_;
};

}  // namespace tidepool::daemon
