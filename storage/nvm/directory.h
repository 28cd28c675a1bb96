// One directory of --nvm-dir: its lock, and the file that is the device.
//
//   nvm/volume -> [directory] -> device/open_device
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "proto/base/result.h"
#include "storage/device/device.h"

namespace tidepool::storage {

inline constexpr char kDeviceFileName[] = "tidepool.nvm";

// Held by one process at a time: the lock ends with the object or the process. Not thread-safe.
class NvmDirectory {
 public:
  // Errors: kNotFound (missing), kFailedPrecondition (no directory), kPermissionDenied, kAborted
  // (another daemon holds it), kResourceExhausted (descriptors).
  static Result<std::unique_ptr<NvmDirectory>> Open(const std::string& path);
  // The same but for the lock. Errors: as Open's, without kAborted.
  static Status Check(const std::string& path);
  ~NvmDirectory();
  NvmDirectory(const NvmDirectory&) = delete;
  NvmDirectory& operator=(const NvmDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string file_path() const { return path_ + "/" + kDeviceFileName; }
  std::uint64_t device() const { return device_; }
  std::uint64_t inode() const { return inode_; }

  // Bytes of the file; 0: there is none. Errors: kFailedPrecondition (no regular file),
  // kPermissionDenied, kDeviceError.
  Result<std::uint64_t> FileBytes() const;
  // What this user could still store there.
  Result<std::uint64_t> FreeBytes() const;
  // Returns the bytes of the file system that stay free for others: a twentieth, at most 1 GiB.
  Result<std::uint64_t> SpareBytes() const;

  // Makes a file of `bytes`, all of them reserved and zero, under a name of its own, so that a
  // crash leaves nothing behind that looks like a device. The free space is looked at before any is
  // taken, and SpareBytes stay free. Errors: kResourceExhausted (no room: says how much is needed
  // and free, and leaves no file), kPermissionDenied, kUnimplemented (the file system reserves no
  // space), kFailedPrecondition (no direct I/O), kDeviceError.
  Result<std::unique_ptr<Device>> MakeFile(std::uint64_t bytes);
  // Gives the made file its name, durably. Its device must be gone.
  Status PublishFile();
  // Of a made file that was not published.
  void DropFile();

  // The device of the file, which has `bytes`. Errors: as OpenDevice.
  Result<std::unique_ptr<Device>> OpenFile(std::uint64_t bytes) const;
  // The same, see FileDevice::OpenForReading.
  Result<std::unique_ptr<Device>> OpenFileForReading(std::uint64_t bytes) const;

 private:
  NvmDirectory(const std::string& path, int descriptor) : path_(path), descriptor_(descriptor) {}
  std::string new_path() const { return file_path() + ".new"; }
  Status CheckRoom(std::uint64_t bytes) const;
  Status NoRoom(std::uint64_t bytes, const std::string& reason) const;
  Status Reserve(int file, std::uint64_t bytes) const;

  const std::string path_;
  const int descriptor_;
  std::uint64_t device_ = 0;
  std::uint64_t inode_ = 0;
};

// "1536MiB": rounded up to whole MiB, as --nvm-size reads it.
std::string MiBText(std::uint64_t bytes);
// "1610612736 bytes (1536MiB)": rounded down to whole MiB.
std::string BytesText(std::uint64_t bytes);

}  // namespace tidepool::storage
