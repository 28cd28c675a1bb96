// One cgroup for one contender of the spill bench, so that the kernel keeps it at its limit.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "proto/base/result.h"

namespace tidepool::bench {

// The group of cgroup v2 that this process is in. Errors: kUnimplemented (none is mounted).
Result<std::string> OwnCgroup();

// A group below another one, which goes with this object (its processes must have ended by then).
class MemoryGroup {
 public:
  // `parent` must hand the memory controller on to its children. Errors, which say what is missing:
  // kUnimplemented (no cgroup v2, or it does not control memory there), kPermissionDenied.
  static Result<MemoryGroup> Make(const std::string& parent, const std::string& name,
                                  std::uint64_t limit_bytes);
  MemoryGroup(MemoryGroup&& other) noexcept;
  MemoryGroup& operator=(MemoryGroup&&) = delete;
  ~MemoryGroup();

  // Takes the calling process. Errors: kPermissionDenied.
  Status Enter() const;
  // Of all that its processes ever had at once; 0 where the kernel does not tell.
  std::uint64_t BytesMax() const;

 private:
  explicit MemoryGroup(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace tidepool::bench
