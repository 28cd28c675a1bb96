#include "daemon/core/map_waiters.h"

#include <algorithm>
#include <utility>

#include "proto/base/check.h"

namespace tidepool::daemon {

void MapWaiters::Add(MapWaiter waiter) {
  TP_CHECK(waiter.frame != nullptr);
  TP_DCHECK(std::none_of(waiters_.begin(), waiters_.end(), [&](const MapWaiter& each) {
    return each.session == waiter.session && each.frame_id == waiter.frame_id &&
           each.group == waiter.group;
  }));
  waiters_.push_back(std::move(waiter));
}

std::uint64_t MapWaiters::NextDeadlineNs() const {
  std::uint64_t next_ns = UINT64_MAX;
  for (const MapWaiter& each : waiters_) next_ns = std::min(next_ns, each.deadline_ns);
  return next_ns;
}

void MapWaiters::Retry(absl::FunctionRef<bool(const MapWaiter&)> attempt) {
  TP_CHECK(!retrying_);
  retrying_ = true;
  // Apart from the list, to which an attempt may add.
  std::deque<MapWaiter> tried;
  tried.swap(waiters_);
  for (MapWaiter& each : tried) {
    if (attempt(each)) waiters_.push_back(std::move(each));
  }
  retrying_ = false;
}

void MapWaiters::DropBelow(SessionId session, std::uint64_t frame_id,
                           absl::FunctionRef<void(const MapWaiter&)> dropped) {
  std::erase_if(waiters_, [&](const MapWaiter& each) {
    if (each.session != session || each.frame_id >= frame_id) return false;
    dropped(each);
    return true;
  });
}

}  // namespace tidepool::daemon
