// Memory that keeps its content (PMem, CXL) under a file system with DAX: loads and stores through
// a mapping that PMDK makes, no system call, no page cache.
//
//   open_device -> [dax_device] -> libpmem2
#pragma once

#include <memory>
#include <string>

#include "storage/device/device.h"

struct pmem2_map;

namespace tidepool::storage {

// Copies are synchronous: Submit executes the requests, Reap reports them. For many small reads,
// loads from mapping() are better.
//
// Not suited for media errors: a load from a cell that has lost its content raises SIGBUS.
class DaxDevice final : public Device {
 public:
  // Errors: as FileDevice::Open; kUnimplemented: PMDK reports that stores reach the medium only by
  // whole pages (no DAX here). Use a FileDevice then.
  static Result<std::unique_ptr<Device>> Open(const std::string& path, std::uint64_t bytes);
  ~DaxDevice() override;

  DeviceMedium medium() const override { return DeviceMedium::kDax; }
  std::uint64_t bytes() const override { return bytes_; }
  const std::string& description() const override { return description_; }
  const std::byte* mapping() const override { return base_; }
  // Never fails.
  Result<std::unique_ptr<DeviceQueue>> OpenQueue(unsigned depth) override;

 private:
  DaxDevice(pmem2_map* map, std::uint64_t bytes, std::string description);

  pmem2_map* map_;
  std::byte* const base_;
  const std::uint64_t bytes_;
  const std::string description_;
};

}  // namespace tidepool::storage
