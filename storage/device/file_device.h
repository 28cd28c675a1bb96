// A preallocated file on a disk. O_DIRECT avoids a second copy in the kernel of data that the
// daemon keeps. An io_uring per queue keeps many requests under way.
//
//   open_device -> [file_device] -> the kernel
#pragma once

#include <memory>
#include <string>

#include "storage/device/device.h"

namespace tidepool::storage {

class FileDevice final : public Device {
 public:
  // The file must be a regular file of at least `bytes` (whole blocks) with its space reserved: a
  // write never allocates. Errors: kNotFound, kPermissionDenied, kFailedPrecondition (not a regular
  // file, shorter than `bytes`, or on a file system without O_DIRECT), kResourceExhausted
  // (descriptors), kDeviceError.
  static Result<std::unique_ptr<Device>> Open(const std::string& path, std::uint64_t bytes);
  // Opens the file for reading alone: every write ends with EBADF.
  static Result<std::unique_ptr<Device>> OpenForReading(const std::string& path,
                                                        std::uint64_t bytes);
  ~FileDevice() override;

  DeviceMedium medium() const override { return DeviceMedium::kFile; }
  std::uint64_t bytes() const override { return bytes_; }
  const std::string& description() const override { return description_; }
  const std::byte* mapping() const override { return nullptr; }
  // `depth`: 1 to 4,096. Another thread than the opener may use the queue. While a thread sleeps in
  // a system call, a completion may end that call with EINTR: the kernel finishes direct I/O in the
  // submitting thread.
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
