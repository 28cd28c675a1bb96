#include "storage/nvm/directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "storage/device/device_errors.h"
#include "storage/device/file_device.h"
#include "storage/device/open_device.h"

namespace tidepool::storage {

std::string MiBText(std::uint64_t bytes) {
  constexpr std::uint64_t kMiB = 1024 * 1024;
  return std::to_string((bytes + kMiB - 1) / kMiB) + "MiB";
}

std::string BytesText(std::uint64_t bytes) {
  return std::to_string(bytes) + " bytes (" + std::to_string(bytes >> 20) + "MiB)";
}

namespace {

Result<int> OpenFolder(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor >= 0) return descriptor;
  if (errno == ENOENT) {
    return Status(StatusCode::kNotFound, "the directory '" + path + "' of --nvm-dir is not there",
                  "make it on a local disk: mkdir -p '" + path + "'");
  }
  if (errno == ENOTDIR) {
    return Status(StatusCode::kFailedPrecondition, "'" + path + "' of --nvm-dir is no directory",
                  "name a directory on a local disk");
  }
  const Status failed = DeviceFileError("open", path, errno);
  return Status(failed.code(), std::string(failed.what()),
                "give --nvm-dir a directory that belongs to you");
}

}  // namespace

Status NvmDirectory::Check(const std::string& path) {
  const auto descriptor = OpenFolder(path);
  if (descriptor.ok()) close(*descriptor);
  return descriptor.status();
}

Result<std::unique_ptr<NvmDirectory>> NvmDirectory::Open(const std::string& path) {
  const auto opened = OpenFolder(path);
  if (!opened.ok()) return opened.status();
  const int descriptor = *opened;
  std::unique_ptr<NvmDirectory> directory(new NvmDirectory(path, descriptor));
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return DeviceFileError("lock", path, errno);
    return Status(StatusCode::kAborted, "another daemon uses the directory '" + path + "'",
                  "give each daemon directories of its own (--nvm-dir)");
  }
  struct stat info {};
  if (fstat(descriptor, &info) != 0) return DeviceFileError("examine", path, errno);
  directory->device_ = info.st_dev;
  directory->inode_ = info.st_ino;
  return directory;
}

NvmDirectory::~NvmDirectory() { close(descriptor_); }

