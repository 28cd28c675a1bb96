// Leftovers of a dead job in a directory tree, and the check that the job is dead.
//
//   stage-out's job -> [leftovers] -> file system
//
// A running job holds a lock on a marker in the root of its tree; the kernel takes the lock from a
// process that dies. On file systems without locks every marker looks alive, and leftovers must be
// removed by hand.
#pragma once

#include <string>

#include "proto/base/result.h"
#include "proto/base/unique_fd.h"

namespace tidepool::file_tree {

// One thread. `root_fd` must outlive it.
class JobMarker {
 public:
  // Errors: as StatusOfErrno.
  static Result<JobMarker> Make(int root_fd, const std::string& job);
  JobMarker(JobMarker&& other) noexcept = default;
  JobMarker& operator=(JobMarker&& other) = delete;
  ~JobMarker() { Remove(); }
  // Once: before the root gets its time.
  void Remove();

 private:
  JobMarker() = default;
  int root_fd_ = -1;
  std::string name_;
  UniqueFd fd_;
};

// Removes temporary files of dead jobs, with their markers. Looks at the root alone unless it finds
// such a marker. Files that cannot be removed stay, with the marker.
void RemoveLeftovers(int root_fd);

// Removes the temporary files of a job: walks the whole tree.
void RemoveTemporaries(int root_fd, const std::string& job);

}  // namespace tidepool::file_tree
