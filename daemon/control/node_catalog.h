// The durable partitions that this node serves, as recorded on its devices. Written before the
// first answer under a new term; read when the node starts.
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
  Term term;    // Term of the last service, or of a grant that was never served.
  CoreId core;  // Core whose log has the records.
  storage::PartitionOptions options;
};

// Decoded content of a catalog, in the order of ids. `cores`: number of cores of the node that
// wrote it. Errors: kDataLoss.
struct CatalogContent {
  std::vector<CatalogedPartition> partitions;
  std::map<NamespaceId, std::string> names;
};
Result<CatalogContent> DecodeCatalogContent(Bytes content, std::uint32_t cores);

// Not thread-safe: maps come one at a time.
//
// Invariant: no partition of a durable namespace is answered for under a term that is not durable
// here. The catalog therefore has at least the term of the last service by an earlier process. An
// entry for a grant that was never served does no harm.
class NodeCatalog {
 public:
  // `volume` must outlive it. Errors: kDataLoss (damaged), kDeviceError.
  static Result<NodeCatalog> Open(storage::Volume* volume);

  // Returns the content found at Open, in the order of ids; `cluster_uuid` is "" if there was none.
  const std::vector<CatalogedPartition>& found() const { return found_; }
  const std::string& cluster_uuid() const { return cluster_uuid_; }
  // Returns true if the catalog names no partition now.
  bool empty() const;

  // Durably replaces the content by the partitions that `map` gives to `self`. Writes nothing if
  // they are unchanged. Errors: kResourceExhausted (it does not fit), kDeviceError. After an error
  // the old content stays, and durable partitions may not be served as `map` says.
  Status Save(const placement::PlacementMap& map, NodeId self);

 private:
  explicit NodeCatalog(storage::Volume* volume) : volume_(volume) {}

  storage::Volume* volume_;
  std::vector<std::byte> saved_;  // Content as last read or written.
  std::vector<CatalogedPartition> found_;
  std::string cluster_uuid_;
};

}  // namespace tidepool::daemon
