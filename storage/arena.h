// The node's memory for data: arenas (sealed memfds) cut into blocks, shared by the cores.
//
// ArenaPool -> CoreMemory (one core's share) -> segments and index. A core takes the pool's lock
// once per block (2 MiB) and never for an operation that fits what it has.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "proto/base/clock.h"
#include "proto/base/limits.h"
#include "proto/base/result.h"
#include "storage/reservation.h"

namespace tidepool::storage {

struct ArenaPoolOptions {
  // Bound of everything that is cut from arenas. Rounded down to whole blocks.
  std::uint64_t memory_bytes = limits::kMemoryBytesMin;
  // Block and segment size. A power of two of at least 4 KiB; tests use small blocks.
  std::uint64_t block_bytes = limits::kSegmentBytes;
  // Arenas double from the first size to the largest, so that an idle daemon stays small.
  std::uint64_t arena_first_bytes = limits::kArenaFirstBytes;
  std::uint64_t arena_bytes = limits::kArenaBytes;
  // True if a thread of the pool calls PrepareSlice as memory is used up. Otherwise the caller may.
  bool prepare_in_background = false;
};

struct ArenaPoolUsage {
  std::uint64_t limit_bytes = 0;      // memory_bytes in whole blocks.
  std::uint64_t mapped_bytes = 0;     // Arenas made so far.
  std::uint64_t touched_bytes = 0;    // Part of these backed by pages ahead of use.
  std::uint64_t huge_bytes = 0;       // Part of these in huge pages.
  std::uint64_t used_bytes = 0;       // Blocks that cores hold.
  std::uint64_t promised_bytes = 0;   // The cores' reserves that they do not hold now.
  std::uint64_t available_bytes = 0;  // Left for an ordinary allocation.
};

// All arenas of a node lie in one range of addresses, reserved at creation; a *node offset* is the
// distance from its start and means the same in every process that maps the arenas alike. Offset 0
// is never handed out.
//
// Thread-safe. Outlives every CoreStore made on it. Blocks are never returned to the kernel: arenas
// are sealed against shrinking, since clients may have mapped them.
class ArenaPool {
 public:
  // Returns: kInvalidArgument (options that do not fit each other), kResourceExhausted (the kernel
  // gives no address range or no memfd).
  static Result<std::unique_ptr<ArenaPool>> Create(const ArenaPoolOptions& options);
  ~ArenaPool();
  ArenaPool(const ArenaPool&) = delete;
  ArenaPool& operator=(const ArenaPool&) = delete;

  std::uint64_t block_bytes() const { return options_.block_bytes; }
  std::uint64_t block_count_max() const { return blocks_max_; }
  std::byte* base() const { return base_; }

  // Returns a block's node offset, or 0 when the budget is used up or the kernel refuses a new
  // arena. Prefers touched memory. Contents are arbitrary. `from_promise` uses up a block promised
  // to the caller by Promise, which cannot fail for lack of budget.
  std::uint64_t Allocate(bool from_promise);
  // Gives a block back; with `to_promise` the budget returns to the caller's promise.
  void Free(std::uint64_t node_offset, bool to_promise);
  // Sets `blocks` of the budget aside for one caller's Allocate(true). False: not that many left.
  bool Promise(std::uint64_t blocks);
  void Unpromise(std::uint64_t blocks);

  // Backs memory with pages ahead of use, huge pages where the kernel can, and makes the next arena
  // when little is left, until about `deadline_ns` of `clock`. A step may take 5 ms (a huge page
  // that the machine must first find), so no owner core should call it. A single thread works at
  // it; other threads return at once. True: more to do.
  bool PrepareSlice(const Clock& clock, std::uint64_t deadline_ns);

  // ---- Reservations, for short memory on nodes with devices.
  //
  // Two lines over all cores, each first come, first served: operations, and large values that are
  // written or read. A free block goes to the first of a line, to each line in turns, before any
  // other user. Neither line starves. Two values never hold blocks that the other value lacks: the
  // first of the line collects, and another value only while there are blocks for all of both.
  //
  // 1. Values that are written have together no more than BlocksForValues(), so that operations go
  //    on whatever the clients do. A single value may have more.
  // 2. On full devices values that are read come first: segments that leave for them take the last
  //    slots.
  // 3. A reservation is refused if no core can make room, after every core has reported.

  // A core that makes room. The pool keeps ownership.
  RoomCore* AddCore();
  // `wake` is called from any thread, with this pool's lock: when the core should look for room, or
  // has news.
  void SetWake(RoomCore* core, std::function<void()> wake);
  void RemoveCore(RoomCore* core);
  // Ends a wake: the core may be woken again.
  static void EndWake(RoomCore* core) { core->woken.store(false, std::memory_order_release); }
  // True if a reservation of the core has left its line since the last call.
  static bool TakeRoomNews(RoomCore* core) {
    return core->news.load(std::memory_order_relaxed) &&
           core->news.exchange(false, std::memory_order_acquire);
  }
  // Reserves blocks: granted at once if memory is free and no line waits. Without a core that makes
  // room the reservation is granted or refused at once.
  std::shared_ptr<Reservation> Reserve(Reservation::Kind kind, std::uint64_t blocks,
                                       RoomCore* core);
  // True while a reservation waits. A relaxed read: no lock.
  bool room_waits() const { return waiting_.load(std::memory_order_relaxed) != 0; }
  // True while a value to be read waits. A relaxed read.
  bool reads_wait() const { return reads_waiting_.load(std::memory_order_relaxed) != 0; }
  // Blocks that the lines lack. A relaxed read.
  std::uint64_t room_wanted() const { return room_wanted_.load(std::memory_order_relaxed); }
  std::uint64_t room_asked() const { return asked_.load(std::memory_order_acquire); }
  // Reports a core's room; repeated by each core while a reservation waits.
  void TellRoom(RoomCore* core, const RoomLook& look);
  // Most blocks that a value can have, whatever else is in memory.
  std::uint64_t ValueBlocksMax() const;

