// Whole transfers for those who may wait: start, stop, and the few blocks that say what a device
// holds. Never on an owner core.
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

// Each waits, without a limit of its own (the kernel's time limits on requests end it), until the
// device has answered; nothing else may be under way in `queue`. Offsets, lengths and addresses in
// whole blocks. Errors: kDeviceError, which names the device's error: after one of a write or a
// flush nobody knows what is durable, and nobody may write on as if it were.
Status ReadBlocks(DeviceQueue* queue, std::uint64_t offset, MutableBytes to);
Status WriteBlocks(DeviceQueue* queue, std::uint64_t offset, Bytes from);
Status WriteBlocksThrough(DeviceQueue* queue, std::uint64_t offset, Bytes from);
Status FlushDevice(DeviceQueue* queue);

}  // namespace tidepool::storage
