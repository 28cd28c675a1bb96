#include "proto/wire/stream.h"

#include <string>

#include "proto/base/check.h"

namespace tidepool::wire {
namespace {

Status Malformed(const char* what) {
  return Status(StatusCode::kInvalidArgument, std::string("malformed stream frame: ") + what);
}

}  // namespace

Status DecodeStream(Bytes frame, StreamFrame* out) {
  TP_RETURN_IF_ERROR(DecodeHeader(frame, &out->header));
  const bool part = out->header.type == FrameType::kStreamPart;
  if (!part && out->header.type != FrameType::kStreamAck) return Malformed("type");
  const Bytes body = frame.subspan(limits::kFrameHeaderBytes);
  if (body.size() < sizeof(StreamHeader)) return Malformed("header cut off");
  // Checked before it becomes an enum.
  const auto code = std::to_integer<std::uint8_t>(body[offsetof(StreamHeader, code)]);
  if (code >= kStatusCodeCount) return Malformed("code");
  out->stream = LoadUnaligned<StreamHeader>(body.data());
  out->data = body.subspan(sizeof(StreamHeader));
  if (out->stream.upload > 1 || out->stream.reserved != 0) return Malformed("reserved bits set");
  if (out->stream.total_bytes > limits::kValueBytesMax) return Malformed("value too long");
  if (out->stream.offset > out->stream.total_bytes) return Malformed("offset behind the end");
  if (!part && !out->data.empty()) return Malformed("an ack with data");
  if (out->data.size() > out->stream.total_bytes - out->stream.offset) {
    return Malformed("part behind the end");
  }
  return OkStatus();
}

std::size_t EncodeStream(FrameHeader header, const StreamHeader& stream, Bytes data,
                         MutableBytes frame) {
  const std::size_t bytes = limits::kFrameHeaderBytes + sizeof stream + data.size();
  TP_CHECK(bytes <= frame.size());
  TP_CHECK(data.size() <= limits::kStreamPartBytesMax);
  TP_DCHECK(header.type == FrameType::kStreamPart ||
            (header.type == FrameType::kStreamAck && data.empty()));
  header.bytes = static_cast<std::uint32_t>(bytes);
  StoreHeader(frame.data(), header);
  StoreUnaligned(frame.data() + limits::kFrameHeaderBytes, stream);
  if (!data.empty()) {
    std::memcpy(frame.data() + limits::kFrameHeaderBytes + sizeof stream, data.data(), data.size());
  }
  return bytes;
}

}  // namespace tidepool::wire
