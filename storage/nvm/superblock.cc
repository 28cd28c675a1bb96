#include "storage/nvm/superblock.h"

#include <sys/random.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "proto/base/check.h"
#include "storage/device/device_io.h"
#include "storage/nvm/crc32c.h"

namespace tidepool::storage {
namespace {

constexpr char kSuperblockMagic[8] = {'T', 'I', 'D', 'E', 'N', 'V', 'M', '\n'};

// The block as it is stored. storage/FORMAT.md has it byte by byte.
struct Stored {
  char magic[8];
  std::uint32_t format;
  std::uint32_t crc;  // CRC32C of the whole block with zeros here.
  std::uint64_t generation;
  std::uint64_t incarnation;
  Uuid cluster;
  Uuid node;
  Uuid volume;
  Uuid device;
  std::uint64_t directory_device;
  std::uint64_t directory_inode;
  std::uint32_t clean_stop;  // 0 or 1.
  std::uint32_t cores;
  std::uint32_t device_index;
  std::uint32_t device_count;
  char host[kHostBytesMax];  // Filled up with zeros.
  std::uint64_t device_bytes;
  std::uint64_t slot_bytes;
  std::uint64_t slot_count;
  std::uint64_t slots_begin;
  std::uint64_t checkpoints_begin;
  std::uint64_t rings_begin;
  std::uint64_t ring_bytes;
  std::uint64_t catalog_begin;
  std::uint64_t catalog_area_bytes;
  std::uint64_t catalog_generation;
  std::uint64_t catalog_bytes;
  std::uint32_t catalog_area;
  std::uint32_t reserved;
  CheckpointAddress checkpoints[limits::kCoresPerNodeMax][kCheckpointsPerCore];
};
static_assert(std::is_trivially_copyable_v<Stored>);
static_assert(offsetof(Stored, format) == 8 && offsetof(Stored, crc) == 12);
static_assert(offsetof(Stored, cluster) == 32 && offsetof(Stored, host) == 128);
static_assert(offsetof(Stored, device_bytes) == 384 && offsetof(Stored, catalog_area) == 472);
static_assert(offsetof(Stored, checkpoints) == 480);
static_assert(sizeof(Stored) == 480 + 64 * 2 * 16);
static_assert(sizeof(Stored) <= kDeviceBlockBytes);

std::uint32_t ChecksumOf(Bytes block) {
  constexpr std::byte kNoCrc[sizeof(std::uint32_t)] = {};
  const std::uint32_t before = Crc32c(block.first(offsetof(Stored, crc)));
  return Crc32c(block.subspan(offsetof(Stored, crc) + sizeof kNoCrc), Crc32c(kNoCrc, before));
}

bool IsZero(Bytes bytes) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [](std::byte byte) { return byte == std::byte{}; });
}

bool HasMagic(Bytes block) {
  return block.size() == kDeviceBlockBytes &&
         std::memcmp(block.data(), kSuperblockMagic, sizeof kSuperblockMagic) == 0;
}

void SetLayout(const DeviceLayout& layout, Stored* stored) {
  stored->cores = layout.cores;
  stored->device_bytes = layout.device_bytes;
  stored->slot_bytes = layout.slot_bytes;
  stored->slot_count = layout.slot_count;
  stored->slots_begin = layout.slots_begin;
  stored->checkpoints_begin = layout.checkpoints_begin;
  stored->rings_begin = layout.rings_begin;
  stored->ring_bytes = layout.ring_bytes;
  stored->catalog_begin = layout.catalog_begin;
  stored->catalog_area_bytes = layout.catalog_area_bytes;
}

DeviceLayout LayoutOf(const Stored& stored) {
  DeviceLayout layout;
  layout.cores = stored.cores;
  layout.device_bytes = stored.device_bytes;
  layout.slot_bytes = stored.slot_bytes;
  layout.slot_count = stored.slot_count;
  layout.slots_begin = stored.slots_begin;
  layout.checkpoints_begin = stored.checkpoints_begin;
  layout.rings_begin = stored.rings_begin;
  layout.ring_bytes = stored.ring_bytes;
  layout.catalog_begin = stored.catalog_begin;
  layout.catalog_area_bytes = stored.catalog_area_bytes;
  return layout;
}

