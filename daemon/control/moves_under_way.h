// Partitions that leave this node, and the calls that the moves wait for. Nothing moves twice at a
// time, and a stopping daemon waits for no move.
#pragma once

#include <grpcpp/client_context.h>

#include <atomic>
#include <mutex>
#include <set>

#include "proto/base/ids.h"

namespace tidepool::daemon {

// Thread-safe.
class MovesUnderWay {
 public:
  // Refuses new moves and ends the calls under way.
  void Stop() {
    stopping_.store(true);
    const std::lock_guard lock(mutex_);
    for (grpc::ClientContext* call : calls_) call->TryCancel();
  }
  bool stopping() const { return stopping_.load(); }

  // Marks a leaving partition for the object's lifetime.
  class Leaving {
   public:
    Leaving(MovesUnderWay* moves, PartitionId partition) : moves_(*moves), partition_(partition) {
      const std::lock_guard lock(moves_.mutex_);
      is_first_ = !moves_.stopping_.load() && moves_.leaving_.insert(partition).second;
    }
    ~Leaving() {
      if (!is_first_) return;
      const std::lock_guard lock(moves_.mutex_);
      moves_.leaving_.erase(partition_);
    }
    Leaving(const Leaving&) = delete;
    Leaving& operator=(const Leaving&) = delete;
    // Returns false if the partition leaves already or the daemon stops.
    bool is_first() const { return is_first_; }

   private:
    MovesUnderWay& moves_;
    const PartitionId partition_;
    bool is_first_ = false;
  };

  // Registers a call that Stop cancels. The object must end before the call.
  class Call {
   public:
    Call(MovesUnderWay* moves, grpc::ClientContext* call) : moves_(*moves), call_(call) {
      const std::lock_guard lock(moves_.mutex_);
      moves_.calls_.insert(call);
      if (moves_.stopping_.load()) call->TryCancel();
    }
    ~Call() {
      const std::lock_guard lock(moves_.mutex_);
      moves_.calls_.erase(call_);
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    MovesUnderWay& moves_;
    grpc::ClientContext* const call_;
  };

 private:
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::set<PartitionId> leaving_;
  std::set<grpc::ClientContext*> calls_;
};

}  // namespace tidepool::daemon
