// Which segment slots of a node's devices are in use.
//
//   log (to spill), compactor -> volume -> [slot_pool]
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

namespace tidepool::storage {

inline constexpr std::uint64_t kNoSlot = UINT64_MAX;

// Slot n has index n / devices on device n % devices, so consecutive numbers lie on different
// devices. If devices differ in size, some numbers are no slots.
//
// Thread-safe: the lock is taken once per slot, that is once per 2 MiB written.
class SlotPool {
 public:
  // `counts`: slots of each device.
  explicit SlotPool(const std::vector<std::uint64_t>& counts);

  // Allocates from the devices in turns; on each the free slot behind the last allocation, so a
  // freed slot is reused last. kNoSlot: all are in use.
  std::uint64_t Allocate();
  // `slot` is in use.
  void Free(std::uint64_t slot);
  // Takes this slot, for recovery of found segments. False: it is no slot, or in use.
  bool Take(std::uint64_t slot);

  std::uint64_t count() const { return count_; }
  // At the moment; takes no lock.
  std::uint64_t free() const { return free_.load(std::memory_order_relaxed); }
  std::uint64_t used() const;
  std::uint64_t used_of(std::size_t device) const;

 private:
  struct DeviceSlots {
    std::uint64_t count = 0;
    std::uint64_t free = 0;
    std::uint64_t next = 0;              // Word to search first.
    std::vector<std::uint64_t> is_used;  // A bit per slot; bits behind the last slot are set.
  };
  std::uint64_t AllocateOn(DeviceSlots& device);

  mutable std::mutex mutex_;
  std::vector<DeviceSlots> devices_;
  std::uint64_t count_ = 0;
  std::atomic<std::uint64_t> free_{0};
  std::size_t next_device_ = 0;
};

}  // namespace tidepool::storage
