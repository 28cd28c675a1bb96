// The catalog: namespaces of a device's segments, and their partitions with terms. It is an image
// in either of two areas; the superblock names the current area.
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
  std::string options;  // Opaque bytes of the writer.

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
// Accepts any bytes. An accepted catalog encodes to the same bytes again. Errors:
// kDataLoss.
Result<Catalog> DecodeCatalog(Bytes content);

// The most that an area takes as content.
std::uint64_t CatalogContentBytesMax(const DeviceLayout& layout);

// Makes `content` the device's catalog, durably, and raises the generation of `superblock` (as read
// or written last) by 1. A crash at any moment leaves the old or the new catalog, whole. Errors:
// kResourceExhausted (no room; no change), kDeviceError (as WriteSuperblock: no writes may follow;
// *superblock unchanged).
Status WriteCatalog(DeviceQueue* queue, Bytes content, Superblock* superblock);

// Reads the content of the catalog that `superblock` names; empty if there is no catalog yet.
// Errors: kDataLoss (damaged), kDeviceError.
Result<std::vector<std::byte>> ReadCatalog(DeviceQueue* queue, const Superblock& superblock);

// Handles a single sound superblock. If the damaged superblock named a catalog that lies there
// whole, makes `superblock` name that catalog: its changes would otherwise be lost. If the
// damaged superblock was torn, which looks the same, either catalog will do. Errors:
// kDeviceError.
Status TakeNewerCatalog(DeviceQueue* queue, Superblock* superblock);

}  // namespace tidepool::storage
