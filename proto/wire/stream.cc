#include "proto/wire/stream.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "proto/base/check.h"

namespace tidepool::wire {
namespace {

Status MalformedStream(const char* what) {
  return Status(StatusCode::kInvalidArgument, std::string("malformed stream frame: ") + what);
}

}  // namespace

Status DecodeStream(Bytes frame, StreamFrame* out) {
  const std::size_t head_bytes = std::min(frame.size(), kStreamHeadBytes);
  return DecodeStreamParts(frame.first(head_bytes), frame.subspan(head_bytes), out);
}

Status DecodeStreamParts(Bytes head, Bytes body, StreamFrame* out) {
  TP_RETURN_IF_ERROR(DecodeHeader(head, head.size() + body.size(), &out->header));
  const bool part = out->header.type == FrameType::kStreamPart;
  if (!part && out->header.type != FrameType::kStreamAck) return MalformedStream("type");
  if (head.size() != kStreamHeadBytes) return MalformedStream("header cut off");
  const Bytes stream = head.subspan(limits::kFrameHeaderBytes);
  // Checked before it becomes an enum.
  const auto code = std::to_integer<std::uint8_t>(stream[offsetof(StreamHeader, code)]);
  if (code >= kStatusCodeCount) return MalformedStream("code");
  out->stream = LoadUnaligned<StreamHeader>(stream.data());
  out->data = body;
  if (out->stream.upload > 1 || out->stream.reserved != 0)
    return MalformedStream("reserved bits set");
  if (out->stream.total_bytes > limits::kValueBytesMax) return MalformedStream("value too long");
  if (out->stream.offset > out->stream.total_bytes) return MalformedStream("offset behind the end");
  if (!part && !out->data.empty()) return MalformedStream("an ack with data");
  if (out->data.size() > out->stream.total_bytes - out->stream.offset) {
    return MalformedStream("part behind the end");
  }
  return OkStatus();
}

void EncodeStreamHead(FrameHeader header, const StreamHeader& stream, std::size_t data_bytes,
                      std::array<std::byte, kStreamHeadBytes>* head) {
  TP_CHECK(data_bytes <= limits::kStreamPartBytesMax);
  TP_DCHECK(header.type == FrameType::kStreamPart ||
            (header.type == FrameType::kStreamAck && data_bytes == 0));
  header.bytes = static_cast<std::uint32_t>(kStreamHeadBytes + data_bytes);
  StoreHeader(head->data(), header);
  StoreUnaligned(head->data() + limits::kFrameHeaderBytes, stream);
}

std::size_t EncodeStream(const FrameHeader& header, const StreamHeader& stream, Bytes data,
                         MutableBytes frame) {
  TP_CHECK(kStreamHeadBytes + data.size() <= frame.size());
  std::array<std::byte, kStreamHeadBytes> head;
  EncodeStreamHead(header, stream, data.size(), &head);
  std::memcpy(frame.data(), head.data(), head.size());
  if (!data.empty()) std::memcpy(frame.data() + head.size(), data.data(), data.size());
  return head.size() + data.size();
}

}  // namespace tidepool::wire
