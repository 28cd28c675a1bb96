// What this core owns, as the newest placement map says, and what to do with a group of operations
// that names {partition, term}: ownership decides, not equality of epochs.
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

// The fate of a group. `partition` is set for kRun only.
struct Verdict {
  enum class Kind : std::uint8_t {
    kRun,
    kWait,    // Its term is newer than our map: keep it, in order, until the map catches up.
    kHold,    // The partition is frozen: keep it, in order, until it is thawed or a map moves it.
    kRefuse,  // Ends with `code`; nothing was executed. kWrongEpoch: final for {partition, term}.
  };
  Kind kind = Kind::kRefuse;
  storage::Partition* partition = nullptr;
  // Of kRefuse. kWrongEpoch for kHold too: the answer to who cannot be kept, and asks again.
  StatusCode code = StatusCode::kOk;
};

// What a core needs to know of a namespace to hold this partition of it.
storage::PartitionOptions PartitionOptionsOf(const placement::Namespace& space,
                                             std::uint32_t index);

// Owner core only.
class Ownership {
 public:
  Ownership(CoreId core, storage::CoreStore& store) : core_(core), store_(store), shares_(store) {}

  // Opens, re-terms and closes partitions so that the store holds exactly what `map` gives to
  // {self, core}: those that have come in whole are adopted under their new term, others open
  // empty. Lost partitions are not opened: they answer kDataLoss. A map that is not newer is
  // ignored. `may_grant_durable`: what the map says of durable partitions is durable here. If not,
  // they stay as they are, and answer kDeviceError under newer terms.
  // Returns: kOk, kResourceExhausted (some partitions could not be opened; they answer it).
  Status Install(placement::PlacementMapPtr map, NodeId self, bool may_grant_durable = true);

  // Before the first map: the store has read this partition back, as an incoming one. The first map
  // that may grant it decides: it is adopted if its contents are still the partition's, else
  // dropped.
  void NoteRecovered(PartitionId partition) { recovered_.insert(partition.value()); }

  // The common case is one look-up in the store.
  Verdict Check(PartitionId partition, Term term) const {
    storage::Partition* held = store_.Find(partition);
    if (held != nullptr && held->Serves(term)) return {Verdict::Kind::kRun, held};
    return CheckSlow(partition, term);
  }

  // Holds back all groups on a partition, while its contents move elsewhere: nothing is executed on
  // it and nothing refused. It ends with Thaw, or with a map that gives the partition a newer term
  // (served again) or takes it away (dropped); other maps do not touch it. Whoever freezes must end
  // it, within the deadlines of those who wait. Until then what the partition holds must stay, for
  // reads that come again are answered from it. Freezing twice is freezing once.
  // Returns: kOk, kWrongEpoch (not served here under this term).
  StatusCode Freeze(PartitionId partition, Term term);
  // Only the dispatcher calls it, which then runs what was held back. False: it was not frozen
  // under this term (any more).
  bool Thaw(PartitionId partition, Term term);

  // Opens a partition that no map gives yet, to copy something into it: frozen, and left alone by
  // maps until the import ends, one that gives it to this core included. `term`: of where the
  // copied versions come from.
  // Errors: kNotFound (the namespace), kResourceExhausted, kAlreadyExists.
  Status BeginImport(PartitionId partition, Term term);
  // It is complete: serves under what the map says. False: the map does not give it to this core,
  // or it is gone.
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
