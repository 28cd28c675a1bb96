// Whole transfers for callers that may wait: start, stop, and the few blocks that describe a
// device. Never on an owner core.
#pragma once

#include <cstddef>
#include <memory>

#include "proto/base/bytes.h"
#include "proto/base/status.h"
#include "storage/device/device.h"

namespace tidepool::storage {

// Memory of whole blocks, aligned as devices need it, zeroed. Move-only.
class BlockBuffer {
 public:
  BlockBuffer() = default;
  explicit BlockBuffer(std::size_t bytes);  // Rounded up to whole blocks.
  std::size_t size() const { return bytes_; }
  std::byte* data() { return memory_.get(); }
  MutableBytes bytes() { return {memory_.get(), bytes_}; }
  Bytes bytes() const { return {memory_.get(), bytes_}; }

 private:
  struct Release {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Release> memory_;
  std::size_t bytes_ = 0;
};

// Each call waits until the device has answered, without a time limit of its own (the kernel's
// limits on requests end it). No other request may be under way in `queue`. Offsets, lengths and
// addresses are whole blocks. Errors: kDeviceError with the device's error. After a failed write or
// flush it is unknown which data is durable: no caller may continue to write as if all were.
Status ReadBlocks(DeviceQueue* queue, std::uint64_t offset, MutableBytes to);
Status WriteBlocks(DeviceQueue* queue, std::uint64_t offset, Bytes from);
Status WriteBlocksThrough(DeviceQueue* queue, std::uint64_t offset, Bytes from);
Status FlushDevice(DeviceQueue* queue);

}  // namespace tidepool::storage
