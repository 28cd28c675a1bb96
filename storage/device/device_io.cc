#include "storage/device/device_io.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "proto/base/check.h"

namespace tidepool::storage {
namespace {

constexpr std::size_t kPieceBytes = 1024 * 1024;
constexpr std::uint64_t kWaitMs = 1'000;  // Between two looks; no limit.

const char* NameOf(DeviceOperation operation) {
  switch (operation) {
    case DeviceOperation::kRead:
      return "read";
    case DeviceOperation::kFlush:
      return "flush";
    default:
      return "write";
  }
}

Status RunOne(DeviceQueue* queue, const DeviceRequest& request) {
  TP_CHECK(queue->in_flight() == 0);
  TP_CHECK(queue->Start(request));
  int error = 0;
  while (queue->in_flight() > 0) {
    queue->Wait(kWaitMs);
    queue->Reap([&error](const DeviceCompletion& completion) { error = completion.error; });
  }
  if (error == 0) return OkStatus();
  return Status(StatusCode::kDeviceError,
                std::string("the device failed to ") + NameOf(request.operation) + " at offset " +
                    std::to_string(request.offset) + ": " + std::strerror(error));
}

Status RunInPieces(DeviceQueue* queue, DeviceOperation operation, std::uint64_t offset,
                   std::byte* data, std::size_t bytes) {
  while (bytes > 0) {
    const std::size_t piece = std::min(bytes, kPieceBytes);
    TP_RETURN_IF_ERROR(
        RunOne(queue, {operation, offset, data, static_cast<std::uint32_t>(piece), 0}));
    offset += piece;
    data += piece;
    bytes -= piece;
  }
  return OkStatus();
}

}  // namespace

BlockBuffer::BlockBuffer(std::size_t bytes) : bytes_(AlignUp(bytes, kDeviceBlockBytes)) {
  if (bytes_ == 0) return;
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kDeviceBlockBytes, bytes_)));
  if (memory_ == nullptr) throw std::bad_alloc();
  std::memset(memory_.get(), 0, bytes_);
}

void BlockBuffer::Release::operator()(std::byte* memory) const { std::free(memory); }

Status ReadBlocks(DeviceQueue* queue, std::uint64_t offset, MutableBytes to) {
  return RunInPieces(queue, DeviceOperation::kRead, offset, to.data(), to.size());
}

Status WriteBlocks(DeviceQueue* queue, std::uint64_t offset, Bytes from) {
  return RunInPieces(queue, DeviceOperation::kWrite, offset, const_cast<std::byte*>(from.data()),
                     from.size());
}

Status WriteBlocksThrough(DeviceQueue* queue, std::uint64_t offset, Bytes from) {
  return RunInPieces(queue, DeviceOperation::kWriteThrough, offset,
                     const_cast<std::byte*>(from.data()), from.size());
}

Status FlushDevice(DeviceQueue* queue) { return RunOne(queue, {DeviceOperation::kFlush}); }

}  // namespace tidepool::storage
