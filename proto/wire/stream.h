// Values above kUnstreamedValueBytesMax travel as ordered parts, both ways, by a common state
// machine.
//
// Put: the client numbers an upload and sends its parts; the daemon collects them in unpublished
// memory and acknowledges. When all bytes are acknowledged, the client sends an ordinary Put that
// names the upload, which is published as a whole. Nothing of a value is visible before that, and
// the Put itself is small: exactly-once needs no extra rule for streams.
// Get: an answer entry says `streamed`; the daemon pins the value and sends parts under
// {frame_id, operation index}; the client acknowledges.
//
// The receiver's acknowledgements are the flow control: a sender has at most kStreamWindowBytes of
// one value unacknowledged.
#pragma once

#include <array>
#include <cstdint>

#include "proto/base/bytes.h"
#include "proto/base/status.h"
#include "proto/wire/frame.h"

namespace tidepool::wire {

// The 24 bytes behind a stream frame's header; a part's data follows.
struct StreamHeader {
  // Put: the client's number for the upload (per session and core, from 1). Get: operation index.
  std::uint64_t stream = 0;
  // Part: where its data belongs. Ack: bytes received without a gap.
  std::uint64_t offset = 0;
  // Size of the whole value.
  std::uint32_t total_bytes = 0;
  StatusCode code =
      StatusCode::kOk;  // Other than kOk: the sender of this frame gave the stream up.
  // True for an upload (Put: parts from client to daemon), false for a Get.
  std::uint8_t upload = 0;
  std::uint16_t reserved = 0;
};
static_assert(sizeof(StreamHeader) == 24);
static_assert(limits::kFrameHeaderBytes + sizeof(StreamHeader) + limits::kStreamPartBytesMax <=
              limits::kFrameBytesMax);

struct StreamFrame {
  FrameHeader header;
  StreamHeader stream;
  Bytes data;  // A view of the frame; empty in an ack.
};

// Decodes a kStreamPart or kStreamAck frame; checks that the part lies inside the value.
// Returns: kOk, kInvalidArgument.
Status DecodeStream(Bytes frame, StreamFrame* out);
// Decodes a frame in two parts. The second part is data, which is not read. Returns
// kInvalidArgument also if the first part contains data, too.
Status DecodeStreamParts(Bytes head, Bytes body, StreamFrame* out);

// Writes the head of a part (type kStreamPart; its data follows) or of an ack (type kStreamAck,
// without data) to `head`. Fills in bytes.
inline constexpr std::size_t kStreamHeadBytes = limits::kFrameHeaderBytes + sizeof(StreamHeader);
void EncodeStreamHead(FrameHeader header, const StreamHeader& stream, std::size_t data_bytes,
                      std::array<std::byte, kStreamHeadBytes>* head);
// Encodes both in a row to `frame`, which has room for it. Returns the frame's bytes.
std::size_t EncodeStream(const FrameHeader& header, const StreamHeader& stream, Bytes data,
                         MutableBytes frame);

}  // namespace tidepool::wire
