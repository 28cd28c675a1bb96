#include "tests/bench/spill/memory_group.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

namespace tidepool::bench {
namespace {

constexpr char kMount[] = "/sys/fs/cgroup";

// A file of the kernel's is written by one write, whose error the stream does not tell.
Status WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  if ((file << text).flush()) return OkStatus();
  return Status(StatusCode::kPermissionDenied,
                "cannot write " + text + " to " + path + ": " + std::strerror(errno));
}

bool HasWord(const std::string& path, const std::string& word) {
  std::ifstream file(path);
  for (std::string each; file >> each;) {
    if (each == word) return true;
  }
  return false;
}

}  // namespace

Result<std::string> OwnCgroup() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::/") &&
        access((kMount + std::string("/cgroup.controllers")).c_str(), R_OK) == 0) {
      return kMount + (line == "0::/" ? std::string() : line.substr(3));
    }
  }
  return Status(StatusCode::kUnimplemented,
                std::string("no cgroup v2 is mounted at ") + kMount + " alone");
}

Result<MemoryGroup> MemoryGroup::Make(const std::string& parent, const std::string& name,
                                      std::uint64_t limit_bytes) {
  if (!HasWord(parent + "/cgroup.subtree_control", "memory")) {
    return Status(StatusCode::kUnimplemented,
                  parent + " does not hand the memory controller on to groups below it",
                  "name one that does with --cgroup");
  }
  MemoryGroup group(parent + "/" + name);
  if (mkdir(group.path_.c_str(), 0755) != 0 && errno != EEXIST) {
    const Status refused(StatusCode::kPermissionDenied,
                         "cannot make " + group.path_ + ": " + std::strerror(errno));
    group.path_.clear();
    return refused;
  }
  TP_RETURN_IF_ERROR(WriteFile(group.path_ + "/memory.max", std::to_string(limit_bytes)));
  // Else the limit is one on what stays, not on what is used.
  (void)WriteFile(group.path_ + "/memory.swap.max", "0");
  return group;
}

MemoryGroup::MemoryGroup(MemoryGroup&& other) noexcept : path_(std::exchange(other.path_, {})) {}

MemoryGroup::~MemoryGroup() {
  if (!path_.empty()) (void)rmdir(path_.c_str());
}

Status MemoryGroup::Enter() const {
  return WriteFile(path_ + "/cgroup.procs", std::to_string(getpid()));
}

std::uint64_t MemoryGroup::BytesMax() const {
  std::ifstream file(path_ + "/memory.peak");
  std::uint64_t bytes = 0;
  file >> bytes;
  return bytes;
}

}  // namespace tidepool::bench
