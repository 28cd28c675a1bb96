// Blocks of a node's memory that an operation or a large value waits for, or has.
//
//   CoreStore, ValueWriter, Spiller -> [Reservation] <- ArenaPool, which serves the lines
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

namespace tidepool::storage {

class ArenaPool;

// Blocks left by writers to indexes and new partitions, since these cannot wait.
inline constexpr std::uint64_t kBlocksLeftMax = 1;
// Blocks of an ordinary operation at most: for its log and its index.
inline constexpr std::uint64_t kOperationBlocks = 2;

// A core's report on the room that it can make.
struct RoomLook {
  std::uint64_t asked = 0;         // ArenaPool::room_asked(), read before the look.
  bool makes_room = false;         // Memory of the core will come free.
  bool has_slots = false;          // Its segments can still be written to a device.
  std::uint64_t fixed_blocks = 0;  // Blocks that cannot leave memory.
};

// A core that can make room, as its pool knows it.
struct RoomCore {
  std::function<void()> wake;  // With the pool's lock, as what is below `news`.
  std::atomic<bool> woken{false};
  std::atomic<bool> news{false};
  bool in_use = true;
  RoomLook look;
};

// Made by ArenaPool::Reserve; the pool must outlive it. A reservation stands in a line until it has
// all its blocks. Destroying it leaves the line and gives back the unused blocks.
//
// state(), waits() and refused() from any thread; the rest on the core that it was made for.
class Reservation {
 public:
  enum class Kind : std::uint8_t {
    kOperation,  // An operation: unused blocks go back as soon as it has run.
    kValue,      // A value that is written: all its blocks, until it is published.
    kReturn,     // A value that is read from a device. Its blocks serve while it waits for more.
  };
  enum class State : std::uint8_t { kWaits, kGranted, kRefused };

  ~Reservation() { Cancel(); }
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;

  State state() const { return state_.load(std::memory_order_acquire); }
  bool waits() const { return state() == State::kWaits; }
  bool refused() const { return state() == State::kRefused; }
  std::uint64_t wanted_blocks() const { return wanted_; }
  // Unused blocks of a granted reservation.
  std::uint64_t left() const { return state() == State::kGranted ? wanted_ - taken_ : 0; }
  // Returns one of its blocks, as ArenaPool::Allocate. 0: none is left.
  std::uint64_t Take();
  // Leaves the line and gives the blocks back. The reservation counts as refused from now on.
  void Cancel();

 private:
  friend class ArenaPool;
  Reservation(ArenaPool& pool, Kind kind, std::uint64_t blocks, RoomCore* core)
      : pool_(pool), kind_(kind), wanted_(blocks), core_(core) {}

  ArenaPool& pool_;
  const Kind kind_;
  const std::uint64_t wanted_;
  RoomCore* const core_;  // Null: of a node without devices.
  std::atomic<State> state_{State::kWaits};
  std::uint64_t taken_ = 0;  // Written with the pool's lock.
  // With the pool's lock.
  std::uint64_t blocks_ = 0;  // Set aside for it, and not taken.
  std::uint64_t asked_ = 0;   // Only reports of cores since this question may refuse it.
  bool in_line_ = false;
  bool counted_ = false;  // In ArenaPool::value_blocks_.
};

}  // namespace tidepool::storage
