// The coordinator's pure rules: which namespaces may be made, when two are equal, where partitions
// go, and what becomes of them when nodes come and go. No lock, no clock, no disk.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/membership/cluster_state.h"

namespace tidepool::daemon {

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
// Another process of the same node serves: every partition is granted under a new term, and what
// may have held data is lost. Errors: kResourceExhausted (a term cannot be raised any more; map
// unchanged).
Status RegrantPartitions(NodeId node, const NodeRecord& record, Epoch epoch,
                         placement::PlacementMap* map);
// Lost partitions of nodes that are up become active under a new term. Counts them.
// Errors: kResourceExhausted.
Result<std::uint32_t> AcceptLostPartitions(const placement::PlacementMap& map,
                                           placement::Namespace* space);

}  // namespace tidepool::daemon
