// A preallocated file on a disk: O_DIRECT, so that the kernel keeps no second copy of what the
// daemon keeps itself, and one io_uring per queue, so that many requests are under way.
//
//   open_device -> [file_device] -> the kernel
#pragma once

#include <memory>
#include <string>

#include "storage/device/device.h"

namespace tidepool::storage {

class FileDevice final : public Device {
 public:
  // The file must be there, be a regular one of at least `bytes` (whole blocks), and have its space
  // reserved: a write never has to find any. Errors: kNotFound, kPermissionDenied,
  // kFailedPrecondition (no regular file, shorter than `bytes`, or on a file system without
  // O_DIRECT), kResourceExhausted (descriptors), kDeviceError.
  static Result<std::unique_ptr<Device>> Open(const std::string& path, std::uint64_t bytes);
  // The same for reading alone: every write ends with EBADF.
  static Result<std::unique_ptr<Device>> OpenForReading(const std::string& path,
                                                        std::uint64_t bytes);
  ~FileDevice() override;

  DeviceMedium medium() const override { return DeviceMedium::kFile; }
  std::uint64_t bytes() const override { return bytes_; }
  const std::string& description() const override { return description_; }
  const std::byte* mapping() const override { return nullptr; }
  // `depth`: 1 to 4,096. The queue may be used by another thread than the one that opened it. While
  // a thread sleeps in a system call, a completion may end that with EINTR: the kernel finishes
  // direct I/O in the thread that submitted it.
  Result<std::unique_ptr<DeviceQueue>> OpenQueue(unsigned depth) override;

 private:
  static Result<std::unique_ptr<Device>> OpenAs(int access, const std::string& path,
                                                std::uint64_t bytes);
  FileDevice(int descriptor, const std::string& path, std::uint64_t bytes);

  const int descriptor_;
  const std::uint64_t bytes_;
  const std::string description_;
};

}  // namespace tidepool::storage
