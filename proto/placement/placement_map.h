// Owners of partitions: partition -> (node, core, term), per namespace, with the epoch as version.
//
// The coordinator makes maps; all other processes hold copies and update them by deltas.
// Immutable once published: holders share a `std::shared_ptr<const PlacementMap>` and swap it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "proto/base/ids.h"
#include "proto/base/kind.h"
#include "proto/base/limits.h"
#include "proto/base/status.h"
#include "proto/placement/owner.h"
#include "proto/placement/ranges.h"

namespace tidepool::placement {

using tidepool::Kind;
using tidepool::KindName;

enum class NodeState : std::uint8_t { kUp = 1, kDown = 2, kLeft = 3 };
std::string_view NodeStateName(NodeState state);

enum class PartitionState : std::uint8_t {
  kActive = 1,
  kDown = 2,  // Its owner is down: operations fail fast with kUnavailable.
  kLost = 3,  // Its owner came back without the data: kDataLoss until accepted.
};

// Value of NamespaceOptions::home before the node is known.
inline constexpr std::string_view kHomeLocal = "local";

// Fixed at creation of a namespace; equal options make a second creation a success.
struct NamespaceOptions {
  std::uint32_t partitions = 0;  // In a request 0 means: 4 per core. In a map the real number.
  std::string durability = "volatile";
  std::uint32_t replicas = 1;
  std::string on_loss = "error";  // Or "empty".
  std::string medium = "any";     // Or "file", "dax": required medium of its nodes' devices.
  std::uint64_t ttl_ms = 0;
  std::uint32_t memory_share_percent = 0;
  std::string prefilter = "none";
  // Kind bloom: its size is made for this number of distinct values and this error rate.
  std::uint64_t expected_items = 0;
  double false_positive_rate = limits::kFilterRateDefault;
  // Kinds queue and priority: maximum number of items; 0: no limit but memory.
  std::uint64_t capacity = 0;
  // Kind ordered: where its ranges after the first begin at creation, and whether the daemons split
  // them as they grow: "auto" or "manual".
  std::vector<std::string> split_keys;
  std::string split = "auto";
  // In a request: the number of the node that gets all partitions; empty: all nodes share them. In
  // a map it is empty, since the partitions say it.
  std::string home;
  // Types of keys and values, as the creating program named them; empty: bytes, of any type. See
  // CheckTypesAgree.
  std::string key_type;
  std::string value_type;

  bool durable() const { return durability != "volatile"; }

  friend bool operator==(const NamespaceOptions&, const NamespaceOptions&) = default;
};

struct Node {
  NodeId id;
  std::string uuid;
  std::uint64_t incarnation = 0;
  std::string control_address;
  std::string host;
  NodeState state = NodeState::kUp;
  std::uint32_t cores = 1;
  std::uint64_t last_heartbeat_ms = 0;
  std::string version;
  std::uint32_t pid = 0;
};

// A copy of a partition beside its owner. One process holds it.
struct CopyPlace {
  NodeId node;
  std::uint64_t incarnation = 0;
  CoreId core;
  bool in_sync = false;  // It has all committed changes and may become the owner. False: it joins.
  // Version of the entry that named it first. It tells the copy from earlier ones of the process.
  std::uint64_t since = 0;

  friend bool operator==(const CopyPlace&, const CopyPlace&) = default;
};

struct PartitionPlace {
  NodeId node;
  CoreId core;
  Term term;
  PartitionState state = PartitionState::kActive;
  // Durable namespaces, and namespaces with replicas: first term of the unbroken history of the
  // contents; otherwise 0. Data that a node kept of an older term is not part of them.
  Term data_from{0};
  // Namespaces with replicas: version and copies of the partition's entry; otherwise nothing.
  std::uint64_t version = 0;
  std::vector<CopyPlace> copies = {};

  friend bool operator==(const PartitionPlace&, const PartitionPlace&) = default;
};

// An unaccepted loss of a partition of a durable namespace.
struct PartitionLoss {
  std::uint32_t partition = 0;
  Term term{0};  // Under which it was served before.
  bool all = false;
  Lsn after;  // If not `all`: last change that is present; later changes may be lost.
  std::uint64_t at_ms = 0;

  friend bool operator==(const PartitionLoss&, const PartitionLoss&) = default;
};

struct Namespace {
  NamespaceId id;
  std::string name;
  Kind kind = Kind::kHash;
  NamespaceOptions options;
  Epoch changed;  // Epoch of its last change, which selects the contents of a delta.
  std::vector<PartitionPlace> partitions;
  // Kind ordered: as many as partitions. Null: hashes place the keys.
  std::shared_ptr<const Ranges> ranges;
  std::vector<PartitionLoss> losses;  // In the order of partitions, each at most once.

  // Returns the partition that `key` belongs to.
  std::uint32_t IndexOf(Bytes key) const {
    return ranges != nullptr ? ranges->IndexOf(key)
                             : PartitionIndexOf(key, static_cast<std::uint32_t>(partitions.size()));
  }
};

struct PlacementMap {
  Epoch epoch;
  std::string cluster_uuid;
  std::uint32_t nodes_expected = 1;
  std::vector<Node> nodes;  // Index = NodeId.
  std::map<NamespaceId, std::shared_ptr<const Namespace>> namespaces;
  // Epoch of the drop of each dropped namespace, for deltas. Only the newest kDropsKept are
  // kept.
  std::map<NamespaceId, Epoch> dropped;
  // Drops of later epochs than this are all in `dropped`. A delta from before it is complete.
  Epoch drops_known_since;

  bool forming() const { return nodes.size() < nodes_expected; }
  // Returns null if the node does not exist.
  const Node* FindNode(NodeId id) const;
  std::shared_ptr<const Namespace> Find(NamespaceId id) const;
  std::shared_ptr<const Namespace> Find(std::string_view name) const;
  const PartitionPlace* Find(PartitionId id) const;
};
using PlacementMapPtr = std::shared_ptr<const PlacementMap>;

inline constexpr std::size_t kDropsKept = 1'024;

// Forgets the oldest drops beyond kDropsKept.
void ForgetOldDrops(PlacementMap* map);

// Changes in a map after `since`: all nodes, the changed namespaces, the ids of dropped ones.
struct PlacementDelta {
  Epoch since;
  PlacementMap changes;
};

// Makes a delta that brings a holder of epoch `since` up to `map`. Complete (its `since` is 0) when
// `map` no longer knows all drops since then.
PlacementDelta DeltaSince(const PlacementMap& map, Epoch since);

// Returns `base` (null: no map) with the delta applied. Returns null if the delta starts behind
// base's epoch (ask for a complete delta), and `base` itself if the delta brings nothing newer.
PlacementMapPtr Apply(const PlacementMapPtr& base, const PlacementDelta& delta);

// Returns: kOk, kInvalidArgument naming the rule: 1..200 bytes of [A-Za-z0-9._/-].
Status CheckNamespaceName(std::string_view name);

}  // namespace tidepool::placement
