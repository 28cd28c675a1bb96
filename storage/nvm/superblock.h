// The first two blocks of a device: what it is, whose it is and where the rest lies. They are
// written in turns, so that a write that tears leaves the other, older one.
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

// The format that this version writes and reads. Of every later one the magic, the format's number
// and the checksum will stand in the same places, so that each can tell that it is another.
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
  std::uint64_t slot = 0;        // What it means is for who writes checkpoints to say.
  std::uint64_t generation = 0;  // 0: there is none.

  friend bool operator==(const CheckpointAddress&, const CheckpointAddress&) = default;
};

struct Superblock {
  std::uint64_t generation = 0;   // Grows by one with each write; of the newest one counts.
  std::uint64_t incarnation = 0;  // Of the node that wrote it.
  bool clean_stop = false;        // That node ended in good order, and none has opened it since.
  Uuid cluster{};                 // Zeros: it was in none yet.
  Uuid node{};
  Uuid volume{};  // The same on all devices of a node.
  Uuid device{};
  std::uint32_t device_index = 0;  // Of device_count.
  std::uint32_t device_count = 1;
  // Where it lay at the last start. Hints: a disk may move, and a host be renamed.
  std::string host;
  std::uint64_t directory_device = 0;
  std::uint64_t directory_inode = 0;
  DeviceLayout layout;
  // The current catalog; generation 0: there is none.
  std::uint32_t catalog_area = 0;
  std::uint64_t catalog_generation = 0;
  std::uint64_t catalog_bytes = 0;  // Of its content.
  std::array<std::array<CheckpointAddress, kCheckpointsPerCore>, limits::kCoresPerNodeMax>
      checkpoints{};

  friend bool operator==(const Superblock&, const Superblock&) = default;
};

// `to` has kDeviceBlockBytes. `superblock` must be one that DecodeSuperblock takes.
void EncodeSuperblock(const Superblock& superblock, MutableBytes to);

// For any bytes, of any length. What is accepted gives the same bytes when it is encoded again.
// Errors: kNotFound (these bytes were never a superblock: no magic), kDataLoss (damaged or torn),
// kFailedPrecondition (another format, whose number is named).
Result<Superblock> DecodeSuperblock(Bytes block);

// Reads the newest sound one of the two. Errors: kNotFound (no superblock: not ours),
// kFailedPrecondition (one of them is of another format), kDataLoss (all that there is is damaged),
// kDeviceError.
Result<Superblock> ReadSuperblock(DeviceQueue* queue);

// Writes it to the slot of its generation; durable when this returns kOk. Of a device that has one,
// `superblock.generation` must be that of what ReadSuperblock gave plus one: the write then cannot
// hurt it. Errors: kDeviceError; nobody knows then which of the two will be read, so nothing may be
// written behind it.
Status WriteSuperblock(DeviceQueue* queue, const Superblock& superblock);

// Whether this device was never put to use: its first block is blank and the second is no sound
// superblock, as in memory that was just made or whose formatting did not end. (What is formatted
// has generation 1, in the second block; who uses it has written the first one before.)
Result<bool> IsUnformatted(DeviceQueue* queue);

}  // namespace tidepool::storage
