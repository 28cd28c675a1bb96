#include "proto/file_tree/xattrs.h"

#include <sys/xattr.h>

#include <algorithm>
#include <cerrno>

#include "proto/file_tree/beneath.h"

namespace tidepool::file_tree {
namespace {

// The kernel's bounds: XATTR_LIST_MAX and XATTR_SIZE_MAX.
constexpr std::size_t kXattrBytesMax = 64 * 1024;

bool IsUsers(std::string_view name) {
  return name.starts_with("user.") || name == "system.posix_acl_access" ||
         name == "system.posix_acl_default";
}

bool MeansNone(int error) { return error == ENOTSUP || error == ENOSYS || error == ENODATA; }

// The names that count; false: errno says why not.
bool ListNames(int fd, std::vector<std::string>* names) {
  std::string list(kXattrBytesMax, '\0');
  const ssize_t bytes = flistxattr(fd, list.data(), list.size());
  if (bytes < 0) return MeansNone(errno);
  for (std::size_t at = 0; at < static_cast<std::size_t>(bytes);) {
    std::string name(list.c_str() + at);
    at += name.size() + 1;
    if (IsUsers(name)) names->push_back(std::move(name));
  }
  std::sort(names->begin(), names->end());
  return true;
}

}  // namespace

Status ReadXattrs(int fd, std::string_view path, Xattrs* xattrs) {
  xattrs->clear();
  std::vector<std::string> names;
  if (!ListNames(fd, &names)) return StatusOfErrno(errno, "cannot list attributes of", path);
  for (std::string& name : names) {
    std::string value(kXattrBytesMax, '\0');
    const ssize_t bytes = fgetxattr(fd, name.c_str(), value.data(), value.size());
    if (bytes < 0 && MeansNone(errno)) continue;  // Removed meanwhile.
    if (bytes < 0) return StatusOfErrno(errno, "cannot read attribute " + name + " of", path);
    value.resize(static_cast<std::size_t>(bytes));
    xattrs->emplace_back(std::move(name), std::move(value));
  }
  return OkStatus();
}

bool HasXattrs(int fd) {
  std::vector<std::string> names;
  return ListNames(fd, &names) && !names.empty();
}

Status WriteXattrs(int fd, std::string_view path, const Xattrs& xattrs) {
  Xattrs present;
  TP_RETURN_IF_ERROR(ReadXattrs(fd, path, &present));
  for (const auto& [name, value] : present) {
    const bool stays = std::any_of(xattrs.begin(), xattrs.end(),
                                   [&](const auto& wanted) { return wanted.first == name; });
    if (!stays && fremovexattr(fd, name.c_str()) != 0 && !MeansNone(errno)) {
      return StatusOfErrno(errno, "cannot remove attribute " + name + " of", path);
    }
  }
  for (const auto& wanted : xattrs) {
    if (std::find(present.begin(), present.end(), wanted) != present.end()) continue;
    const auto& [name, value] = wanted;
    if (fsetxattr(fd, name.c_str(), value.data(), value.size(), 0) == 0) continue;
    if (MeansNone(errno)) {
      return Status(StatusCode::kUnimplemented,
                    "the file system of '" + Printable(path) + "' does not keep attribute " + name);
    }
    return StatusOfErrno(errno, "cannot set attribute " + name + " of", path);
  }
  return OkStatus();
}

}  // namespace tidepool::file_tree
