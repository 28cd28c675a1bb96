#include "proto/file_tree/beneath.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "proto/base/errno_code.h"

namespace tidepool::file_tree {
namespace {

constexpr std::size_t kPathBytesMax = 4'095;
constexpr std::size_t kNameBytesMax = 255;

Status BadPath(std::string_view path, const char* why) {
  return Status(StatusCode::kInvalidArgument,
                "'" + Printable(path.substr(0, 200)) + "' cannot be the path of a file: " + why);
}

Status CheckComponents(std::string_view path) {
  if (path.empty()) return BadPath(path, "it is empty");
  if (path.size() > kPathBytesMax) return BadPath(path, "it has more than 4095 bytes");
  if (path.find('\0') != std::string_view::npos) return BadPath(path, "it holds a NUL");
  if (path.front() == '/') return BadPath(path, "it is absolute");
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view name = path.substr(begin, end - begin);
    if (name.empty()) return BadPath(path, "a component is empty");
    if (name == "." || name == "..") return BadPath(path, "a component is '.' or '..'");
    if (name.size() > kNameBytesMax) return BadPath(path, "a component has more than 255 bytes");
    begin = end + 1;
  }
  return OkStatus();
}

// Opens by components, for kernels before 5.6 and sandboxes that forbid openat2.
int OpenByComponents(int directory_fd, const std::string& path, int flags, mode_t mode) {
  UniqueFd parent;
  int at = directory_fd;
  std::size_t begin = 0;
  for (std::size_t slash = path.find('/'); slash != std::string::npos;
       slash = path.find('/', begin)) {
    const std::string name = path.substr(begin, slash - begin);
    const int next = openat(at, name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (next < 0) return -1;
    parent = UniqueFd(next);
    at = next;
    begin = slash + 1;
  }
  return openat(at, path.c_str() + begin, flags, mode);
}

int OpenWithKernel(int directory_fd, const std::string& path, int flags, mode_t mode) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags);
  how.mode = mode;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  return static_cast<int>(syscall(SYS_openat2, directory_fd, path.c_str(), &how, sizeof how));
}

}  // namespace

Status CheckPath(std::string_view path) {
  TP_RETURN_IF_ERROR(CheckComponents(path));
  if (path.starts_with(kOwnNamePrefix) ||
      path.find("/" + std::string(kOwnNamePrefix)) != std::string_view::npos) {
    return BadPath(path, "the name is reserved for staging");
  }
  return OkStatus();
}

std::string_view ParentOf(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

std::string_view NameOf(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

std::string Printable(std::string_view name) {
  std::string text;
  for (std::size_t i = 0; i < name.size();) {
    const auto byte = static_cast<unsigned char>(name[i]);
    std::size_t length = byte < 0x80    ? 1
                         : byte >= 0xf0 ? 4
                         : byte >= 0xe0 ? 3
                         : byte >= 0xc2 ? 2
                                        : 0;
    bool good =
        length != 0 && i + length <= name.size() && byte >= 0x20 && byte != 0x7f && byte <= 0xf4;
    for (std::size_t k = 1; good && k < length; ++k) {
      good = (static_cast<unsigned char>(name[i + k]) & 0xc0) == 0x80;
    }
    if (good) {
      text.append(name.substr(i, length));
      i += length;
    } else {
      char escaped[5];
      std::snprintf(escaped, sizeof escaped, "\\x%02x", byte);
      text.append(escaped);
      ++i;
    }
  }
  return text;
}

Status StatusOfErrno(int error, std::string_view what, std::string_view path) {
  std::string text(what);
  text.append(" '").append(Printable(path)).append("': ").append(std::strerror(error));
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return Status(CodeOfErrno(error, StatusCode::kResourceExhausted), std::move(text),
                    "make room there");
    case EFBIG:
      return Status(CodeOfErrno(error, StatusCode::kResourceExhausted), std::move(text),
                    "raise the limit of file sizes where the writer was started: ulimit -f "
                    "unlimited");
    case ELOOP:
    case EXDEV:
      return Status(StatusCode::kFailedPrecondition, std::move(text),
                    "a symbolic link is in the way; nothing is written through it");
    case ENOTDIR:
    case EISDIR:
    case EEXIST:
    case ENOTEMPTY:
      return Status(StatusCode::kFailedPrecondition, std::move(text),
                    "something of another type is in the way");
    case EINVAL:
      return Status(StatusCode::kInvalidArgument, std::move(text));
    default:
      return Status(CodeOfErrno(error, StatusCode::kUnavailable), std::move(text));
  }
}

Result<UniqueFd> OpenBeneath(int directory_fd, std::string_view path, int flags, mode_t mode) {
  static std::atomic<bool> kernel_refuses{false};
  if (path != ".") TP_RETURN_IF_ERROR(CheckComponents(path));
  const std::string name(path);
  flags |= O_NOFOLLOW | O_CLOEXEC;
  int fd = -1;
  if (!kernel_refuses.load(std::memory_order_relaxed)) {
    // EAGAIN: a rename anywhere on the way made the kernel unsure; it asks to be called again.
    do {
      fd = OpenWithKernel(directory_fd, name, flags, mode);
    } while (fd < 0 && (errno == EAGAIN || errno == EINTR));
    if (fd < 0 && errno == ENOSYS) kernel_refuses.store(true, std::memory_order_relaxed);
  }
  if (kernel_refuses.load(std::memory_order_relaxed)) {
    fd = OpenByComponents(directory_fd, name, flags, mode);
  }
  if (fd < 0) return StatusOfErrno(errno, "cannot open", path);
  return UniqueFd(fd);
}

}  // namespace tidepool::file_tree
