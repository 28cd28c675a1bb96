#include "proto/wire/frame.h"

namespace tidepool::wire {

Status DecodeHeader(Bytes frame, FrameHeader* header) {
  if (frame.size() < limits::kFrameHeaderBytes || frame.size() > limits::kFrameBytesMax) {
    return Status(StatusCode::kInvalidArgument,
                  "a frame of " + std::to_string(frame.size()) + " bytes");
  }
  *header = LoadUnaligned<FrameHeader>(frame.data());
  if (header->magic != kFrameMagic) {
    return Status(StatusCode::kInvalidArgument, "not a Tidepool frame");
  }
  if (header->version != kWireVersion) {
    return Status(StatusCode::kInvalidArgument,
                  "wire version " + std::to_string(header->version) + ", expected " +
                      std::to_string(kWireVersion),
                  "use client and daemon of the same release");
  }
  const auto type = static_cast<std::uint8_t>(header->type);
  if (type == 0 || type > kFrameTypeMax) {
    return Status(StatusCode::kInvalidArgument, "frame type " + std::to_string(type));
  }
  if (header->bytes != frame.size()) {
    return Status(StatusCode::kInvalidArgument, "a frame of " + std::to_string(frame.size()) +
                                                    " bytes that says " +
                                                    std::to_string(header->bytes));
  }
  return OkStatus();
}

}  // namespace tidepool::wire
