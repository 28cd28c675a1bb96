#include "storage/nvm/slot_pool.h"

#include <bit>

#include "proto/base/check.h"

namespace tidepool::storage {
namespace {

constexpr std::uint64_t kWordBits = 64;

}  // namespace

SlotPool::SlotPool(const std::vector<std::uint64_t>& counts) {
  TP_CHECK(!counts.empty());
  for (const std::uint64_t count : counts) {
    DeviceSlots device;
    device.count = count;
    device.free = count;
    device.is_used.resize((count + kWordBits - 1) / kWordBits);
    if (count % kWordBits != 0) device.is_used.back() = ~std::uint64_t{0} << count % kWordBits;
    devices_.push_back(std::move(device));
    count_ += count;
  }
  free_.store(count_, std::memory_order_relaxed);
}

std::uint64_t SlotPool::AllocateOn(DeviceSlots& device) {
  while (device.is_used[device.next] == ~std::uint64_t{0}) {
    device.next = (device.next + 1) % device.is_used.size();
  }
  std::uint64_t& word = device.is_used[device.next];
  const auto bit = static_cast<std::uint64_t>(std::countr_one(word));
  word |= std::uint64_t{1} << bit;
  --device.free;
  free_.fetch_sub(1, std::memory_order_relaxed);
  return device.next * kWordBits + bit;
}

std::uint64_t SlotPool::Allocate() {
  const std::lock_guard lock(mutex_);
  for (std::size_t tried = 0; tried < devices_.size(); ++tried) {
    const std::size_t which = next_device_;
    next_device_ = (next_device_ + 1) % devices_.size();
    if (devices_[which].free > 0) return AllocateOn(devices_[which]) * devices_.size() + which;
  }
  return kNoSlot;
}

void SlotPool::Free(std::uint64_t slot) {
  const std::lock_guard lock(mutex_);
  DeviceSlots& device = devices_[slot % devices_.size()];
  const std::uint64_t index = slot / devices_.size();
  TP_CHECK(index < device.count);
  std::uint64_t& word = device.is_used[index / kWordBits];
  const std::uint64_t mask = std::uint64_t{1} << index % kWordBits;
  TP_CHECK((word & mask) != 0);
  word &= ~mask;
  ++device.free;
  free_.fetch_add(1, std::memory_order_relaxed);
}

bool SlotPool::Take(std::uint64_t slot) {
  const std::lock_guard lock(mutex_);
  DeviceSlots& device = devices_[slot % devices_.size()];
  const std::uint64_t index = slot / devices_.size();
  if (index >= device.count) return false;
  std::uint64_t& word = device.is_used[index / kWordBits];
  const std::uint64_t mask = std::uint64_t{1} << index % kWordBits;
  if ((word & mask) != 0) return false;
  word |= mask;
  --device.free;
  free_.fetch_sub(1, std::memory_order_relaxed);
  return true;
}

std::uint64_t SlotPool::used() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t used = 0;
  for (const DeviceSlots& device : devices_) used += device.count - device.free;
  return used;
}

std::uint64_t SlotPool::used_of(std::size_t device) const {
  const std::lock_guard lock(mutex_);
  return devices_[device].count - devices_[device].free;
}

}  // namespace tidepool::storage
