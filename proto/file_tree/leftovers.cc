#include "proto/file_tree/leftovers.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <string_view>
#include <vector>

#include "proto/file_tree/beneath.h"
#include "proto/file_tree/tree_walk.h"
#include "proto/file_tree/tree_writer.h"

namespace tidepool::file_tree {
namespace {

// Not by operator+: g++ 12 with link-time optimisation warns of a read behind kOwnNamePrefix there.
std::string MarkerPrefix() { return std::string(kOwnNamePrefix).append("job-"); }

std::vector<std::string> Markers(int root_fd) {
  std::vector<std::string> names;
  const int fd = openat(root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* stream = fd < 0 ? nullptr : fdopendir(fd);
  if (stream == nullptr) return names;
  while (const dirent* entry = readdir(stream)) {
    if (std::string_view(entry->d_name).starts_with(MarkerPrefix())) {
      names.emplace_back(entry->d_name);
    }
  }
  closedir(stream);
  return names;
}

}  // namespace

Result<JobMarker> JobMarker::Make(int root_fd, const std::string& job) {
  JobMarker marker;
  const std::string name = MarkerPrefix() + job;
  marker.fd_ = UniqueFd(
      openat(root_fd, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!marker.fd_.is_open()) return StatusOfErrno(errno, "cannot write into", ".");
  // A failure means a file system without locks: see above.
  (void)flock(marker.fd_.get(), LOCK_EX | LOCK_NB);
  marker.root_fd_ = root_fd;
  marker.name_ = name;
  return marker;
}

void JobMarker::Remove() {
  if (!fd_.is_open()) return;
  unlinkat(root_fd_, name_.c_str(), 0);
  fd_.Reset();
}

void RemoveTemporaries(int root_fd, const std::string& job) {
  const std::string prefix = std::string(kOwnNamePrefix) + job + "-";
  ParentCache parents;
  WalkCallbacks callbacks;
  callbacks.found = [](FoundFile) { return true; };
  callbacks.failed = [](std::string_view, const Status&) {};
  callbacks.own = [&](std::string_view path) {
    const std::string name(NameOf(path));
    if (!name.starts_with(prefix)) return;
    if (const auto parent = parents.ParentFd(root_fd, path); parent.ok()) {
      unlinkat(*parent, name.c_str(), 0);
    }
  };
  WalkTree(root_fd, callbacks);
}

void RemoveLeftovers(int root_fd) {
  for (const std::string& name : Markers(root_fd)) {
    const UniqueFd fd(openat(root_fd, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    if (!fd.is_open() || flock(fd.get(), LOCK_EX | LOCK_NB) != 0) continue;
    RemoveTemporaries(root_fd, name.substr(MarkerPrefix().size()));
    unlinkat(root_fd, name.c_str(), 0);
  }
}

}  // namespace tidepool::file_tree
