// Medium for segments that leave DRAM: reads and writes of whole 4 KiB blocks, many in flight; no
// owner core waits for them.
//
//   spill, durability -> [device] -> file_device, dax_device; tests: fault_device
#pragma once

#include <absl/functional/function_ref.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "proto/base/result.h"

namespace tidepool::storage {

// Offsets, lengths and addresses of buffers are multiples of this.
inline constexpr std::size_t kDeviceBlockBytes = 4096;

enum class DeviceOperation : std::uint8_t {
  kRead,
  kWrite,         // Durable only after a kFlush that was started when this had completed.
  kWriteThrough,  // Durable when it completes.
  kFlush,         // Takes no data. All writes that had completed before it was started are durable.
};

struct DeviceRequest {
  DeviceOperation operation = DeviceOperation::kRead;
  std::uint64_t offset = 0;
  std::byte* data = nullptr;  // Read only by writes. Must live until the completion.
  std::uint32_t bytes = 0;
  std::uint64_t tag = 0;  // Comes back with the completion.
};

struct DeviceCompletion {
  std::uint64_t tag = 0;
  int error = 0;  // An errno; 0: all bytes were moved. A short read or write is EIO.
};

// A thread's queue to a device. Not thread-safe. Requests may execute and complete in any order: to
// order two requests, wait for the first completion. The destructor waits until the device has
// released the buffers of submitted requests; their results are lost.
class DeviceQueue {
 public:
  virtual ~DeviceQueue() = default;
  DeviceQueue(const DeviceQueue&) = delete;
  DeviceQueue& operator=(const DeviceQueue&) = delete;

  // Most requests that are under way at once.
  virtual unsigned depth() const = 0;
  virtual unsigned in_flight() const = 0;  // Started, and not reaped.
  // Returns false if depth() requests are under way; the caller tries again after Reap.
  virtual bool Start(const DeviceRequest& request) = 0;
  // Submits up to `count_max` started requests to the device, in order. True: more are waiting.
  virtual bool Submit(unsigned count_max) = 0;
  // Calls `done` for each completed request; it may Start further requests. Returns their count. No
  // system call.
  virtual unsigned Reap(absl::FunctionRef<void(const DeviceCompletion&)> done) = 0;
  // Submits everything and returns when a completion is there to be reaped or the time is over. For
  // start, stop and tests: an owner core never waits here.
  virtual void Wait(std::uint64_t timeout_ms) = 0;
  // Readable (level-triggered) while completions wait to be reaped, for epoll; -1: never needed, as
  // Submit completes everything.
  virtual int descriptor() const = 0;

 protected:
  DeviceQueue() = default;
};

// A thread's queues to all devices of a volume, by device index.
using DeviceQueues = std::vector<std::unique_ptr<DeviceQueue>>;

enum class DeviceMedium : std::uint8_t { kFile, kDax };

// Thread-safe. Outlives its queues.
class Device {
 public:
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  virtual DeviceMedium medium() const = 0;
  virtual std::uint64_t bytes() const = 0;
  // For people: "/local/tp/tidepool.nvm (file, O_DIRECT, io_uring)".
  virtual const std::string& description() const = 0;
  // Where processors may load from the device itself; null: it must be read.
  virtual const std::byte* mapping() const = 0;
  // Errors: kResourceExhausted (descriptors, locked memory), kUnimplemented (the kernel has no
  // io_uring or forbids it).
  virtual Result<std::unique_ptr<DeviceQueue>> OpenQueue(unsigned depth) = 0;

 protected:
  Device() = default;
};

}  // namespace tidepool::storage
