// A frame, the unit of transfer: a header, and behind it a body that depends on the type.
//
// - request: groups of operations (group.h);
// - answer: entries that name operations of one request by index (answer.h); may come in pieces;
// - stream part: bytes of a value above kUnstreamedValueBytesMax (stream.h);
// - stream ack: returns credit for parts, or cancels the stream;
// - detach: the client leaves; the daemon forgets the session on this core.
//
// All integers are little-endian and unaligned. Every decoder of this folder is total: any bytes
// give a value or a Status, never a read beyond the end.
#pragma once

#include <cstdint>

#include "proto/base/bytes.h"
#include "proto/base/ids.h"
#include "proto/base/limits.h"
#include "proto/base/status.h"

namespace tidepool::wire {

inline constexpr std::uint32_t kFrameMagic = 0x31465054;  // "TPF1"
inline constexpr std::uint8_t kWireVersion = 1;

enum class FrameType : std::uint8_t {
  kRequest = 1,
  kAnswer = 2,
  kStreamPart = 3,
  kStreamAck = 4,
  kDetach = 5,  // From a client: it leaves. From a daemon: it ends the session.
};
inline constexpr std::uint8_t kFrameTypeMax = 5;

// 72 bytes. Fields that a type does not use are 0.
struct FrameHeader {
  std::uint32_t magic = kFrameMagic;
  std::uint8_t version = kWireVersion;
  FrameType type = FrameType::kRequest;
  std::uint16_t core = 0;   // Number of the addressed core, which reveals misrouted frames.
  std::uint32_t bytes = 0;  // Size of the whole frame.
  std::uint32_t connection =
      0;  // Counts the session's attaches: frames of an older attach are dropped.
  std::uint64_t session = 0;
  // Numbers the requests of one session and core from 1; an answer carries its request's.
  std::uint64_t frame_id = 0;
  std::uint64_t map_epoch = 0;  // Information only: ownership decides.
  // All requests of this session and core below it are answered or given up: cached replies may go.
  std::uint64_t ack_watermark = 0;
  std::uint32_t time_left_us = 0;     // Request: clocks differ, so a duration. At most 71 minutes.
  std::uint32_t reply_bytes_max = 0;  // Request: share of the answer credit for its answers.
  std::uint32_t operation_count = 0;  // Request: operations of all groups. Answer: entries.
  // Request. Answer of forwarded groups: number of sessions whose operations have lately travelled
  // together, with this session.
  std::uint32_t group_count = 0;
  std::uint64_t checkpoint = 0;  // Answer: a CheckpointStamp.
};
static_assert(sizeof(FrameHeader) == limits::kFrameHeaderBytes);
static_assert(std::is_trivially_copyable_v<FrameHeader>);

// Safety of an answer's changes, on its core's own clock, in ms since 1970. A change answered
// before the `durable_at_ms` of any answer of the same core is on its devices.
struct CheckpointStamp {
  std::uint64_t at_ms = 0;  // Time of the answer. 0: the node has no devices.
  // Core's last checkpoint. 0: no checkpoint, or not in the last 17 minutes.
  std::uint64_t durable_at_ms = 0;

  std::uint64_t Pack() const;
  static CheckpointStamp Unpack(std::uint64_t packed);
};

// Writes `header` at `to`, which has room for kFrameHeaderBytes.
inline void StoreHeader(std::byte* to, const FrameHeader& header) { StoreUnaligned(to, header); }

// Decodes and checks what every frame has in common: magic, version, type, and bytes ==
// frame.size(). Returns: kOk, kInvalidArgument (*header unspecified).
Status DecodeHeader(Bytes frame, FrameHeader* header);
// Decodes the header of a frame of `frame_bytes` that begins with `head`.
Status DecodeHeader(Bytes head, std::size_t frame_bytes, FrameHeader* header);

}  // namespace tidepool::wire
