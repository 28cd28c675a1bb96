// What this node serves durably, as its devices say it: written before the first answer under a new
// term, read when the node starts.
//
//   daemon/node/node, membership/member (each new map), nvm_tools -> [node_catalog] ->
//   storage/nvm/volume
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "proto/base/bytes.h"
#include "proto/base/ids.h"
#include "proto/base/result.h"
#include "proto/placement/placement_map.h"
#include "storage/nvm/catalog.h"
#include "storage/nvm/volume.h"
#include "storage/partition.h"

namespace tidepool::daemon {

// A partition that the last process of this node served durably.
struct CatalogedPartition {
  PartitionId id;
  Term term;    // Under which it was served last, or would have been.
  CoreId core;  // Whose log has its records.
  storage::PartitionOptions options;
};

// What a catalog's content names, in the order of ids. `cores`: of the node that wrote it. Errors:
// kDataLoss.
struct CatalogContent {
  std::vector<CatalogedPartition> partitions;
  std::map<NamespaceId, std::string> names;
};
Result<CatalogContent> DecodeCatalogContent(Bytes content, std::uint32_t cores);

// Not thread-safe: maps come one at a time.
//
// Invariant: no partition of a durable namespace is answered for under a term that is not durable
// here. So what an earlier process served last is known by its term, and what it only was granted,
// and never served, does no harm.
class NodeCatalog {
 public:
  // `volume` must outlive it. Errors: kDataLoss (damaged), kDeviceError.
  static Result<NodeCatalog> Open(storage::Volume* volume);

  // What was found, in the order of ids; `cluster_uuid` is "" if that is nothing.
  const std::vector<CatalogedPartition>& found() const { return found_; }
  const std::string& cluster_uuid() const { return cluster_uuid_; }
  // Whether it names anything now.
  bool empty() const;

  // Durably replaces what it says by what `map` gives to `self`. Writes nothing if that is the
  // same. Errors: kResourceExhausted (it does not fit), kDeviceError; the old one stays then, and
  // durable partitions may not be served as `map` says.
  Status Save(const placement::PlacementMap& map, NodeId self);

 private:
  explicit NodeCatalog(storage::Volume* volume) : volume_(volume) {}

  storage::Volume* volume_;
  std::vector<std::byte> saved_;  // As it was read or written last.
  std::vector<CatalogedPartition> found_;
  std::string cluster_uuid_;
};

}  // namespace tidepool::daemon
