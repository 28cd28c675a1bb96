// A lock: at most one kvctl start per connection file at a time.
//
// kvctl start -> [StartLock] -> FILE.starting, beside the connection file
#pragma once

#include <functional>
#include <string>

#include "proto/base/clock.h"
#include "proto/base/status.h"
#include "proto/cluster_file/file_io.h"

namespace tidepool::cli {

// Returns the path of the lock's file.
std::string StartLockPath(const std::string& cluster_file);

// Holds the lock from Take to its end; the file goes with the lock. The lock of a process that was
// killed is free, and its file does no harm: the next holder or kvctl stop removes it.
class StartLock {
 public:
  StartLock() = default;
  ~StartLock();
  StartLock(const StartLock&) = delete;
  StartLock& operator=(const StartLock&) = delete;

  // Waits until no other process holds the lock. Meanwhile calls `wait`, which lasts a moment; its
  // failure ends the waiting. If no lock can be made, for want of a folder or of rights, it is not
  // taken. The writer of the connection file reports the reason.
  // Errors: kDeadlineExceeded, and the errors of `wait`.
  Status Take(const std::string& cluster_file, Deadline deadline,
              const std::function<Status()>& wait);

 private:
  std::string path_;
  UniqueFd file_;
};

}  // namespace tidepool::cli
