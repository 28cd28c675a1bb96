#include "daemon/membership/map_holder.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "proto/base/thread.h"

namespace tidepool::daemon {
namespace {

std::chrono::nanoseconds LeftOf(Deadline deadline) {
  return std::chrono::nanoseconds(deadline.LeftNs());
}

}  // namespace

MapHolder::~MapHolder() {
  Close();
  if (timer_.joinable()) timer_.join();
}

placement::PlacementMapPtr MapHolder::Get() const {
  const std::lock_guard lock(mutex_);
  return map_;
}

bool MapHolder::Reached(Epoch epoch) const {
  return closed_ || (map_ != nullptr && map_->epoch >= epoch);
}

void MapHolder::Set(placement::PlacementMapPtr map) {
  std::list<Waiter> ready;
  {
    const std::lock_guard lock(mutex_);
    if (map_ != nullptr && map->epoch <= map_->epoch) return;
    map_ = std::move(map);
    for (auto waiter = waiters_.begin(); waiter != waiters_.end();) {
      const auto next = std::next(waiter);
      if (Reached(waiter->epoch)) ready.splice(ready.end(), waiters_, waiter);
      waiter = next;
    }
  }
  changed_.notify_all();
  for (Waiter& waiter : ready) waiter.done();
}

bool MapHolder::WaitFor(Epoch epoch, Deadline deadline) const {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, LeftOf(deadline), [&] { return Reached(epoch); });
  return map_ != nullptr && map_->epoch >= epoch;
}

void MapHolder::OnEpoch(Epoch epoch, Deadline deadline, std::function<void()> done) {
  {
    const std::lock_guard lock(mutex_);
    if (!Reached(epoch) && !deadline.Passed()) {
      waiters_.push_back({epoch, deadline, std::move(done)});
      // Without a thread waiters wait for the next map; the next waiter tries again.
      if (!timer_.joinable()) (void)StartThread("map timers", &timer_, [this] { RunTimer(); });
      timer_wake_.notify_one();
      return;
    }
  }
  done();
}

void MapHolder::Close() {
  std::list<Waiter> ready;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    ready.swap(waiters_);
  }
  changed_.notify_all();
  timer_wake_.notify_one();
  for (Waiter& waiter : ready) waiter.done();
}

void MapHolder::RunTimer() {
  std::unique_lock lock(mutex_);
  while (!closed_) {
    std::list<Waiter> ready;
    Deadline next = Deadline::AfterMs(60'000);
    for (auto waiter = waiters_.begin(); waiter != waiters_.end();) {
      const auto following = std::next(waiter);
      if (waiter->deadline.Passed()) {
        ready.splice(ready.end(), waiters_, waiter);
      } else if (waiter->deadline.at_ns() < next.at_ns()) {
        next = waiter->deadline;
      }
      waiter = following;
    }
    if (ready.empty()) {
      timer_wake_.wait_for(lock, LeftOf(next));
      continue;
    }
    lock.unlock();
    for (Waiter& waiter : ready) waiter.done();
    lock.lock();
  }
}

}  // namespace tidepool::daemon
