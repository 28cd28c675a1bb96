// What a namespace with a memory share may store on this core, and the refusal of what exceeds it.
//
//   daemon/core/dispatcher, daemon/core/local_operations, daemon/core/local_values ->
//   [memory_shares] -> storage
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/ops/operation.h"
#include "proto/base/check.h"
#include "proto/placement/placement_map.h"
#include "storage/core_store.h"

namespace tidepool::daemon {

// What a record counts for beside its key and value: its header, its slot in the index at the
// usual filling, and the rounding to 8 bytes.
inline constexpr std::uint64_t kRecordOverheadBytes = sizeof(storage::RecordHeader) + 20;

// Owner core only.
//
// The node's share of a namespace is split over the node's partitions of it, since keys spread
// evenly over partitions; so no core has to ask another. What a core's partitions of the namespace
// hold together must stay within their parts. Counted are live records (keys, values and
// kRecordOverheadBytes each), not what compaction has yet to free.
//
// Cost: one compare per operation on a node without such namespaces, else one look-up per change.
// At the limit a change is counted exactly: all partitions here of that namespace are summed up,
// and the record that it replaces is looked up.
class MemoryShares {
 public:
  explicit MemoryShares(storage::CoreStore& store) : store_(store) {}

  // Takes the shares from `map`. After the store holds what the map gives to it.
  void Install(const placement::PlacementMap& map, NodeId self, CoreId core);

  // Answer of Admit. `share` is set if Settle has to count what the operation stored.
  struct Admission {
    static constexpr std::uint32_t kUncounted = UINT32_MAX;
    bool refused = false;
    std::uint32_t share = kUncounted;  // A NamespaceId.
    std::uint64_t bytes_before = 0;    // In the operation's store.
  };
  // Decides before the handler runs. Refuses a change that would store more than the share with
  // kResourceExhausted and a text that lives until the next Install. Admits deletes, reads, and
  // changes that store no more than before.
  Admission Admit(const OperationContext& context, Reply* reply) {
    if (shares_.empty()) [[likely]] {
      return {};
    }
    return AdmitLimited(context, reply);
  }
  // Counts what an admitted operation has stored. Call it once, after the handler.
  void Settle(const OperationContext& context, const Admission& admission) {
    TP_DCHECK(!admission.refused);
    if (admission.share != Admission::kUncounted) [[unlikely]]
      SettleLimited(context, admission);
  }

  // For changes that are made without a handler: why `growth_bytes` more do not fit, or null.
  // Counts each time. The text lives until the next Install.
  const std::string* Refusal(PartitionId partition, std::uint64_t growth_bytes);

 private:
  struct Share {
    std::uint64_t bytes_max = 0;
    // Of all partitions here. Expiry in the background is not subtracted until the next Count, so
    // it is never too small.
    std::uint64_t bytes = 0;
    std::vector<PartitionId> partitions;
    std::string refusal;
  };
  Admission AdmitLimited(const OperationContext& context, Reply* reply);
  void SettleLimited(const OperationContext& context, const Admission& admission);
  void Count(Share* share) const;

  storage::CoreStore& store_;
  absl::flat_hash_map<std::uint32_t, Share> shares_;  // By NamespaceId; only those with a share.
};

}  // namespace tidepool::daemon