  ArenaPoolUsage usage() const;
  // Blocks that an ordinary allocation can still get. A relaxed read: no lock.
  std::uint64_t BlocksAvailable() const;

  // Returns the arena that holds `node_offset` (0: any), for processes that may read it. A reader
  // touches only memory backed by pages: a touched hole would be allocated for good. The pool keeps
  // ownership.
  struct Shown {
    int descriptor = -1;  // -1: no arena.
    std::uint64_t begin = 0;
    std::uint64_t bytes = 0;
    std::uint64_t touched_bytes = 0;  // From `begin` on.
  };
  Shown Show(std::uint64_t node_offset) const;
  // Node offsets are below.
  std::uint64_t range_bytes() const { return reserved_bytes_; }

 private:
  struct Arena {
    int descriptor = -1;
    std::uint64_t begin = 0;  // Node offset.
    std::uint64_t bytes = 0;
    std::uint64_t touched = 0;  // Bytes from `begin` that are backed by pages.
  };
  // Next memory to touch.
  struct Step {
    std::size_t arena = 0;
    std::byte* at = nullptr;
    std::uint64_t bytes = 0;
    bool huge = false;
  };

  explicit ArenaPool(const ArenaPoolOptions& options);
  bool AddArena();                   // Holds mutex_.
  bool NextStep(Step* step);         // Holds mutex_. False: nothing to do.
  void PrepareAsNeeded();            // The background thread.
  std::uint64_t FreeBlocks() const;  // Holds mutex_.
  void UpdateAvailable();            // Holds mutex_.

  // reservations.cc. All hold mutex_, but TakeReserved and CancelReserved.
  friend class Reservation;
  using Line = std::list<Reservation*>;
  std::uint64_t AllocateLocked(bool from_promise);
  std::uint64_t TakeReserved(Reservation& reservation);
  void CancelReserved(Reservation& reservation);
  Line& LineOf(const Reservation& reservation) {
    return reservation.kind_ == Reservation::Kind::kOperation ? operations_ : values_;
  }
  bool HasRoomCores() const;
  bool AnyHasSlots() const;
  std::uint64_t FixedBlocks() const;
  std::uint64_t BlocksForValues() const;
  bool MayCollect(const Reservation& value) const;
  Reservation* FirstRead() const;
  Reservation* NextValue() const;
  Reservation* NextInLine() const;
  void ServeLines();
  void Give(Reservation* to);
  void Leave(Reservation& reservation, Reservation::State state);
  void GiveBack(Reservation& reservation);
  void AskAgain();
  void RefuseHopeless();
  bool IsHopeless(const Reservation& reservation, bool no_room) const;
  void UpdateWanted();
  static void WakeCore(RoomCore& core);

  const ArenaPoolOptions options_;
  std::uint64_t blocks_max_ = 0;
  void* reserved_ = nullptr;  // The range of addresses; base_ is its first huge page's start.
  std::byte* base_ = nullptr;
  std::uint64_t reserved_bytes_ = 0;

  mutable std::mutex mutex_;
  std::mutex prepare_mutex_;  // Taken before mutex_: one thread at a time touches memory.
  std::vector<Arena> arenas_;
  std::vector<std::uint64_t> free_;  // Returned blocks, used before: touched.
  std::uint64_t next_fresh_ = 0;     // Node offset of the first block never handed out.
  std::uint64_t mapped_end_ = 0;
  std::uint64_t used_blocks_ = 0;
  std::uint64_t promised_blocks_ = 0;
  std::uint64_t huge_bytes_ = 0;
  bool kernel_refused_ = false;
  bool huge_refused_ = false;  // This kernel collapses no shared memory.
  std::atomic<std::uint64_t> available_{0};

  std::vector<std::unique_ptr<RoomCore>> room_cores_;
  Line operations_;
  Line values_;
  bool values_turn_ = false;
  std::uint64_t set_aside_blocks_ = 0;  // By Promise, used up since or not.
  std::uint64_t value_blocks_ = 0;      // Of values that collect, or have all blocks.
  std::uint64_t values_granted_ = 0;    // Of kind kValue.
  std::atomic<std::uint64_t> asked_{0};
  std::atomic<std::uint64_t> waiting_{0};
  std::atomic<std::uint64_t> reads_waiting_{0};
  std::atomic<std::uint64_t> room_wanted_{0};

  std::condition_variable fresh_used_;  // With mutex_.
  bool stopping_ = false;
  std::thread preparer_;
};

}  // namespace tidepool::storage
