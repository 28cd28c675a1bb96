// All that the coordinator must not forget: the placement map, and what it needs to admit nodes and
// to give ids. A plain value; the stores keep it as text.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/result.h"
#include "proto/placement/placement_map.h"

namespace tidepool::daemon {

// What the map does not say of a node. Index = NodeId.
struct NodeRecord {
  // Of its identity. Host, device and inode tell that the folder was moved or copied.
  std::string directory;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::string mark;        // Of its folder at the last join; empty: unknown.
  bool nvm = false;        // It has devices.
  std::string nvm_medium;  // "file", "dax", "mixed", or empty.
  // Namespaces that lose nothing if the node comes back with nothing: it left in good order and
  // held no records of them, or their loss was agreed to. Cleared when it joins again.
  std::set<NamespaceId> nothing_to_lose;

  friend bool operator==(const NodeRecord&, const NodeRecord&) = default;
};

using PartitionCopy = placement::CopyPlace;

// The rest of a partition's entry; its owner and term are in the map. See entry_change.h.
struct PartitionEntry {
  std::uint64_t version = 0;  // Grows with each change that a request asks for, and of the copies.
  std::vector<PartitionCopy> copies;

  friend bool operator==(const PartitionEntry&, const PartitionEntry&) = default;
};

struct ClusterState {
  placement::PlacementMap map;
  std::vector<NodeRecord> nodes;  // As map.nodes.
  NamespaceId next_namespace{1};
  std::map<PartitionId, PartitionEntry> entries;  // A partition without one has version 0.
};

// Text with a checksum in its first line.
std::string EncodeState(const ClusterState& state);
// Any text gives a state or kDataLoss, saying what is wrong; `path` is for that message. Epochs of
// drops are not kept: deltas from before a restart are complete maps.
Result<ClusterState> DecodeState(std::string_view text, const std::string& path);

}  // namespace tidepool::daemon
