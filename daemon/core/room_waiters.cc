#include "daemon/core/room_waiters.h"

#include <utility>

namespace tidepool::daemon {

void RoomWaiters::Add(storage::Refusal refusal, Run run) {
  Waiter waiter{refusal.blocks, std::move(refusal.waits), std::move(run)};
  if (waiter.waits == nullptr) {
    line_.push_back(std::move(waiter));
  } else {
    reserved_.push_back(std::move(waiter));
  }
}

void RoomWaiters::Clear() {
  line_.clear();
  reserved_.clear();
  room_ = nullptr;
}

unsigned RoomWaiters::Serve() {
  unsigned done = 0;
  if (!reserved_.empty() && store_.TakeRoomNews()) done += ServeReserved();
  if (!line_.empty()) done += ServeLine();
  return done;
}

unsigned RoomWaiters::ServeReserved() {
  std::vector<Waiter> over;
  for (std::size_t i = 0; i < reserved_.size();) {
    if (reserved_[i].waits->waits()) {
      ++i;
      continue;
    }
    over.push_back(std::move(reserved_[i]));
    reserved_.erase(reserved_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  for (const Waiter& waiter : over) {
    const storage::RoomScope scope(store_, nullptr, waiter.waits->refused());
    waiter.run();
  }
  return static_cast<unsigned>(over.size());
}

unsigned RoomWaiters::ServeLine() {
  if (room_ == nullptr) {
    room_ = store_.Reserve(storage::Reservation::Kind::kOperation, line_.front().blocks);
  }
  if (room_->waits()) return 0;
  const std::shared_ptr<storage::Reservation> room = std::exchange(room_, nullptr);
  const storage::RoomScope scope(store_, room.get(), room->refused());
  unsigned done = 0;
  for (std::size_t left = line_.size(); left > 0; --left) {
    const Run run = std::move(line_.front().run);
    line_.pop_front();
    const std::size_t before = line_.size();
    run();
    ++done;
    // No room again: the operations behind it would find none either.
    if (line_.size() > before) break;
  }
  return done;
}

}  // namespace tidepool::daemon
