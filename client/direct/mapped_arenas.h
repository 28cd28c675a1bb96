// The memory of a daemon of this machine, as far as it is mapped into this process, and its
// readers.
//
//   transport (descriptors) -> engine -> [MappedArenas] <- direct space
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>

#include "client/direct/arena_map.h"
#include "client/direct/direct_reader.h"
#include "proto/base/clock.h"
#include "proto/transport/transport.h"

namespace tidepool::internal {

// Add needs the client's lock, all else any thread.
class MappedArenas {
 public:
  // Null: there are no addresses for it.
  static std::shared_ptr<MappedArenas> Make(const transport::NodeMemory& first, const Clock& clock);
  ~MappedArenas();
  MappedArenas(const MappedArenas&) = delete;
  MappedArenas& operator=(const MappedArenas&) = delete;

  // Maps a piece, or more of it. False: it is not of this memory, `bytes_max` would be passed, or
  // the kernel refuses it.
  bool Add(const transport::NodeMemory& memory, std::uint64_t bytes_max);
  std::uint64_t mapped_bytes() const { return mapped_bytes_.load(std::memory_order_relaxed); }

  static constexpr std::size_t kSlots = 16;

  // Lends a reader to a thread while the lease lives. Null: other threads use all readers.
  class ReaderLease {
   public:
    explicit ReaderLease(MappedArenas& arenas);
    ~ReaderLease() {
      if (busy_ != nullptr) busy_->clear(std::memory_order_release);
    }
    ReaderLease(const ReaderLease&) = delete;
    ReaderLease& operator=(const ReaderLease&) = delete;
    DirectReader* get() const { return reader_; }
    // Below kSlots; of the leases that live at a time each has its own.
    std::size_t slot() const { return slot_; }

   private:
    std::atomic_flag* busy_ = nullptr;
    DirectReader* reader_ = nullptr;
    std::size_t slot_ = 0;
  };

 private:
  struct alignas(64) Slot {
    Slot(const ArenaMap& map, const Clock& clock) : reader(map, clock) {}
    std::atomic_flag busy;
    DirectReader reader;
  };

  MappedArenas(std::byte* base, const transport::NodeMemory& first, const Clock& clock);

  std::byte* const base_;
  const std::uint64_t range_bytes_;
  const std::uint32_t block_shift_;
  ArenaMap map_;
  std::map<std::uint64_t, std::uint64_t> pieces_;  // Begin -> bytes that are ready.
  std::atomic<std::uint64_t> mapped_bytes_{0};
  std::array<std::unique_ptr<Slot>, kSlots> slots_;
};

}  // namespace tidepool::internal
