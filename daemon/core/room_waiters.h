// Waiters for free memory on one core.
//
//   daemon/core/dispatcher, daemon/core/streams, daemon/core/core_group -> [room_waiters] ->
//   storage/core_store
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "proto/base/status.h"
#include "storage/core_store.h"

namespace tidepool::daemon {

// Text of a refusal on a node with devices.
inline constexpr std::string_view kMemoryAndDevicesFull =
    "the node's memory is full, and so are its devices, or what is in memory cannot leave it; "
    "delete something, or start the daemons with more --nvm-size or --memory";

// Text of kDeadlineExceeded for an operation that waited for room and was not executed.
inline constexpr std::string_view kWaitedForRoom =
    "it waited for room until its deadline: the node's memory is full, and its devices are too "
    "slow for what leaves it";
inline bool WaitedForRoom(const Status& status) {
  return status.code() == StatusCode::kDeadlineExceeded && status.what() == kWaitedForRoom;
}

// Owner core only. Operations stand in the core's line, first come, first served. The first
// operation reserves blocks in the node's line (ArenaPool), and all operations run with these
// blocks. Values have reservations of their own.
class RoomWaiters {
 public:
  using Run = std::function<void()>;
  explicit RoomWaiters(storage::CoreStore& store) : store_(store) {}

  // Calls `run` from Serve when the reservation is granted or refused; if refused,
  // CoreStore::MayWait is false meanwhile. An operation without room may be added again.
  void Add(storage::Refusal refusal, Run run);
  // Runs waiters; returns their number.
  unsigned Serve();
  bool empty() const { return line_.empty() && reserved_.empty(); }
  void Clear();

 private:
  struct Waiter {
    std::uint64_t blocks = 0;
    std::shared_ptr<storage::Reservation> waits;
    Run run;
  };
  unsigned ServeReserved();
  unsigned ServeLine();

  storage::CoreStore& store_;
  std::deque<Waiter> line_;
  std::vector<Waiter> reserved_;                // Waiters with their own reservations.
  std::shared_ptr<storage::Reservation> room_;  // Reservation of the first operation.
};

}  // namespace tidepool::daemon
