// The coordinator's pure rules: which namespaces may be made, when two are equal, where partitions
// go, and what becomes of them when nodes come and go. No lock, no clock, no disk.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "daemon/membership/cluster_state.h"

namespace tidepool::daemon {

// Made with the cluster, and never dropped.
inline constexpr const char* kDefaultNamespace = "default";

// Errors: kUnimplemented (kinds and options of later versions), kInvalidArgument.
Status CheckNamespaceOptions(placement::Kind kind, const placement::NamespaceOptions& options);

// kOk if a request for `kind` and `wanted` may use `existing`; kFailedPrecondition if it takes keys
// or values for another type, else kAlreadyExists, naming each difference. A request for 0
// partitions takes any number.
Status CheckEqual(const placement::Namespace& existing, placement::Kind kind,
                  const placement::NamespaceOptions& wanted);

// Where the ranges of an ordered namespace begin that is made so, in the order of keys.
// Errors: kInvalidArgument.
Result<placement::Ranges> RangesOf(const placement::NamespaceOptions& options);

// Kinds whose number of partitions does not grow with the cluster's cores: one, or as many as there
// are lanes (queue) or ranges (ordered).
bool HasFewPartitions(placement::Kind kind);

// Whether partitions of the namespace can move to another node. Errors: kUnimplemented.
Status CheckMovable(const placement::Namespace& space);

// How many partitions such a namespace is made with; 0: SpreadPartitions decides.
std::uint32_t PartitionsWanted(placement::Kind kind, const placement::NamespaceOptions& options);

// Whom the partitions of a namespace with this home are spread over. Errors: kInvalidArgument (no
// such node), kUnavailable (it is not up).
Result<std::vector<placement::Node>> NodesFor(const std::vector<placement::Node>& nodes,
                                              const std::string& home);

// Spreads `count` partitions (0: four per core) over the nodes that are up: all first cores, then
// all second ones, and so on, so that few partitions reach many nodes; `first` moves the place
// where that begins. Empty if no node is up.
std::vector<placement::PartitionPlace> SpreadPartitions(const std::vector<placement::Node>& nodes,
                                                        std::uint32_t count,
                                                        std::uint32_t first = 0);

// `node` does not serve now: its active partitions are down.
void MarkPartitionsDown(NodeId node, Epoch epoch, placement::PlacementMap* map);
// The same process serves again: what was down is active, under the same term, since no other had
// it.
void MarkPartitionsBack(NodeId node, Epoch epoch, placement::PlacementMap* map);
// kOk if all of `nodes` that are up have devices, where these options want some, and of the medium
// that they want; `records` are those of all nodes. Errors: kFailedPrecondition, naming the others.
Status CheckDevices(const std::vector<placement::Node>& nodes,
                    const std::vector<NodeRecord>& records,
                    const placement::NamespaceOptions& options);
// The same of a node that comes back, for all namespaces of which it has partitions.
Status CheckMediaOf(const placement::Node& node, const NodeRecord& record,
                    const placement::PlacementMap& map);
// A durable namespace with contents on the node's devices; null: none.
const placement::Namespace* FirstKeptOn(NodeId node, const placement::PlacementMap& map);

// What a node has read back from its devices of a partition.
struct KeptPartition {
  Term term;  // Under which it served it last.
  Lsn last;   // The last change that is there.
};
struct KeptOnDevices {
  std::map<PartitionId, KeptPartition> partitions;
  bool complete = false;  // The node had stopped in good order: no later change is missing.
};

// Another process of the same node serves: every partition is granted under a new term. Of durable
// namespaces those go on that it has kept, since their contents began at the latest
// (PartitionPlace::data_from); else what may have held data is lost. What durable namespaces lose
// is noted, unless they were made with on_loss "empty".
// Errors: kResourceExhausted (a term cannot be raised any more; map unchanged).
Status RegrantPartitions(NodeId node, const NodeRecord& record, const KeptOnDevices& kept,
                         Epoch epoch, std::uint64_t now_ms, placement::PlacementMap* map);
// Lost partitions of nodes that are up become active under a new term, and what partitions that
// serve have lost is forgotten. Counts the partitions.
// Errors: kResourceExhausted.
Result<std::uint32_t> AcceptLostPartitions(const placement::PlacementMap& map,
                                           placement::Namespace* space);

}  // namespace tidepool::daemon
