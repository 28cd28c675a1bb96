// A checkpoint: up to where the durable streams of one core reach, as recovery will find them.
//
//   checkpointer writes it, recovery and log_check read it -> [checkpoint] -> bytes of one block
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "proto/base/bytes.h"
#include "proto/base/ids.h"
#include "proto/base/result.h"
#include "storage/device/device.h"
#include "storage/nvm/slot_scan.h"
#include "storage/nvm/superblock.h"

namespace tidepool::storage {

inline constexpr std::size_t kCheckpointOpenMax = 2;  // Durable streams.
// Segments whose headers may be wiped between a checkpoint and the next one: as many as its sector
// has room for.
inline constexpr std::size_t kCheckpointLeavingMax = 40;

// Where the commit ring goes on behind a checkpoint.
struct RingPosition {
  std::uint64_t commit = 1;    // The first one that the checkpoint does not cover.
  std::uint64_t offset = 0;    // Where it begins in the ring, in bytes: whole blocks.
  std::uint32_t checksum = 0;  // Of the commit before it.
  // Of the last change that the checkpoint covers, in this incarnation. Changes up to it may still
  // come in later commits.
  std::uint64_t position = 0;

  friend bool operator==(const RingPosition&, const RingPosition&) = default;
};

// Which segments there are, in a few bytes: one that is missing, or another one in its place, makes
// it another set.
struct SegmentSet {
  std::uint64_t count = 0;
  std::uint64_t sum = 0;  // Of hashes of their numbers.

  void Add(std::uint64_t number);
  void Remove(std::uint64_t number);
  friend bool operator==(const SegmentSet&, const SegmentSet&) = default;
};

struct Checkpoint {
  struct Open {
    std::uint64_t number = 0;  // 0: none.
    std::uint64_t end = 0;     // From its start, in bytes: whole blocks; 0: nothing is in it.

    friend bool operator==(const Open&, const Open&) = default;
  };
  Uuid volume{};
  std::uint32_t core = 0;
  std::uint64_t sequence = 0;  // From 1, grows by one: the greater one counts.
  std::uint64_t incarnation = 0;
  std::uint64_t at_ms = 0;  // Wall time of the cut.
  // Segments of durable streams with numbers from `first` to below `next` count: sealed ones up to
  // the record that ends them, those in `open` up to `end`.
  std::uint64_t first = 0;
  std::uint64_t next = 0;
  std::array<Open, kCheckpointOpenMax> open{};
  RingPosition ring;
  // Those of records that count and are not in `leaving`: all of them are on the device.
  SegmentSet segments;
  // Their records are dead, and they may be there or not; the first zero ends the list.
  std::array<std::uint64_t, kCheckpointLeavingMax> leaving{};
  // Something that counts was found missing, in segments with numbers below this one. 0: nothing.
  std::uint64_t lost_below = 0;

  enum class Standing : std::uint8_t { kBefore, kCounts, kBeyond };
  // Of the segment with this number.
  Standing StandingOf(std::uint64_t number) const;
  // How many of its bytes count, from its start; 0: all up to the record that ends it.
  std::uint32_t EndOf(std::uint64_t number) const;
  bool IsLeaving(std::uint64_t number) const;
  // Whether these, found on the device, are all that should be there: segments of records that
  // count.
  bool HasAll(std::span<const FoundSegment> counted) const;

  friend bool operator==(const Checkpoint&, const Checkpoint&) = default;
};

// All of it lies in the first sector of the block, which no file device tears.
void EncodeCheckpoint(const Checkpoint& checkpoint, MutableBytes block);
// For any bytes. What is accepted gives the same bytes when it is encoded again.
// Errors: kNotFound (zeros: never written), kDataLoss (damaged or torn).
Result<Checkpoint> DecodeCheckpoint(Bytes block);

struct FoundCheckpoints {
  std::optional<Checkpoint> newest;
  std::uint64_t block = 0;    // Of the core's two the one in which it lies.
  std::uint32_t unsound = 0;  // Blocks with something else than a checkpoint of this volume's core.
};
// `next_max`: no sound checkpoint of this volume goes beyond this segment number. Errors:
// kDeviceError.
Result<FoundCheckpoints> ReadCheckpoints(DeviceQueue* queue, const DeviceLayout& layout,
                                         CoreId core, const Uuid& volume, std::uint64_t next_max);

}  // namespace tidepool::storage