Result<std::uint64_t> NvmDirectory::FileBytes() const {
  struct stat info {};
  if (fstatat(descriptor_, kDeviceFileName, &info, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return std::uint64_t{0};
    return DeviceFileError("examine", file_path(), errno);
  }
  if (!S_ISREG(info.st_mode) || info.st_size == 0) {
    return Status(StatusCode::kFailedPrecondition,
                  "'" + file_path() + "' is not a file of Tidepool: it is " +
                      (S_ISREG(info.st_mode) ? "empty" : "no regular file"),
                  "remove it, or name another --nvm-dir");
  }
  return static_cast<std::uint64_t>(info.st_size);
}

Result<std::uint64_t> NvmDirectory::FreeBytes() const {
  struct statvfs info {};
  if (fstatvfs(descriptor_, &info) != 0) return DeviceFileError("examine", path_, errno);
  return std::uint64_t{info.f_bavail} * info.f_frsize;
}

Result<std::uint64_t> NvmDirectory::SpareBytes() const {
  constexpr std::uint64_t kShare = 20;
  constexpr std::uint64_t kMost = std::uint64_t{1} << 30;
  struct statvfs info {};
  if (fstatvfs(descriptor_, &info) != 0) return DeviceFileError("examine", path_, errno);
  return std::min(kMost, std::uint64_t{info.f_blocks} * info.f_frsize / kShare);
}

Status NvmDirectory::NoRoom(std::uint64_t bytes, const std::string& reason) const {
  const auto free_bytes = FreeBytes();
  const auto spare_bytes = SpareBytes();
  std::string what = "cannot reserve " + BytesText(bytes) + " in '" + path_ + "'";
  if (!reason.empty()) what += ": " + reason;
  if (free_bytes.ok() && spare_bytes.ok()) {
    what += (reason.empty() ? ": " : ", ") + BytesText(*free_bytes) + " are free, and " +
            BytesText(*spare_bytes) + " of the file system stay free for others";
  }
  return Status(StatusCode::kResourceExhausted, what,
                "make room, give a smaller --nvm-size, or another --nvm-dir");
}

// fallocate itself would fill the file system to its last byte before it fails.
Status NvmDirectory::CheckRoom(std::uint64_t bytes) const {
  const auto free_bytes = FreeBytes();
  if (!free_bytes.ok()) return free_bytes.status();
  const auto spare_bytes = SpareBytes();
  if (!spare_bytes.ok()) return spare_bytes.status();
  const bool fits = *free_bytes >= *spare_bytes && bytes <= *free_bytes - *spare_bytes;
  return fits ? OkStatus() : NoRoom(bytes, "");
}

Status NvmDirectory::Reserve(int file, std::uint64_t bytes) const {
  TP_RETURN_IF_ERROR(CheckRoom(bytes));
  int error = 0;
  do {
    error = fallocate(file, 0, 0, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
  } while (error == EINTR);
  if (error == 0 && fsync(file) != 0) error = errno;
  if (error == 0) {
    // Another program may have taken room meanwhile. Half covers the file system's own need.
    const auto free_bytes = FreeBytes();
    const auto spare_bytes = SpareBytes();
    const bool is_full = free_bytes.ok() && spare_bytes.ok() && *free_bytes < *spare_bytes / 2;
    return is_full ? NoRoom(bytes, "the room was taken meanwhile") : OkStatus();
  }
  if (error == EOPNOTSUPP || error == ENOSYS) {
    return Status(StatusCode::kUnimplemented,
                  "the file system of '" + path_ + "' cannot reserve space (fallocate)",
                  "use a directory on a local disk with ext4 or xfs");
  }
  if (error == EFBIG) {
    return Status(
        StatusCode::kResourceExhausted,
        "cannot reserve " + BytesText(bytes) + " in '" + path_ + "': " + std::strerror(error),
        "raise the limit of file sizes (ulimit -f unlimited) or give a smaller "
        "--nvm-size; some file systems have a limit of their own");
  }
  const bool is_full = error == ENOSPC || error == EDQUOT;
  if (!is_full) return DeviceFileError("reserve space in", path_, error);
  return NoRoom(bytes, std::strerror(error));  // A quota, as a rule.
}

Result<std::unique_ptr<Device>> NvmDirectory::MakeFile(std::uint64_t bytes) {
  DropFile();  // Remains of a crash.
  const int file =
      open(new_path().c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) {
    const Status failed = DeviceFileError("make", new_path(), errno);
    return Status(failed.code(), std::string(failed.what()),
                  "give --nvm-dir a directory that you may write to");
  }
  const Status reserved = Reserve(file, bytes);
  close(file);
  auto device = reserved.ok() ? OpenDevice(new_path(), bytes) : reserved;
  if (!device.ok()) DropFile();
  return device;
}

Status NvmDirectory::PublishFile() {
  if (renameat(descriptor_, new_path().substr(path_.size() + 1).c_str(), descriptor_,
               kDeviceFileName) != 0 ||
      fsync(descriptor_) != 0) {
    return DeviceFileError("name", file_path(), errno);
  }
  return OkStatus();
}

void NvmDirectory::DropFile() { unlink(new_path().c_str()); }

Result<std::unique_ptr<Device>> NvmDirectory::OpenFile(std::uint64_t bytes) const {
  return OpenDevice(file_path(), bytes);
}

Result<std::unique_ptr<Device>> NvmDirectory::OpenFileForReading(std::uint64_t bytes) const {
  return FileDevice::OpenForReading(file_path(), bytes);
}

}  // namespace tidepool::storage
