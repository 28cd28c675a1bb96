// Memory shares of namespaces on this core: counts what they store and refuses the excess.
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

// Bytes that a record counts for besides its key and value: its header, its slot in the index at
// the usual filling, and the rounding to 8 bytes.
inline constexpr std::uint64_t kRecordOverheadBytes = sizeof(storage::RecordHeader) + 20;

// Owner core only.
//
// The node's share of a namespace is split over the node's partitions of it, because keys spread
// evenly over partitions; so no core has to ask another. A core's partitions of the namespace
// together must stay within their parts. Live records count (keys, values and kRecordOverheadBytes
// each), not space that compaction has yet to free.
//
// Cost: one compare per operation on a node without memory shares, otherwise one look-up per
// change. At the limit a change is counted exactly: sums all partitions of the namespace here and
// looks up the replaced record.
class MemoryShares {
 public:
  explicit MemoryShares(storage::CoreStore& store) : store_(store) {}

  // Takes the shares from `map`. Call it after the store holds the partitions of the map.
  void Install(const placement::PlacementMap& map, NodeId self, CoreId core);

  // Result of Admit. `share` is set if Settle has to count what the operation stored.
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

  // For changes without a handler: returns why `growth_bytes` more do not fit, or null. Counts each
  // time. The text lives until the next Install.
  const std::string* Refusal(PartitionId partition, std::uint64_t growth_bytes);

 private:
  struct Share {
    std::uint64_t bytes_max = 0;
    // Sum over all partitions here. Background expiry is subtracted only at the next Count, so the
    // sum is never too small.
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
