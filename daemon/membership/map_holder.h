// The newest placement map of a place, and waiting for a newer one.
//
//   coordinator or member publishes  ->  [map_holder]  ->  services, GetMap's long polls
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

#include "proto/base/clock.h"
#include "proto/placement/placement_map.h"

namespace tidepool::daemon {

// Thread-safe. Maps are immutable; a holder keeps the newest.
class MapHolder {
 public:
  MapHolder() = default;
  ~MapHolder();
  MapHolder(const MapHolder&) = delete;
  MapHolder& operator=(const MapHolder&) = delete;

  // Null until the first Set.
  placement::PlacementMapPtr Get() const;
  // A map that is not newer is ignored.
  void Set(placement::PlacementMapPtr map);

  // Waits until the epoch is at least `epoch`. False at the deadline or when closed.
  bool WaitFor(Epoch epoch, Deadline deadline) const;
  // The same without a thread per waiter: calls `done` once, when the epoch is reached, at the
  // deadline, or when closed; maybe before it returns. `done` must be quick, since it runs on the
  // thread that sets the map or on the one timer's, and may not call this object's OnEpoch.
  void OnEpoch(Epoch epoch, Deadline deadline, std::function<void()> done);

  // All waiters return; later ones do not wait.
  void Close();

 private:
  struct Waiter {
    Epoch epoch;
    Deadline deadline;
    std::function<void()> done;
  };
  bool Reached(Epoch epoch) const;  // Under mutex_.
  void RunTimer();

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::condition_variable timer_wake_;
  placement::PlacementMapPtr map_;
  std::list<Waiter> waiters_;
  bool closed_ = false;
  std::thread timer_;  // Started with the first waiter.
};

}  // namespace tidepool::daemon
