#include "cli/commands/cluster/start_lock.h"

#include <unistd.h>

#include <utility>

#include "cli/text.h"

namespace tidepool::cli {

std::string StartLockPath(const std::string& cluster_file) { return cluster_file + ".starting"; }

StartLock::~StartLock() {
  if (file_.is_open()) unlink(path_.c_str());
}

Status StartLock::Take(const std::string& cluster_file, Deadline deadline,
                       const std::function<Status()>& wait) {
  path_ = StartLockPath(cluster_file);
  for (;;) {
    auto locked = cluster_file::LockFile(path_);
    if (locked.ok()) file_ = *std::move(locked);
    if (locked.code() != StatusCode::kAborted) return OkStatus();
    if (deadline.Passed()) {
      return Status(StatusCode::kDeadlineExceeded,
                    "another kvctl start of " + Quote(cluster_file) + " has not ended",
                    "wait for it or end it, or give another --cluster FILE");
    }
    TP_RETURN_IF_ERROR(wait());
  }
}

}  // namespace tidepool::cli
