// Owners whose links to copies here broke: they may have ended.
//
//   copy_inbox of each core (raises) -> [copy_alarms] -> moving/copy_keeper (takes)
#pragma once

#include <mutex>
#include <set>
#include <utility>

#include "proto/base/ids.h"

namespace tidepool::daemon {

// Thread-safe.
class CopyAlarms {
 public:
  void Raise(NodeId owner) {
    const std::lock_guard lock(mutex_);
    owners_.insert(owner);
  }
  std::set<NodeId> Take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(owners_, {});
  }

 private:
  std::mutex mutex_;
  std::set<NodeId> owners_;
};

}  // namespace tidepool::daemon
