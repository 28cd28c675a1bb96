// The unit that travels: a header, and behind it what the type says.
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
  kDetach = 5,  // Of a client: it leaves. Of a daemon: it ends the session.
};
inline constexpr std::uint8_t kFrameTypeMax = 5;

// 72 bytes. Fields that a type does not use are 0.
struct FrameHeader {
  std::uint32_t magic = kFrameMagic;
  std::uint8_t version = kWireVersion;
  FrameType type = FrameType::kRequest;
  std::uint16_t core = 0;   // The addressed core's number, so that a stray frame is noticed.
  std::uint32_t bytes = 0;  // Of the whole frame.
  std::uint32_t connection =
      0;  // Counts the session's attaches: frames of an older one are dropped.
  std::uint64_t session = 0;
  // Numbers the requests of one session and core from 1; an answer carries its request's.
  std::uint64_t frame_id = 0;
  std::uint64_t map_epoch = 0;  // Information only: ownership decides.
  // All requests of this session and core below it are answered or given up: cached replies may go.
  std::uint64_t ack_watermark = 0;
  std::uint32_t time_left_us = 0;     // Request: clocks differ, so a duration. At most 71 minutes.
  std::uint32_t reply_bytes_max = 0;  // Request: what its answers may take of the answer credit.
  std::uint32_t operation_count = 0;  // Request: of all groups. Answer: entries.
  // Request. Answer of forwarded groups: how many sessions' operations have lately travelled
  // together, this one's included.
  std::uint32_t group_count = 0;
  std::uint64_t checkpoint = 0;  // Answer: a CheckpointStamp.
};
static_assert(sizeof(FrameHeader) == limits::kFrameHeaderBytes);
static_assert(std::is_trivially_copyable_v<FrameHeader>);

// How safe an answer's changes are, on its core's own clock, in ms since 1970: what was answered at
// a time before the `durable_at_ms` of any answer of the same core is on its devices.
struct CheckpointStamp {
  std::uint64_t at_ms = 0;  // When it was answered. 0: the node has no devices.
  // Of the core's last checkpoint. 0: it has none, or none of the last 17 minutes.
  std::uint64_t durable_at_ms = 0;

  std::uint64_t Pack() const;
  static CheckpointStamp Unpack(std::uint64_t packed);
};

// Writes `header` at `to`, which has room for kFrameHeaderBytes.
inline void StoreHeader(std::byte* to, const FrameHeader& header) { StoreUnaligned(to, header); }

// Decodes and checks what every frame has in common: magic, version, type, and bytes ==
// frame.size(). Returns: kOk, kInvalidArgument (*header unspecified).
Status DecodeHeader(Bytes frame, FrameHeader* header);
// Of a frame of `frame_bytes` that begins with `head`.
Status DecodeHeader(Bytes head, std::size_t frame_bytes, FrameHeader* header);

}  // namespace tidepool::wire
