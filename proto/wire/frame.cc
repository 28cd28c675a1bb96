#include "proto/wire/frame.h"

#include <algorithm>

namespace tidepool::wire {
namespace {

// What a CheckpointStamp has for the age of the checkpoint: 17 minutes. The rest tells the time
// until 2527.
constexpr int kCheckpointAgeBits = 20;
constexpr std::uint64_t kCheckpointAgeMax = (1u << kCheckpointAgeBits) - 1;

}  // namespace

std::uint64_t CheckpointStamp::Pack() const {
  const std::uint64_t age_ms = durable_at_ms == 0 ? kCheckpointAgeMax : at_ms - durable_at_ms;
  return at_ms << kCheckpointAgeBits | std::min(age_ms, kCheckpointAgeMax);
}

CheckpointStamp CheckpointStamp::Unpack(std::uint64_t packed) {
  CheckpointStamp stamp;
  stamp.at_ms = packed >> kCheckpointAgeBits;
  const std::uint64_t age_ms = packed & kCheckpointAgeMax;
  if (age_ms < kCheckpointAgeMax && age_ms <= stamp.at_ms)
    stamp.durable_at_ms = stamp.at_ms - age_ms;
  return stamp;
}

Status DecodeHeader(Bytes frame, FrameHeader* header) {
  return DecodeHeader(frame, frame.size(), header);
}

Status DecodeHeader(Bytes head, std::size_t frame_bytes, FrameHeader* header) {
  if (head.size() < limits::kFrameHeaderBytes || frame_bytes > limits::kFrameBytesMax) {
    return Status(StatusCode::kInvalidArgument,
                  "a frame of " + std::to_string(frame_bytes) + " bytes");
  }
  *header = LoadUnaligned<FrameHeader>(head.data());
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
  if (header->bytes != frame_bytes) {
    return Status(StatusCode::kInvalidArgument, "a frame of " + std::to_string(frame_bytes) +
                                                    " bytes that says " +
                                                    std::to_string(header->bytes));
  }
  return OkStatus();
}

}  // namespace tidepool::wire
