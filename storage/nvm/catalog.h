// What a device's segments belong to: its namespaces and partitions with their terms, kept as one
// image in one of two areas, of which the superblock names the current one.
//
//   daemon (on change), recovery -> [catalog] -> superblock, device
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/base/bytes.h"
#include "proto/base/ids.h"
#include "proto/base/kind.h"
#include "proto/base/result.h"
#include "storage/device/device.h"
#include "storage/nvm/superblock.h"

namespace tidepool::storage {

struct CatalogNamespace {
  NamespaceId id;
  std::string name;
  Kind kind = Kind::kUnspecified;
  std::string options;  // Bytes whose meaning is their writer's.

  friend bool operator==(const CatalogNamespace&, const CatalogNamespace&) = default;
};

struct CatalogPartition {
  PartitionId id;  // Names its namespace.
  Term term;       // Under which it was granted last.

  friend bool operator==(const CatalogPartition&, const CatalogPartition&) = default;
};

// Each list in the order of ids, no id twice, and the namespace of each partition is there.
struct Catalog {
  std::vector<CatalogNamespace> namespaces;
  std::vector<CatalogPartition> partitions;

  friend bool operator==(const Catalog&, const Catalog&) = default;
};

inline constexpr std::size_t kCatalogOptionsBytesMax = 64 * 1024;

// `catalog` must be as said there, names and options within their limits.
std::vector<std::byte> EncodeCatalog(const Catalog& catalog);
// For any bytes. What is accepted gives the same bytes when it is encoded again.
// Errors: kDataLoss.
Result<Catalog> DecodeCatalog(Bytes content);

// The most that an area takes as content.
std::uint64_t CatalogContentBytesMax(const DeviceLayout& layout);

// Makes `content` the device's catalog, durably, and counts `superblock` (what was read or written
// last) up by one generation. A crash at any moment leaves the old one or the new one, whole.
// Errors: kResourceExhausted (it does not fit; nothing has changed), kDeviceError (as
// WriteSuperblock: nothing may be written behind it; *superblock unchanged).
Status WriteCatalog(DeviceQueue* queue, Bytes content, Superblock* superblock);

// The content of the catalog that `superblock` names; empty if there is none yet.
// Errors: kDataLoss (damaged), kDeviceError.
Result<std::vector<std::byte>> ReadCatalog(DeviceQueue* queue, const Superblock& superblock);

// `superblock` is all that is sound of the two. If the other one is damaged, and named a catalog
// that lies there whole, makes it name that one: with the older catalog what came with the newer
// one would be lost. If the other one was torn, which looks the same, either of them will do.
// Errors: kDeviceError.
Status TakeNewerCatalog(DeviceQueue* queue, Superblock* superblock);

}  // namespace tidepool::storage
