#include "proto/cluster_file/file_io.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "proto/base/errno_code.h"
#include "proto/cluster_file/random.h"

namespace tidepool::cluster_file {
namespace {

StatusCode CodeOf(int error) {
  switch (error) {
    case ENOTDIR:
      return StatusCode::kNotFound;
    case EISDIR:
      return StatusCode::kInvalidArgument;
    case EEXIST:
      return StatusCode::kAlreadyExists;
    default:
      return CodeOfErrno(error, StatusCode::kInternal);
  }
}

Status ErrnoStatus(std::string_view doing, std::string_view path, int error, std::string remedy) {
  return Status(
      CodeOf(error),
      "cannot " + std::string(doing) + " '" + std::string(path) + "': " + std::strerror(error),
      std::move(remedy));
}

Status WriteAll(int fd, std::string_view content, const std::string& path) {
  while (!content.empty()) {
    const ssize_t wrote = write(fd, content.data(), content.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return FileError("write", path, errno);
    content.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return OkStatus();
}

}  // namespace

Status FileError(std::string_view doing, std::string_view path, int error) {
  std::string remedy;
  switch (error) {
    case ENOENT:
      remedy = "create '" + FolderOf(path) + "' or name another place";
      break;
    case ENOTDIR:
      remedy = "that, or what stands for a folder above it, is a file: name another place";
      break;
    case EISDIR:
      remedy = "it is a folder: name another place";
      break;
    case EACCES:
    case EPERM:
    case EROFS:
      remedy = "name a place that you may write to";
      break;
    case ENOSPC:
    case EDQUOT:
      remedy = "free some space there or name another place";
      break;
    case EFBIG:
      remedy = "raise the limit of file sizes: ulimit -f unlimited";
      break;
    default:
      break;
  }
  return ErrnoStatus(doing, path, error, std::move(remedy));
}

Status FileReadError(std::string_view doing, std::string_view path, int error) {
  std::string remedy;
  switch (error) {
    case ENOENT:
      remedy = "name one that is there";
      break;
    case ENOTDIR:
      remedy = "that, or what stands for a folder above it, is a file: check the path";
      break;
    case EISDIR:
      remedy = "it is a folder: name a file";
      break;
    case EACCES:
    case EPERM:
      remedy = "ask its owner for the right to read it, or name another";
      break;
    default:
      break;
  }
  return ErrnoStatus(doing, path, error, std::move(remedy));
}

std::string FolderOf(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return slash == 0 ? "/" : std::string(path.substr(0, slash));
}

Status CheckFolderOf(const std::string& path, std::string_view doing) {
  const std::string folder = FolderOf(path);
  struct stat info {};
  const int error = stat(folder.c_str(), &info) != 0 ? errno : S_ISDIR(info.st_mode) ? 0 : ENOTDIR;
  return error == 0 ? OkStatus() : FileError(doing, path, error);
}

Result<std::string> ReadSmallFile(const std::string& path, std::size_t bytes_max) {
  // Not blocking: a fifo of that name must not hold the caller for ever.
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) return FileReadError("read", path, errno);
  struct stat info {};
  if (fstat(file.get(), &info) != 0) return FileReadError("read", path, errno);
  if (!S_ISREG(info.st_mode)) {
    return Status(StatusCode::kInvalidArgument, "'" + path + "' is not a file", "name a file");
  }
  std::string content;
  char buffer[16 * 1024];
  while (true) {
    const ssize_t got = read(file.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileReadError("read", path, errno);
    if (got == 0) return content;
    content.append(buffer, static_cast<std::size_t>(got));
    if (content.size() > bytes_max) {
      return Status(StatusCode::kInvalidArgument,
                    "'" + path + "' is larger than " + std::to_string(bytes_max) + " bytes",
                    "name another file: this cannot be what is looked for");
    }
  }
}

Result<std::string> ReadSecretFile(const std::string& path, std::size_t bytes_max) {
  auto content = ReadSmallFile(path, bytes_max);
  if (!content.ok()) return content;
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return FileReadError("read", path, errno);
  if ((info.st_mode & 077) == 0) return content;
  return Status(StatusCode::kPermissionDenied,
                "others than its owner can read the secret in '" + path + "'",
                "chmod 600 " + path + ", and make a new one if others may have read it");
}

Result<TemporaryFile> WriteTemporary(const std::string& path, std::string_view content) {
  TemporaryFile file{path + ".tmp-" + RandomHex(8), UniqueFd()};
  file.descriptor =
      UniqueFd(open(file.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.descriptor.is_open()) return FileError("write", path, errno);
  Status written = WriteAll(file.descriptor.get(), content, path);
  if (written.ok() && fsync(file.descriptor.get()) != 0) written = FileError("write", path, errno);
  if (!written.ok()) {
    unlink(file.path.c_str());
    return written;
  }
  return file;
}

Status SyncFolder(const std::string& folder) {
  const UniqueFd opened(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened.is_open()) return FileError("open", folder, errno);
  // Some network file systems cannot sync a folder and say EINVAL; their names are durable at once.
  if (fsync(opened.get()) != 0 && errno != EINVAL) return FileError("sync", folder, errno);
  return OkStatus();
}

Status ReplaceFile(const std::string& path, std::string_view content) {
  auto temporary = WriteTemporary(path, content);
  if (!temporary.ok()) return temporary.status();
  if (rename(temporary->path.c_str(), path.c_str()) != 0) {
    const int error = errno;
    unlink(temporary->path.c_str());
    return FileError("write", path, error);
  }
  const Status synced = SyncFolder(FolderOf(path));
  if (synced.ok()) return synced;
  return Status(StatusCode::kUnknown, std::string(synced.what()), std::string(synced.remedy()));
}

Status MakeFolders(const std::string& path) {
  if (mkdir(path.c_str(), 0700) == 0) return OkStatus();
  const int error = errno;
  if (error == EEXIST) {
    struct stat info {};
    if (stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) return OkStatus();
    return FileError("make the folder", path, ENOTDIR);
  }
  if (error != ENOENT || path == "/" || path == ".") {
    return FileError("make the folder", path, error);
  }
  TP_RETURN_IF_ERROR(MakeFolders(FolderOf(path)));
  if (mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return OkStatus();
  return FileError("make the folder", path, errno);
}

Result<UniqueFd> LockFile(const std::string& path) {
  while (true) {
    UniqueFd file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file.is_open()) return FileError("lock", path, errno);
    if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) return FileError("lock", path, errno);
      return Status(StatusCode::kAborted, "another process holds the lock '" + path + "'");
    }
    // The holder may have removed it between our two calls: then other processes lock another file.
    struct stat ours {};
    struct stat there {};
    if (fstat(file.get(), &ours) != 0) return FileError("lock", path, errno);
    const bool is_there = lstat(path.c_str(), &there) == 0;
    if (is_there && ours.st_ino == there.st_ino && ours.st_dev == there.st_dev) return file;
  }
}

}  // namespace tidepool::cluster_file
