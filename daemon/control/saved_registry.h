// Namespaces whose present content was staged out, so that stopping loses nothing of them.
//
//   staging marks  ->  [saved_registry]  ->  Admin.CheckStop, Admin.Stop, NodeStatus ask
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "proto/base/ids.h"

namespace tidepool::daemon {

// Thread-safe. For this node alone: each node marks its own part.
class SavedRegistry {
 public:
  // Records that a stage-out of the whole namespace has succeeded on all nodes. `changes` is the
  // sum of PartitionStats::changes over this node's partitions, read *before* the stage-out: a
  // change during the stage-out then counts as unsaved.
  void MarkSaved(NamespaceId space, std::uint64_t changes) {
    const std::lock_guard lock(mutex_);
    changes_when_saved_[space] = changes;
  }

  bool IsSaved(NamespaceId space, std::uint64_t changes_now) const {
    const std::lock_guard lock(mutex_);
    const auto found = changes_when_saved_.find(space);
    return found != changes_when_saved_.end() && found->second == changes_now;
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<NamespaceId, std::uint64_t> changes_when_saved_;
};

}  // namespace tidepool::daemon
