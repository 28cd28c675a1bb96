#include "storage/durable/segment_reader.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "proto/base/check.h"

namespace tidepool::storage {
namespace {

constexpr std::uint64_t kWaitMs = 1'000;  // Between two looks; no limit.

}  // namespace

SegmentReader::SegmentReader(const Volume& volume, DeviceQueues& queues,
                             std::span<const FoundSegment> segments)
    : volume_(volume),
      queues_(queues),
      segments_(segments),
      bytes_(static_cast<std::uint32_t>(volume.slot_bytes())) {
  const std::size_t count = std::min<std::size_t>(kAhead, segments_.size());
  for (std::size_t i = 0; i < count; ++i) buffers_[i].memory = BlockBuffer(volume.slot_bytes());
}

SegmentReader::~SegmentReader() {
  for (std::size_t which = next_; which < started_; ++which) Await(which);
}

DeviceQueue& SegmentReader::QueueOf(std::size_t which) const {
  return *queues_[volume_.Place(segments_[which].slot).device];
}

void SegmentReader::Start(std::size_t which) {
  Buffer& buffer = buffers_[which % kAhead];
  buffer.under_way = true;
  buffer.error = 0;
  buffer.bytes = bytes_;
  DeviceRequest request;
  request.offset =
      volume_.Place(segments_[which].slot).offset + volume_.slot_bytes() - buffer.bytes;
  request.data = buffer.memory.data();
  request.bytes = buffer.bytes;
  request.tag = which % kAhead;
  TP_CHECK(QueueOf(which).Start(request));
  (void)QueueOf(which).Submit(kAhead);
}

void SegmentReader::Await(std::size_t which) {
  while (buffers_[which % kAhead].under_way) {
    QueueOf(which).Wait(kWaitMs);
    QueueOf(which).Reap([this](const DeviceCompletion& completion) {
      buffers_[completion.tag].under_way = false;
      buffers_[completion.tag].error = completion.error;
    });
  }
}

Status SegmentReader::Next(Bytes* image) {
  TP_CHECK(next_ < segments_.size());
  // From here on the buffer of the previous segment is free.
  const std::size_t end = std::min<std::size_t>(segments_.size(), next_ + kAhead);
  while (started_ < end) Start(started_++);
  return Taken(next_++, image);
}

Status SegmentReader::Again(std::uint64_t bytes, Bytes* image) {
  TP_CHECK(next_ > 0 && bytes <= volume_.slot_bytes());
  const std::uint32_t others = std::exchange(bytes_, static_cast<std::uint32_t>(bytes));
  Start(next_ - 1);
  bytes_ = others;
  return Taken(next_ - 1, image);
}

Status SegmentReader::Taken(std::size_t which, Bytes* image) {
  Await(which);
  const Buffer& buffer = buffers_[which % kAhead];
  *image = buffer.memory.bytes().first(buffer.bytes);
  if (buffer.error == 0) return OkStatus();
  return Status(StatusCode::kDeviceError,
                "the device failed to read at offset " +
                    std::to_string(volume_.Place(segments_[which].slot).offset) + ": " +
                    std::strerror(buffer.error));
}

}  // namespace tidepool::storage
