// Which partitions leave this node, and the calls that this waits on: so that nothing moves twice
// at a time, and that a daemon which stops waits for nobody.
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

  // A partition that leaves, for as long as the object lives.
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
    // False: it leaves already, or the daemon stops.
    bool is_first() const { return is_first_; }

   private:
    MovesUnderWay& moves_;
    const PartitionId partition_;
    bool is_first_ = false;
  };

  // A call that Stop cancels, for as long as the object lives, which must be less than the call.
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