bool IsCanonical(const Stored& stored, Bytes block) {
  const std::size_t host_bytes = strnlen(stored.host, kHostBytesMax);
  const Bytes host = std::as_bytes(std::span(stored.host));
  const auto* unused = reinterpret_cast<const CheckpointAddress*>(stored.checkpoints);
  const std::size_t used = std::size_t{stored.cores} * kCheckpointsPerCore;
  return stored.generation > 0 && stored.clean_stop <= 1 && stored.reserved == 0 &&
         stored.device_count >= 1 && stored.device_index < stored.device_count &&
         IsZero(host.subspan(host_bytes)) && IsZero(block.subspan(sizeof(Stored))) &&
         IsSound(LayoutOf(stored)) &&  // Thus `used` is in range.
         std::all_of(unused + used, unused + limits::kCoresPerNodeMax * kCheckpointsPerCore,
                     [](const CheckpointAddress& each) { return each == CheckpointAddress(); }) &&
         stored.catalog_area < kCatalogAreas && stored.catalog_bytes <= stored.catalog_area_bytes &&
         stored.catalog_generation <= stored.generation;
}

Superblock FromStored(const Stored& stored) {
  Superblock superblock;
  superblock.generation = stored.generation;
  superblock.incarnation = stored.incarnation;
  superblock.clean_stop = stored.clean_stop == 1;
  superblock.cluster = stored.cluster;
  superblock.node = stored.node;
  superblock.volume = stored.volume;
  superblock.device = stored.device;
  superblock.device_index = stored.device_index;
  superblock.device_count = stored.device_count;
  superblock.host.assign(stored.host, strnlen(stored.host, kHostBytesMax));
  superblock.directory_device = stored.directory_device;
  superblock.directory_inode = stored.directory_inode;
  superblock.layout = LayoutOf(stored);
  superblock.catalog_area = stored.catalog_area;
  superblock.catalog_generation = stored.catalog_generation;
  superblock.catalog_bytes = stored.catalog_bytes;
  std::memcpy(superblock.checkpoints.data(), stored.checkpoints, sizeof stored.checkpoints);
  return superblock;
}

}  // namespace

Result<Uuid> ParseUuid(std::string_view text) {
  const Status refused(StatusCode::kInvalidArgument, "'" + std::string(text) + "' is no UUID");
  if (text.size() != 36) return refused;
  Uuid uuid{};
  std::size_t digits = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (is_dash != (text[i] == '-')) return refused;
    if (is_dash) continue;
    constexpr std::string_view kDigits = "0123456789abcdef";
    const std::size_t value = kDigits.find(text[i]);
    if (value == std::string_view::npos) return refused;
    uuid[digits / 2] |= static_cast<std::byte>(digits % 2 == 0 ? value << 4 : value);
    ++digits;
  }
  return uuid;
}

std::string FormatUuid(const Uuid& uuid) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    const auto byte = static_cast<unsigned>(uuid[i]);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

Uuid RandomUuid() {
  Uuid uuid;
  // Few bytes always come whole, once the machine has started.
  TP_CHECK(getrandom(uuid.data(), uuid.size(), 0) == static_cast<ssize_t>(uuid.size()));
  uuid[6] = (uuid[6] & std::byte{0x0f}) | std::byte{0x40};  // Version 4, variant 1.
  uuid[8] = (uuid[8] & std::byte{0x3f}) | std::byte{0x80};
  return uuid;
}

