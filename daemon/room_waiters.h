// Those who wait for room in memory on one core, which they or other cores make.
//
//   daemon/dispatcher, daemon/streams, daemon/core_group -> [room_waiters] -> storage/core_store
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

// The text of a refusal that no waiting would have averted, on a node with devices.
inline constexpr std::string_view kMemoryAndDevicesFull =
    "the node's memory is full, and so are its devices; delete something, or start the daemons "
    "with more --nvm-size";

// The text of kDeadlineExceeded for who has waited for room in vain, and was not executed.
inline constexpr std::string_view kWaitedForRoom =
    "it waited for room until its deadline: the node's memory is full, and its devices are too "
    "slow for what leaves it";
inline bool WaitedForRoom(const Status& status) {
  return status.code() == StatusCode::kDeadlineExceeded && status.what() == kWaitedForRoom;
}

// Owner core only. An operation stands in the core's line, first come, first served; the first of
// it in the node's (ArenaPool), for all behind it. A value that is to be written stands there by
// itself.
class RoomWaiters {
 public:
  using Run = std::function<void()>;
  explicit RoomWaiters(storage::CoreStore& store) : store_(store) {}

  // Calls `run` from Serve: when there is what was lacking, or when it will not come (then
  // CoreStore::MayWait says no). Who finds no room again comes here again.
  void Add(storage::Refusal refusal, Run run);
  // Returns how many have run.
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
  std::vector<Waiter> reserved_;                // Each waits for its own.
  std::shared_ptr<storage::Reservation> room_;  // Of the first in the line.
};

}  // namespace tidepool::daemon
