// First two blocks of a device: its format, its owner and its layout. They are written in turns: a
// torn write leaves the other, older superblock.
//
//   nvm/volume, nvm/catalog -> [superblock] -> device
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "proto/base/bytes.h"
#include "proto/base/result.h"
#include "storage/device/device.h"
#include "storage/nvm/layout_plan.h"

namespace tidepool::storage {

// Format that this version writes and reads. Later formats keep the places of magic, format number
// and checksum, so each version recognizes a foreign format.
inline constexpr std::uint32_t kSuperblockFormat = 5;
inline constexpr std::size_t kHostBytesMax = 256;
inline constexpr std::size_t kCheckpointsPerCore = 2;

using Uuid = std::array<std::byte, 16>;
// 32 hexadecimal digits in groups of 8-4-4-4-12. Errors: kInvalidArgument.
Result<Uuid> ParseUuid(std::string_view text);
std::string FormatUuid(const Uuid& uuid);
Uuid RandomUuid();

// A durable image of a core's indexes.
struct CheckpointAddress {
  std::uint64_t slot = 0;        // Defined by the writer of checkpoints.
  std::uint64_t generation = 0;  // 0: no image.

  friend bool operator==(const CheckpointAddress&, const CheckpointAddress&) = default;
};

struct Superblock {
  std::uint64_t generation = 0;   // Grows by 1 with each write; the greatest counts.
  std::uint64_t incarnation = 0;  // Incarnation of the node that wrote it.
  bool clean_stop = false;        // The node stopped in order, and no node opened it since.
  Uuid cluster{};                 // Zeros: not yet in a cluster.
  Uuid node{};
  Uuid volume{};  // Equal on all devices of a node.
  Uuid device{};
  std::uint32_t device_index = 0;  // Below device_count.
  std::uint32_t device_count = 1;
  // Location at the last start. Hints: a disk may move, and a host be renamed.
  std::string host;
  std::uint64_t directory_device = 0;
  std::uint64_t directory_inode = 0;
  DeviceLayout layout;
  // Current catalog; generation 0: no catalog.
  std::uint32_t catalog_area = 0;
  std::uint64_t catalog_generation = 0;
  std::uint64_t catalog_bytes = 0;  // Size of its content.
  std::array<std::array<CheckpointAddress, kCheckpointsPerCore>, limits::kCoresPerNodeMax>
      checkpoints{};

  friend bool operator==(const Superblock&, const Superblock&) = default;
};

// Encodes `superblock`, which DecodeSuperblock must accept, into `to` of kDeviceBlockBytes.
void EncodeSuperblock(const Superblock& superblock, MutableBytes to);

// Accepts any bytes of any length. An accepted superblock encodes to the same bytes again. Errors:
// kNotFound (no magic: never a superblock), kDataLoss (damaged or torn), kFailedPrecondition
// (another format; the text has its number).
Result<Superblock> DecodeSuperblock(Bytes block);

// Reads the newest sound superblock of the two. Errors: kNotFound (no superblock: not ours),
// kFailedPrecondition (a superblock has another format), kDataLoss (all superblocks present are
// damaged), kDeviceError.
Result<Superblock> ReadSuperblock(DeviceQueue* queue);

// Writes the superblock to the slot of its generation; it is durable after kOk. On a device with a
// superblock, `superblock.generation` must be the generation from ReadSuperblock plus 1: the write
// then cannot hurt that superblock. Errors: kDeviceError; it is then unknown which superblock will
// be read, and no writes may follow.
Status WriteSuperblock(DeviceQueue* queue, const Superblock& superblock);

// Returns whether this device was never used: its first block is blank and the second is no sound
// superblock, as in new memory or after an interrupted formatting. (A formatted device has
// generation 1, in the second block; the first user writes the first block before.)
Result<bool> IsUnformatted(DeviceQueue* queue);

}  // namespace tidepool::storage
