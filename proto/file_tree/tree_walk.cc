#include "proto/file_tree/tree_walk.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "proto/file_tree/beneath.h"

namespace tidepool::file_tree {
namespace {

std::string Below(const std::string& directory, std::string_view name) {
  return directory == "." ? std::string(name) : directory + "/" + std::string(name);
}

Status ReadLink(int directory_fd, const char* name, std::string_view path, std::string* target) {
  // Links are bounded by PATH_MAX; a longer answer means that it was replaced meanwhile.
  char buffer[4097];
  const ssize_t bytes = readlinkat(directory_fd, name, buffer, sizeof buffer);
  if (bytes < 0) return StatusOfErrno(errno, "cannot read the link", path);
  if (static_cast<std::size_t>(bytes) == sizeof buffer) {
    return StatusOfErrno(ENAMETOOLONG, "cannot read the link", path);
  }
  target->assign(buffer, static_cast<std::size_t>(bytes));
  return OkStatus();
}

class Walker {
 public:
  Walker(int root_fd, const WalkCallbacks& callbacks) : root_fd_(root_fd), callbacks_(callbacks) {}

  void Run() {
    struct stat info;
    if (fstat(root_fd_, &info) != 0) {
      callbacks_.failed(".", StatusOfErrno(errno, "cannot look at", "."));
      return;
    }
    FoundFile root;
    root.path = ".";
    root.type = FoundFile::Type::kDirectory;
    root.mode = info.st_mode & 07777u;
    root.mtime = FileTime::Of(info.st_mtim);
    root.owner = info.st_uid;
    root.group = info.st_gid;
    if (!callbacks_.found(std::move(root))) return;
    pending_.emplace_back(".");
    while (!pending_.empty() && !stopped_) {
      const std::string directory = std::move(pending_.back());
      pending_.pop_back();
      List(directory);
    }
  }

 private:
  void List(const std::string& directory) {
    auto opened = OpenBeneath(root_fd_, directory, O_RDONLY | O_DIRECTORY);
    if (!opened.ok()) {
      callbacks_.failed(directory, opened.status());
      return;
    }
    const int fd = dup(opened->get());  // closedir() closes it.
    DIR* stream = fd < 0 ? nullptr : fdopendir(fd);
    if (stream == nullptr) {
      if (fd >= 0) close(fd);
      callbacks_.failed(directory, StatusOfErrno(errno, "cannot list", directory));
      return;
    }
    for (;;) {
      errno = 0;
      const dirent* entry = readdir(stream);
      if (entry == nullptr) break;
      const std::string_view name = entry->d_name;
      if (name == "." || name == "..") continue;
      if (name.starts_with(kOwnNamePrefix)) {
        if (callbacks_.own) callbacks_.own(Below(directory, name));
        continue;
      }
      if (!Look(opened->get(), directory, entry->d_name)) {
        stopped_ = true;
        break;
      }
    }
    if (errno != 0 && !stopped_) {
      callbacks_.failed(directory, StatusOfErrno(errno, "cannot list", directory));
    }
    closedir(stream);
  }

  bool Look(int directory_fd, const std::string& directory, const char* name) {
    FoundFile found;
    found.path = Below(directory, name);
    Status status = CheckPath(found.path);
    struct stat info;
    if (status.ok() && fstatat(directory_fd, name, &info, AT_SYMLINK_NOFOLLOW) != 0) {
      status = StatusOfErrno(errno, "cannot look at", found.path);
    }
    if (!status.ok()) {
      callbacks_.failed(found.path, status);
      return true;
    }
    found.mode = info.st_mode & 07777u;
    found.mtime = FileTime::Of(info.st_mtim);
    found.owner = info.st_uid;
    found.group = info.st_gid;
    switch (info.st_mode & S_IFMT) {
      case S_IFREG:
        found.size = static_cast<std::uint64_t>(info.st_size);
        found.names = info.st_nlink;
        break;
      case S_IFDIR:
        found.type = FoundFile::Type::kDirectory;
        pending_.push_back(found.path);
        break;
      case S_IFLNK:
        found.type = FoundFile::Type::kSymlink;
        status = ReadLink(directory_fd, name, found.path, &found.link_target);
        break;
      default:
        if (callbacks_.skipped) {
          callbacks_.skipped(
              found.path,
              Status(StatusCode::kInvalidArgument, "is a socket, pipe or device and is left out",
                     "only files, directories and symbolic links can be staged"));
        }
        return true;
    }
    if (!status.ok()) {
      callbacks_.failed(found.path, status);
      return true;
    }
    return callbacks_.found(std::move(found));
  }

  const int root_fd_;
  const WalkCallbacks& callbacks_;
  std::vector<std::string> pending_;
  bool stopped_ = false;
};

}  // namespace

void WalkTree(int root_fd, const WalkCallbacks& callbacks) { Walker(root_fd, callbacks).Run(); }

}  // namespace tidepool::file_tree
