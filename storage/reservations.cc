// The lines of reservations: served as blocks come free, refused if no block will come.
#include <algorithm>
#include <utility>

#include "proto/base/check.h"
#include "storage/arena.h"

namespace tidepool::storage {
namespace {

// Of a core, which may have nothing that could leave.
constexpr std::uint64_t kOpenSegmentsMax = 3;

}  // namespace

// ---- Reservation.

std::uint64_t Reservation::Take() { return pool_.TakeReserved(*this); }

void Reservation::Cancel() { pool_.CancelReserved(*this); }

// ---- Cores.

RoomCore* ArenaPool::AddCore() {
  const std::lock_guard lock(mutex_);
  return room_cores_.emplace_back(std::make_unique<RoomCore>()).get();
}

void ArenaPool::SetWake(RoomCore* core, std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  core->wake = std::move(wake);
}

void ArenaPool::RemoveCore(RoomCore* core) {
  const std::lock_guard lock(mutex_);
  core->in_use = false;
  core->wake = nullptr;
  core->look = {};
  RefuseHopeless();
}

void ArenaPool::WakeCore(RoomCore& core) {
  if (core.wake != nullptr && !core.woken.exchange(true, std::memory_order_acq_rel)) core.wake();
}

bool ArenaPool::HasRoomCores() const {
  return std::any_of(room_cores_.begin(), room_cores_.end(),
                     [](const auto& core) { return core->in_use; });
}

bool ArenaPool::AnyHasSlots() const {
  return std::any_of(room_cores_.begin(), room_cores_.end(),
                     [](const auto& core) { return core->look.has_slots; });
}

std::uint64_t ArenaPool::FixedBlocks() const {
  std::uint64_t blocks = 0;
  for (const auto& core : room_cores_) blocks += core->look.fixed_blocks;
  return blocks;
}

void ArenaPool::TellRoom(RoomCore* core, const RoomLook& look) {
  const std::lock_guard lock(mutex_);
  core->look = look;
  RefuseHopeless();
  ServeLines();
  UpdateAvailable();
}

// ---- How much values may have.

std::uint64_t ArenaPool::ValueBlocksMax() const {
  const std::lock_guard lock(mutex_);
  // Each core has a block of tables, whatever it holds.
  const auto cores = static_cast<std::uint64_t>(std::count_if(
      room_cores_.begin(), room_cores_.end(), [](const auto& core) { return core->in_use; }));
  const std::uint64_t others = set_aside_blocks_ + kBlocksLeftMax + cores;
  return blocks_max_ - std::min(others, blocks_max_);
}

// Operations keep an open segment for each core, and the blocks of an operation.
std::uint64_t ArenaPool::BlocksForValues() const {
  const std::uint64_t others =
      set_aside_blocks_ + FixedBlocks() + room_cores_.size() + kOperationBlocks + kBlocksLeftMax;
  return blocks_max_ - std::min(others, blocks_max_);
}

// True if the value may collect blocks now. A value that is read waits for granted values only.
bool ArenaPool::MayCollect(const Reservation& value) const {
  return value.kind_ == Reservation::Kind::kReturn || value.counted_ || value_blocks_ == 0 ||
         value_blocks_ + value.wanted_ <= BlocksForValues();
}

// ---- Lines.

std::shared_ptr<Reservation> ArenaPool::Reserve(Reservation::Kind kind, std::uint64_t blocks,
                                                RoomCore* core) {
  std::shared_ptr<Reservation> reservation(new Reservation(*this, kind, blocks, core));
  const std::lock_guard lock(mutex_);
  reservation->in_line_ = true;
  LineOf(*reservation).push_back(reservation.get());
  waiting_.fetch_add(1, std::memory_order_relaxed);
  if (kind == Reservation::Kind::kReturn) reads_waiting_.fetch_add(1, std::memory_order_relaxed);
  ServeLines();
  if (reservation->in_line_ && !HasRoomCores()) Leave(*reservation, Reservation::State::kRefused);
  if (reservation->in_line_) {
    reservation->asked_ = asked_.fetch_add(1, std::memory_order_acq_rel) + 1;
    for (const auto& each : room_cores_) WakeCore(*each);
  }
  UpdateAvailable();
  return reservation;
}

std::uint64_t ArenaPool::TakeReserved(Reservation& reservation) {
  const std::lock_guard lock(mutex_);
  if (reservation.blocks_ == 0) return 0;
  const std::uint64_t block = AllocateLocked(true);
  if (block == 0) return 0;  // The kernel has none.
  --reservation.blocks_;
  ++reservation.taken_;
  return block;
}

void ArenaPool::CancelReserved(Reservation& reservation) {
  const std::lock_guard lock(mutex_);
  if (reservation.refused()) return;
  if (reservation.in_line_) {
    Leave(reservation, Reservation::State::kRefused);
  } else {
    GiveBack(reservation);
    if (reservation.kind_ == Reservation::Kind::kValue) --values_granted_;
    reservation.state_.store(Reservation::State::kRefused, std::memory_order_release);
    if (reservation.kind_ == Reservation::Kind::kValue) AskAgain();
  }
  ServeLines();
  UpdateAvailable();
}

// The blocks of a value that has ended may leave memory, or are free soon: the reports of cores are
// older than that.
void ArenaPool::AskAgain() {
  if (operations_.empty() && values_.empty()) return;
  const std::uint64_t asked = asked_.fetch_add(1, std::memory_order_acq_rel) + 1;
  for (Line* line : {&operations_, &values_}) {
    for (Reservation* each : *line) each->asked_ = asked;
  }
  for (const auto& each : room_cores_) WakeCore(*each);
}

void ArenaPool::GiveBack(Reservation& reservation) {
  TP_CHECK(promised_blocks_ >= reservation.blocks_);
  promised_blocks_ -= std::exchange(reservation.blocks_, 0);
  if (std::exchange(reservation.counted_, false)) value_blocks_ -= reservation.wanted_;
}

void ArenaPool::Leave(Reservation& reservation, Reservation::State state) {
  LineOf(reservation).remove(&reservation);
  reservation.in_line_ = false;
  waiting_.fetch_sub(1, std::memory_order_relaxed);
  if (reservation.kind_ == Reservation::Kind::kReturn) {
    reads_waiting_.fetch_sub(1, std::memory_order_relaxed);
  }
  const bool granted = state == Reservation::State::kGranted;
  if (!granted) GiveBack(reservation);
  if (granted && reservation.kind_ == Reservation::Kind::kValue) ++values_granted_;
  reservation.state_.store(state, std::memory_order_release);
  if (reservation.asked_ == 0) return;  // It has not waited.
  reservation.core_->news.store(true, std::memory_order_release);
  WakeCore(*reservation.core_);
}

Reservation* ArenaPool::FirstRead() const {
  const auto read = std::find_if(values_.begin(), values_.end(), [](const Reservation* each) {
    return each->kind_ == Reservation::Kind::kReturn;
  });
  return read == values_.end() ? nullptr : *read;
}

// A written value at the head may wait for granted values. Reads behind it pass then: the put of a
// granted value may stand behind a get of its key.
Reservation* ArenaPool::NextValue() const {
  if (values_.empty() || MayCollect(*values_.front())) {
    return values_.empty() ? nullptr : values_.front();
  }
  return FirstRead();
}

Reservation* ArenaPool::NextInLine() const {
  if (!values_.empty() && HasRoomCores() && !AnyHasSlots()) {
    if (Reservation* const read = FirstRead(); read != nullptr) return read;
  }
  Reservation* const operation = operations_.empty() ? nullptr : operations_.front();
  Reservation* const value = NextValue();
  if (operation == nullptr || (value != nullptr && values_turn_)) return value;
  return operation;
}

void ArenaPool::Give(Reservation* to) {
  ++promised_blocks_;
  ++to->blocks_;
  values_turn_ = to->kind_ == Reservation::Kind::kOperation;
  if (!values_turn_ && !std::exchange(to->counted_, true)) value_blocks_ += to->wanted_;
  // The read goes on with each block.
  if (to->kind_ == Reservation::Kind::kReturn && to->asked_ != 0) WakeCore(*to->core_);
}

void ArenaPool::ServeLines() {
  while (Reservation* const next = NextInLine()) {
    const std::uint64_t left = next->kind_ == Reservation::Kind::kReturn ? 0 : kBlocksLeftMax;
    if (FreeBlocks() <= promised_blocks_ + left) break;
    Give(next);
    // A read may have taken some of its blocks already.
    if (next->blocks_ + next->taken_ == next->wanted_) Leave(*next, Reservation::State::kGranted);
  }
  UpdateWanted();
}

void ArenaPool::UpdateWanted() {
  const auto lacking = [](const Line& line) {
    std::uint64_t blocks = 0;
    for (const Reservation* each : line) blocks += each->wanted_ - each->blocks_ - each->taken_;
    return blocks;
  };
  room_wanted_.store(lacking(operations_) + std::min(lacking(values_), BlocksForValues()),
                     std::memory_order_relaxed);
}

// ---- Refusing.

bool ArenaPool::IsHopeless(const Reservation& reservation, bool no_room) const {
  for (const auto& core : room_cores_) {
    if (core->in_use && core->look.asked < reservation.asked_) return false;  // Not reported yet.
  }
  // A read waits for the end of pins on other values, and gives up by itself.
  if (reservation.kind_ == Reservation::Kind::kReturn) return false;
  // A segment that can leave but stays has a reader: its memory comes when the read ends.
  if (no_room && !AnyHasSlots()) return true;
  if (values_granted_ > 0) return false;  // Some of the fixed blocks are theirs.
  const std::uint64_t open = no_room ? kOpenSegmentsMax * room_cores_.size() : 0;
  const std::uint64_t others = set_aside_blocks_ + FixedBlocks() + open + kBlocksLeftMax;
  return reservation.wanted_ + others > blocks_max_;
}

void ArenaPool::RefuseHopeless() {
  bool room = false;
  for (const auto& core : room_cores_) room = room || core->look.makes_room;
  // A granted value may leave memory as soon as it is published.
  room = room || (values_granted_ > 0 && AnyHasSlots());
  for (Line* line : {&operations_, &values_}) {
    for (auto at = line->begin(); at != line->end();) {
      Reservation* const each = *at++;
      if (IsHopeless(*each, !room)) Leave(*each, Reservation::State::kRefused);
    }
  }
}

}  // namespace tidepool::storage
