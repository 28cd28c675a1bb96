#include "daemon/control/node_catalog.h"

#include <utility>

#include "daemon/core/ownership.h"
#include "proto/convert/placement_convert.h"
#include "tidepool/v1/cluster.pb.h"

namespace tidepool::daemon {
namespace {

bool IsOurs(const placement::PartitionPlace& place, NodeId self) {
  return place.node == self && place.state != placement::PartitionState::kLost;
}

// Returns the namespace as in the map, but without partitions of other nodes: their moves must not
// cause a write here.
std::string OptionsOf(const placement::Namespace& space, NodeId self) {
  placement::Namespace ours = space;
  ours.changed = Epoch(0);
  for (placement::PartitionPlace& place : ours.partitions) {
    const CoreId core = IsOurs(place, self) ? place.core : CoreId(0);
    place = placement::PartitionPlace();
    place.core = core;
  }
  v1::NamespaceMap message;
  convert::ToProto(ours, &message);
  return message.SerializeAsString();
}

Result<storage::Catalog> CatalogOf(const placement::PlacementMap& map, NodeId self) {
  storage::Catalog catalog;
  for (const auto& [id, space] : map.namespaces) {
    if (!space->options.durable()) continue;
    const std::size_t before = catalog.partitions.size();
    for (std::uint32_t i = 0; i < space->partitions.size(); ++i) {
      const placement::PartitionPlace& place = space->partitions[i];
      if (IsOurs(place, self)) catalog.partitions.push_back({PartitionId(id, i), place.term});
    }
    if (catalog.partitions.size() == before) continue;
    catalog.namespaces.push_back({id, space->name, space->kind, OptionsOf(*space, self)});
    const std::size_t bytes = catalog.namespaces.back().options.size();
    if (bytes <= storage::kCatalogOptionsBytesMax) continue;
    return Status(StatusCode::kResourceExhausted,
                  "what must be remembered of the durable namespace '" + space->name + "' takes " +
                      std::to_string(bytes) + " bytes, and may take " +
                      std::to_string(storage::kCatalogOptionsBytesMax),
                  "make it with fewer partitions");
  }
  return catalog;
}

Status Damaged(const storage::CatalogNamespace& space) {
  return Status(
      StatusCode::kDataLoss,
      "the catalog is damaged: what it says of the namespace '" + space.name + "' cannot be",
      "restore the devices' files, or give an empty --nvm-dir: what they hold is lost then");
}

}  // namespace

Result<CatalogContent> DecodeCatalogContent(Bytes content, std::uint32_t cores) {
  CatalogContent catalog;
  const auto decoded = storage::DecodeCatalog(content);
  if (!decoded.ok()) return decoded.status();
  std::map<NamespaceId, placement::Namespace> spaces;
  for (const storage::CatalogNamespace& stored : decoded->namespaces) {
    v1::NamespaceMap message;
    if (!message.ParseFromString(stored.options)) return Damaged(stored);
    auto space = convert::FromProto(message);
    const bool is_sound = space.ok() && space->id == stored.id && space->kind == stored.kind &&
                          space->options.durable();
    if (!is_sound) return Damaged(stored);
    catalog.names.emplace(stored.id, stored.name);
    spaces.emplace(stored.id, *std::move(space));
  }
  for (const storage::CatalogPartition& stored : decoded->partitions) {
    const placement::Namespace& space = spaces.at(stored.id.space());
    const std::uint32_t index = stored.id.index();
    if (index >= space.partitions.size() || space.partitions[index].core.value() >= cores) {
      return Status(
          StatusCode::kDataLoss,
          "the catalog is damaged: it has partition " + std::to_string(index) + " of '" +
              space.name + "', which cannot be",
          "restore the devices' files, or give an empty --nvm-dir: what they hold is lost "
          "then");
    }
    catalog.partitions.push_back(
        {stored.id, stored.term, space.partitions[index].core, PartitionOptionsOf(space, index)});
  }
  return catalog;
}

Result<NodeCatalog> NodeCatalog::Open(storage::Volume* volume) {
  NodeCatalog catalog(volume);
  auto content = volume->ReadCatalog();
  if (!content.ok()) return content.status();
  catalog.saved_ = *std::move(content);
  if (catalog.saved_.empty()) {
    catalog.saved_ = EncodeCatalog(storage::Catalog());
    return catalog;
  }
  auto decoded = DecodeCatalogContent(catalog.saved_, volume->layout(0).cores);
  if (!decoded.ok()) return decoded.status();
  catalog.found_ = std::move(decoded->partitions);
  if (!catalog.found_.empty()) {
    catalog.cluster_uuid_ = storage::FormatUuid(volume->found(0).cluster);
  }
  return catalog;
}

bool NodeCatalog::empty() const { return saved_ == storage::EncodeCatalog(storage::Catalog()); }

Status NodeCatalog::Save(const placement::PlacementMap& map, NodeId self) {
  const auto catalog = CatalogOf(map, self);
  if (!catalog.ok()) return catalog.status();
  std::vector<std::byte> content = storage::EncodeCatalog(*catalog);
  if (content == saved_) return OkStatus();
  // Checked first, so that a catalog is never read as another cluster's.
  const auto cluster = storage::ParseUuid(map.cluster_uuid);
  if (!cluster.ok()) return cluster.status();
  TP_RETURN_IF_ERROR(volume_->RememberCluster(*cluster));
  TP_RETURN_IF_ERROR(volume_->WriteCatalog(content));
  saved_ = std::move(content);
  return OkStatus();
}

}  // namespace tidepool::daemon
