// Groups of operations that wait for a newer map, or for the end of a freeze.
//
//   daemon/core/dispatcher -> [map_waiters] -> daemon/core/dispatcher, again
#pragma once

#include <absl/functional/function_ref.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "daemon/core/session.h"
#include "proto/base/ids.h"

namespace tidepool::daemon {

// A group whose term is newer than this core's map, or whose partition is frozen. The groups of a
// request share `frame`, a copy of the whole request.
struct MapWaiter {
  SessionId session;
  std::uint64_t frame_id = 0;
  std::uint16_t group = 0;
  PartitionId partition;
  Term term;
  std::uint32_t credit = 0;  // Counted in Session::waiting_operations.
  std::uint64_t deadline_ns = 0;
  std::shared_ptr<const std::vector<std::byte>> frame;
  std::shared_ptr<const HeldBytes> held;
};

// Owner core only. Keeps the order of arrival, so that groups of one partition run in the order in
// which their client sent them. The credits of the sessions bound the number of waiters.
//
// Invariants: each waiter has its frame; a (session, frame, group) waits at most once.
class MapWaiters {
 public:
  void Add(MapWaiter waiter);
  bool empty() const { return waiters_.empty(); }
  std::size_t size() const { return waiters_.size(); }
  // Returns the earliest deadline, or the largest number without a waiter. Walks over all waiters.
  std::uint64_t NextDeadlineNs() const;

  // Tries each waiter once, in the order of arrival. `attempt` returns true if the group has to
  // wait on, and then has not changed anything. `attempt` may call Add, but no other method.
  void Retry(absl::FunctionRef<bool(const MapWaiter&)> attempt);
  // Drops the waiters of the session's frames below `frame_id`. Calls `dropped` with each before.
  void DropBelow(SessionId session, std::uint64_t frame_id,
                 absl::FunctionRef<void(const MapWaiter&)> dropped);
  void Clear() { waiters_.clear(); }

 private:
  std::deque<MapWaiter> waiters_;
  bool retrying_ = false;
};

}  // namespace tidepool::daemon
