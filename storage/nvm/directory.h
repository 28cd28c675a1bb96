// A directory of --nvm-dir: its lock, and the file that is the device.
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

// A single process holds it: the lock ends with the object or the process. Not thread-safe.
class NvmDirectory {
 public:
  // Errors: kNotFound (missing), kFailedPrecondition (no directory), kPermissionDenied, kAborted
  // (another daemon holds it), kResourceExhausted (descriptors).
  static Result<std::unique_ptr<NvmDirectory>> Open(const std::string& path);
  // Makes the checks of Open without the lock. Errors: as Open, without kAborted.
  static Status Check(const std::string& path);
  ~NvmDirectory();
  NvmDirectory(const NvmDirectory&) = delete;
  NvmDirectory& operator=(const NvmDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string file_path() const { return path_ + "/" + kDeviceFileName; }
  std::uint64_t device() const { return device_; }
  std::uint64_t inode() const { return inode_; }

  // Returns the file's bytes; 0: there is no file. Errors: kFailedPrecondition (not a regular
  // file), kPermissionDenied, kDeviceError.
  Result<std::uint64_t> FileBytes() const;
  // Returns the bytes that this user could still store there.
  Result<std::uint64_t> FreeBytes() const;
  // Returns the bytes that stay free for other users: a twentieth, at most 1 GiB.
  Result<std::uint64_t> SpareBytes() const;

  // Makes a file of `bytes`, all reserved and zero, under a temporary name: a crash leaves no file
  // that looks like a device. Checks the free space first, and leaves SpareBytes free. Errors:
  // kResourceExhausted (no room: the text has the needed and free bytes; no file is left),
  // kPermissionDenied, kUnimplemented (the file system reserves no space), kFailedPrecondition (no
  // direct I/O), kDeviceError.
  Result<std::unique_ptr<Device>> MakeFile(std::uint64_t bytes);
  // Gives the made file its name, durably. Its device must be gone.
  Status PublishFile();
  // Removes a made file that was not published.
  void DropFile();

  // Opens the file, which has `bytes`, as a device. Errors: as OpenDevice.
  Result<std::unique_ptr<Device>> OpenFile(std::uint64_t bytes) const;
  // Opens the file as FileDevice::OpenForReading does.
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
