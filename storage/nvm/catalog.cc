#include "storage/nvm/catalog.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "proto/base/check.h"
#include "proto/base/failpoint.h"
#include "storage/device/device_io.h"
#include "storage/nvm/crc32c.h"

namespace tidepool::storage {
namespace {

constexpr char kCatalogMagic[8] = {'T', 'I', 'D', 'E', 'C', 'A', 'T', '\n'};

// Before the content in an area. The checksum is of these fields, the content, and nothing behind.
struct ImageHeader {
  char magic[8];
  std::uint32_t format;
  std::uint32_t crc;  // With zeros here.
  std::uint64_t generation;
  std::uint64_t content_bytes;
};
static_assert(sizeof(ImageHeader) == 32 && offsetof(ImageHeader, crc) == 12);

// The content: this, the namespaces, the partitions.
struct ContentHeader {
  std::uint32_t namespaces;
  std::uint32_t partitions;
};
static_assert(sizeof(ContentHeader) == 8);

// Then the name and the options.
struct StoredNamespace {
  std::uint32_t id;
  std::uint32_t options_bytes;
  std::uint16_t name_bytes;
  std::uint8_t kind;
  std::uint8_t reserved;
};
static_assert(sizeof(StoredNamespace) == 12);

struct StoredPartition {
  std::uint32_t id;
  std::uint32_t term;
};
static_assert(sizeof(StoredPartition) == 8);

template <typename T>
void Append(const T& value, std::vector<std::byte>* to) {
  const std::size_t at = to->size();
  to->resize(at + sizeof value);
  StoreUnaligned(to->data() + at, value);
}

void AppendText(std::string_view text, std::vector<std::byte>* to) {
  const Bytes bytes = AsBytes(text);
  to->insert(to->end(), bytes.begin(), bytes.end());
}

Status Damaged(const char* what) {
  return Status(StatusCode::kDataLoss, std::string("the catalog is damaged: ") + what);
}

// Takes a value of fixed size from the front of `rest`. False: `rest` is too short.
template <typename T>
bool Take(Bytes* rest, T* value) {
  if (rest->size() < sizeof *value) return false;
  *value = LoadUnaligned<T>(rest->data());
  *rest = rest->subspan(sizeof *value);
  return true;
}

bool TakeText(Bytes* rest, std::size_t bytes, std::string* text) {
  if (rest->size() < bytes) return false;
  *text = AsText(rest->first(bytes));
  *rest = rest->subspan(bytes);
  return true;
}

Status TakeNamespace(Bytes* rest, Catalog* catalog) {
  StoredNamespace stored;
  if (!Take(rest, &stored)) return Damaged("it ends in a namespace");
  const NamespaceId before =
      catalog->namespaces.empty() ? NamespaceId() : catalog->namespaces.back().id;
  const bool is_sound = stored.id > before.value() && stored.id <= limits::kNamespacesMax &&
                        stored.name_bytes > 0 &&
                        stored.name_bytes <= limits::kNamespaceNameBytesMax && stored.kind > 0 &&
                        stored.kind < kKindCount && stored.reserved == 0 &&
                        stored.options_bytes <= kCatalogOptionsBytesMax;
  if (!is_sound) return Damaged("a namespace in it cannot be");
  CatalogNamespace space;
  space.id = NamespaceId(stored.id);
  space.kind = static_cast<Kind>(stored.kind);
  if (!TakeText(rest, stored.name_bytes, &space.name) ||
      !TakeText(rest, stored.options_bytes, &space.options)) {
    return Damaged("it ends in the name or the options of a namespace");
  }
  catalog->namespaces.push_back(std::move(space));
  return OkStatus();
}

bool HasNamespace(const Catalog& catalog, NamespaceId id) {
  const auto found = std::lower_bound(
      catalog.namespaces.begin(), catalog.namespaces.end(), id,
      [](const CatalogNamespace& space, NamespaceId wanted) { return space.id < wanted; });
  return found != catalog.namespaces.end() && found->id == id;
}

Status TakePartition(Bytes* rest, Catalog* catalog) {
  StoredPartition stored;
  if (!Take(rest, &stored)) return Damaged("it ends in a partition");
  const CatalogPartition partition{PartitionId(stored.id), Term(stored.term)};
  const bool is_sound =
      (catalog->partitions.empty() || partition.id > catalog->partitions.back().id) &&
      stored.term <= limits::kTermMax && HasNamespace(*catalog, partition.id.space());
  if (!is_sound) return Damaged("a partition in it cannot be");
  catalog->partitions.push_back(partition);
  return OkStatus();
}

std::uint32_t ChecksumOf(ImageHeader header, Bytes content) {
  header.crc = 0;
  return Crc32c(content, Crc32c(std::as_bytes(std::span(&header, 1))));
}

}  // namespace

std::vector<std::byte> EncodeCatalog(const Catalog& catalog) {
  std::vector<std::byte> content;
  Append(ContentHeader{static_cast<std::uint32_t>(catalog.namespaces.size()),
                       static_cast<std::uint32_t>(catalog.partitions.size())},
         &content);
  NamespaceId before;
  for (const CatalogNamespace& space : catalog.namespaces) {
    TP_CHECK(space.id > std::exchange(before, space.id));
    TP_CHECK(!space.name.empty() && space.name.size() <= limits::kNamespaceNameBytesMax);
    TP_CHECK(space.options.size() <= kCatalogOptionsBytesMax);
    TP_CHECK(space.kind != Kind::kUnspecified);
    Append(StoredNamespace{space.id.value(), static_cast<std::uint32_t>(space.options.size()),
                           static_cast<std::uint16_t>(space.name.size()),
                           static_cast<std::uint8_t>(space.kind), 0},
           &content);
    AppendText(space.name, &content);
    AppendText(space.options, &content);
  }
  for (const CatalogPartition& partition : catalog.partitions) {
    TP_CHECK(HasNamespace(catalog, partition.id.space()));
    Append(StoredPartition{partition.id.value(), partition.term.value()}, &content);
  }
  return content;
}

Result<Catalog> DecodeCatalog(Bytes content) {
  ContentHeader header;
  if (!Take(&content, &header)) return Damaged("it has no beginning");
  // No reserve() by the claimed count: each entry is read before room for the next is made.
  Catalog catalog;
  for (std::uint32_t i = 0; i < header.namespaces; ++i) {
    TP_RETURN_IF_ERROR(TakeNamespace(&content, &catalog));
  }
  for (std::uint32_t i = 0; i < header.partitions; ++i) {
    TP_RETURN_IF_ERROR(TakePartition(&content, &catalog));
  }
  if (!content.empty()) return Damaged("there is more behind its end");
  return catalog;
}

std::uint64_t CatalogContentBytesMax(const DeviceLayout& layout) {
  return layout.catalog_area_bytes - sizeof(ImageHeader);
}

Status WriteCatalog(DeviceQueue* queue, Bytes content, Superblock* superblock) {
  const DeviceLayout& layout = superblock->layout;
  if (content.size() > CatalogContentBytesMax(layout)) {
    return Status(StatusCode::kResourceExhausted,
                  "the catalog of " + std::to_string(content.size()) + " bytes does not fit the " +
                      std::to_string(CatalogContentBytesMax(layout)) + " bytes that it has",
                  "use fewer namespaces or partitions, or a larger --nvm-size");
  }
  Superblock next = *superblock;
  ++next.generation;
  next.catalog_generation = next.generation;
  next.catalog_area = superblock->catalog_generation == 0 ? 0 : 1 - superblock->catalog_area;
  next.catalog_bytes = content.size();
  ImageHeader header{};
  std::memcpy(header.magic, kCatalogMagic, sizeof kCatalogMagic);
  header.format = kSuperblockFormat;
  header.generation = next.catalog_generation;
  header.content_bytes = content.size();
  header.crc = ChecksumOf(header, content);
  BlockBuffer image(sizeof header + content.size());
  StoreUnaligned(image.data(), header);
  if (!content.empty()) std::memcpy(image.data() + sizeof header, content.data(), content.size());
  TP_RETURN_IF_ERROR(WriteBlocks(queue, layout.CatalogOffset(next.catalog_area), image.bytes()));
  TP_RETURN_IF_ERROR(FlushDevice(queue));  // Before the superblock that names it.
  TP_FAILPOINT("catalog.written");
  TP_RETURN_IF_ERROR(WriteSuperblock(queue, next));
  TP_FAILPOINT("catalog.flipped");
  *superblock = next;
  return OkStatus();
}

Result<std::vector<std::byte>> ReadCatalog(DeviceQueue* queue, const Superblock& superblock) {
  if (superblock.catalog_generation == 0) return std::vector<std::byte>();
  const DeviceLayout& layout = superblock.layout;
  if (superblock.catalog_bytes > CatalogContentBytesMax(layout)) {
    return Damaged("the superblock says that it is larger than its area");
  }
  BlockBuffer image(sizeof(ImageHeader) + superblock.catalog_bytes);
  TP_RETURN_IF_ERROR(
      ReadBlocks(queue, layout.CatalogOffset(superblock.catalog_area), image.bytes()));
  const auto header = LoadUnaligned<ImageHeader>(image.data());
  const Bytes content = Bytes(image.bytes()).subspan(sizeof header, superblock.catalog_bytes);
  const bool is_sound =
      std::memcmp(header.magic, kCatalogMagic, sizeof kCatalogMagic) == 0 &&
      header.format == kSuperblockFormat && header.generation == superblock.catalog_generation &&
      header.content_bytes == superblock.catalog_bytes && header.crc == ChecksumOf(header, content);
  if (!is_sound) return Damaged("it is not what the superblock names");
  return std::vector<std::byte>(content.begin(), content.end());
}

Status TakeNewerCatalog(DeviceQueue* queue, Superblock* superblock) {
  const std::uint64_t generation = superblock->generation + 1;
  BlockBuffer block(kDeviceBlockBytes);
  TP_RETURN_IF_ERROR(
      ReadBlocks(queue, generation % kSuperblockSlots * kDeviceBlockBytes, block.bytes()));
  if (DecodeSuperblock(block.bytes()).code() != StatusCode::kDataLoss) return OkStatus();
  Superblock newer = *superblock;
  newer.catalog_area = superblock->catalog_generation == 0 ? 0 : 1 - superblock->catalog_area;
  TP_RETURN_IF_ERROR(
      ReadBlocks(queue, superblock->layout.CatalogOffset(newer.catalog_area), block.bytes()));
  newer.catalog_generation = generation;
  newer.catalog_bytes = LoadUnaligned<ImageHeader>(block.data()).content_bytes;
  const auto content = ReadCatalog(queue, newer);
  if (content.ok()) *superblock = newer;
  return content.code() == StatusCode::kDataLoss ? OkStatus() : content.status();
}

}  // namespace tidepool::storage
