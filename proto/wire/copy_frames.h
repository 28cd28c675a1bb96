// Messages between the cores of two daemons by which a copy of a partition is filled.
//
// A frame is a header, then messages in a row. Positions count the bytes of messages, so a single
// number acknowledges all that came before. Clients send no such frames: the magic differs from
// that of frame.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "proto/base/bytes.h"
#include "proto/base/ids.h"
#include "proto/base/limits.h"

namespace tidepool::wire {

inline constexpr std::uint32_t kCopyMagic = 0x31435054;  // "TPC1"
inline constexpr std::uint8_t kCopyWireVersion = 1;

struct CopyFrameHeader {
  std::uint32_t magic = kCopyMagic;
  std::uint8_t version = kCopyWireVersion;
  std::uint8_t reserved = 0;
  std::uint16_t core = 0;      // Number of the addressed core.
  std::uint64_t link = 0;      // The link's secret number.
  std::uint64_t position = 0;  // In the link, at the frame's end. 0: sent beside the stream.
};
static_assert(sizeof(CopyFrameHeader) == 24);
static_assert(std::is_trivially_copyable_v<CopyFrameHeader>);

// Returns whether the frame is between daemons; the rest of it may be any bytes.
inline bool IsCopyFrame(Bytes frame) {
  return frame.size() >= sizeof(CopyFrameHeader) &&
         LoadUnaligned<std::uint32_t>(frame.data()) == kCopyMagic;
}

enum class CopyMessageKind : std::uint8_t {
  // From the source.
  kPut = 1,     // The key has this value.
  kDelete = 2,  // The key is gone.
  // Of a value in parts: `value_flags` is its slot, see kCopySlots. Such values have no flags.
  kLargeBegin = 3,  // A value of `number` bytes begins; the key comes with its end.
  kLargePart = 4,   // `value` belongs at `number`.
  kLargeEnd = 5,    // The key has the value that has come.
  kLargeDrop = 6,   // The key has changed meanwhile: the value means nothing.
  kEnd = 7,         // The copy has all changes.
  kDrop = 8,        // The copy is not wanted any more, and can no longer become the owner.
  kAlive = 9,       // Nothing but a sign of life.
  // From the target.
  kAck = 10,     // All up to position `number` was applied, or belongs to no copy.
  kWhole = 11,   // kEnd was applied.
  kFailed = 12,  // The copy was thrown away; `number` is a StatusCode.
};
inline constexpr std::uint8_t kCopyMessageKindMax = 12;

struct CopyMessage {
  CopyMessageKind kind = CopyMessageKind::kAlive;
  std::uint8_t value_flags = 0;
  PartitionId partition;
  std::uint32_t copy = 0;  // Tells this copy of the partition from copies that were given up.
  Bytes key;
  Bytes value;
  Bytes value_tail;  // Follows `value`; encoding only.
  std::uint64_t version = 0;
  std::uint64_t expiry_ms = 0;
  std::uint64_t number = 0;
};

// A copy has a value under way in each slot: one whose parts follow each other, and one that gives
// way to other changes between its parts.
inline constexpr std::uint8_t kCopySlotAtOnce = 0;
inline constexpr std::uint8_t kCopySlotBeside = 1;
inline constexpr std::size_t kCopySlots = 2;

inline constexpr std::size_t kCopyMessageHeaderBytes = 40;
// Values above it go in parts.
inline constexpr std::size_t kCopyValueBytesMax = 32 * 1024;
static_assert(sizeof(CopyFrameHeader) + kCopyMessageHeaderBytes + limits::kKeyBytesMax +
                  kCopyValueBytesMax <=
              limits::kFrameBytesMax);

std::size_t BytesOf(const CopyMessage& message);
// REQUIRES: room for BytesOf(message). Returns the bytes written.
std::size_t EncodeCopyMessage(const CopyMessage& message, std::byte* to);

// Decodes the messages of a frame's body, which may be any bytes.
class CopyMessages {
 public:
  explicit CopyMessages(Bytes body) : rest_(body) {}

  // False: no message is left, or what is left is malformed. Views are those of the body.
  bool Next(CopyMessage* message);
  bool malformed() const { return malformed_; }
  std::size_t bytes_left() const { return rest_.size(); }

 private:
  Bytes rest_;
  bool malformed_ = false;
};

}  // namespace tidepool::wire
