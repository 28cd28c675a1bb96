// Checkpoint of a core: how far its durable streams reach. Recovery starts from it.
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

inline constexpr std::size_t kCheckpointOpenMax = 2;  // Number of durable streams.
// Bound on the segments whose headers may be wiped between a checkpoint and the next: as many as
// the checkpoint's sector has room for.
inline constexpr std::size_t kCheckpointLeavingMax = 40;

// Where the commit ring goes on behind a checkpoint.
struct RingPosition {
  std::uint64_t commit = 1;    // First commit that the checkpoint does not cover.
  std::uint64_t offset = 0;    // Offset of this commit in the ring, in bytes: whole blocks.
  std::uint32_t checksum = 0;  // Checksum of the commit before it.
  // Position of the last change that the checkpoint covers, in this incarnation. Later commits may
  // still contain changes up to it.
  std::uint64_t position = 0;

  friend bool operator==(const RingPosition&, const RingPosition&) = default;
};

// Fingerprint of a set of segments, in a few bytes. A missing or replaced segment changes
// it.
struct SegmentSet {
  std::uint64_t count = 0;
  std::uint64_t sum = 0;  // Sum of hashes of the segment numbers.

  void Add(std::uint64_t number);
  void Remove(std::uint64_t number);
  friend bool operator==(const SegmentSet&, const SegmentSet&) = default;
};

struct Checkpoint {
  struct Open {
    std::uint64_t number = 0;  // 0: none.
    std::uint64_t end = 0;     // Bytes from the segment's start: whole blocks; 0: it is empty.

    friend bool operator==(const Open&, const Open&) = default;
  };
  Uuid volume{};
  std::uint32_t core = 0;
  std::uint64_t sequence = 0;  // From 1, grows by one: the greater number counts.
  std::uint64_t incarnation = 0;
  std::uint64_t at_ms = 0;  // Wall time of the cut.
  // Segments of durable streams with `first` <= number < `next` count: sealed segments up to their
  // end record, segments in `open` up to `end`.
  std::uint64_t first = 0;
  std::uint64_t next = 0;
  std::array<Open, kCheckpointOpenMax> open{};
  RingPosition ring;
  // Record segments that count and are not in `leaving`: each is on the device.
  SegmentSet segments;
  // Their records are dead, and they may be there or not; the first zero ends the list.
  std::array<std::uint64_t, kCheckpointLeavingMax> leaving{};
  // Data that counts was found missing, in segments with numbers below this bound. 0: no loss.
  std::uint64_t lost_below = 0;

  enum class Standing : std::uint8_t { kBefore, kCounts, kBeyond };
  // Returns the standing of the segment with this number.
  Standing StandingOf(std::uint64_t number) const;
  // Returns how many bytes of the segment count, from its start; 0: all up to its end record.
  std::uint32_t EndOf(std::uint64_t number) const;
  bool IsLeaving(std::uint64_t number) const;
  // Returns whether the device has all record segments that should be there. `counted`: the record
  // segments found on the device that count.
  bool HasAll(std::span<const FoundSegment> counted) const;

  friend bool operator==(const Checkpoint&, const Checkpoint&) = default;
};

// Encodes all fields into the first sector of the block, which no file device tears.
void EncodeCheckpoint(const Checkpoint& checkpoint, MutableBytes block);
// Accepts any bytes. An accepted checkpoint encodes to the same bytes again. Errors: kNotFound
// (zeros: never written), kDataLoss (damaged or torn).
Result<Checkpoint> DecodeCheckpoint(Bytes block);

struct FoundCheckpoints {
  std::optional<Checkpoint> newest;
  std::uint64_t block = 0;    // Which of the core's two blocks contains `newest`.
  std::uint32_t unsound = 0;  // Blocks whose content is not a checkpoint of this volume and core.
};
// Reads both blocks. `next_max`: no sound checkpoint of this volume reaches beyond this segment
// number. Errors: kDeviceError.
Result<FoundCheckpoints> ReadCheckpoints(DeviceQueue* queue, const DeviceLayout& layout,
                                         CoreId core, const Uuid& volume, std::uint64_t next_max);

}  // namespace tidepool::storage