void EncodeSuperblock(const Superblock& superblock, MutableBytes to) {
  TP_CHECK(to.size() == kDeviceBlockBytes);
  TP_CHECK(superblock.host.size() <= kHostBytesMax);
  Stored stored{};
  std::memcpy(stored.magic, kSuperblockMagic, sizeof kSuperblockMagic);
  stored.format = kSuperblockFormat;
  stored.generation = superblock.generation;
  stored.incarnation = superblock.incarnation;
  stored.clean_stop = superblock.clean_stop ? 1 : 0;
  stored.cluster = superblock.cluster;
  stored.node = superblock.node;
  stored.volume = superblock.volume;
  stored.device = superblock.device;
  stored.device_index = superblock.device_index;
  stored.device_count = superblock.device_count;
  std::memcpy(stored.host, superblock.host.data(), superblock.host.size());
  stored.directory_device = superblock.directory_device;
  stored.directory_inode = superblock.directory_inode;
  SetLayout(superblock.layout, &stored);
  stored.catalog_area = superblock.catalog_area;
  stored.catalog_generation = superblock.catalog_generation;
  stored.catalog_bytes = superblock.catalog_bytes;
  std::memcpy(stored.checkpoints, superblock.checkpoints.data(), sizeof stored.checkpoints);
  std::memset(to.data(), 0, to.size());
  StoreUnaligned(to.data(), stored);
  TP_CHECK(IsCanonical(stored, to));
  StoreUnaligned(to.data() + offsetof(Stored, crc), ChecksumOf(to));
}

Result<Superblock> DecodeSuperblock(Bytes block) {
  if (!HasMagic(block)) {
    return Status(StatusCode::kNotFound, "there is no superblock of Tidepool");
  }
  const auto stored = LoadUnaligned<Stored>(block.data());
  if (stored.crc != ChecksumOf(block)) {
    return Status(StatusCode::kDataLoss, "the superblock is damaged: its checksum is wrong");
  }
  if (stored.format != kSuperblockFormat) {
    return Status(StatusCode::kFailedPrecondition,
                  "it was written in format " + std::to_string(stored.format) +
                      ", this version reads format " + std::to_string(kSuperblockFormat),
                  "use the version of kvd that wrote it");
  }
  if (!IsCanonical(stored, block)) {
    return Status(StatusCode::kDataLoss, "the superblock contradicts itself");
  }
  return FromStored(stored);
}

Result<Superblock> ReadSuperblock(DeviceQueue* queue) {
  BlockBuffer blocks(kSuperblockSlots * kDeviceBlockBytes);
  TP_RETURN_IF_ERROR(ReadBlocks(queue, 0, blocks.bytes()));
  Result<Superblock> newest = DecodeSuperblock(Bytes(blocks.bytes()).first(kDeviceBlockBytes));
  if (newest.code() == StatusCode::kFailedPrecondition) return newest;
  auto other = DecodeSuperblock(Bytes(blocks.bytes()).subspan(kDeviceBlockBytes));
  if (other.code() == StatusCode::kFailedPrecondition) return other;
  const bool takes_other = other.ok() && (!newest.ok() || other->generation > newest->generation);
  // Where neither is sound, damage says more than absence.
  const bool tells_other = !newest.ok() && !other.ok() && newest.code() == StatusCode::kNotFound;
  return takes_other || tells_other ? other : newest;
}

Status WriteSuperblock(DeviceQueue* queue, const Superblock& superblock) {
  BlockBuffer block(kDeviceBlockBytes);
  EncodeSuperblock(superblock, block.bytes());
  return WriteBlocksThrough(queue, superblock.generation % kSuperblockSlots * kDeviceBlockBytes,
                            block.bytes());
}

Result<bool> IsUnformatted(DeviceQueue* queue) {
  BlockBuffer blocks(kSuperblockSlots * kDeviceBlockBytes);
  TP_RETURN_IF_ERROR(ReadBlocks(queue, 0, blocks.bytes()));
  const Bytes both = blocks.bytes();
  return IsZero(both.first(kDeviceBlockBytes)) &&
         !DecodeSuperblock(both.subspan(kDeviceBlockBytes)).ok();
}

}  // namespace tidepool::storage
