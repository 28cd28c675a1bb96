// BCL's CircularQueue over a window: a ring of items of one size in the memory of its host.
//
//   push: fetch-and-add (reserve), put, compare-and-swap (publish, in the order of reservations)
//   pop:  fetch-and-add (reserve), get, compare-and-swap (free)
//
// Where a phase has only pushes, or only pops, the second atomic is left out (BCL's promises).
#pragma once

#include <cstddef>
#include <cstdint>

#include "tests/bench/baselines/place.h"

namespace tidepool::baselines {

// Not thread-safe.
template <typename Window>
class RingQueue {
 public:
  RingQueue(Window* window, Place host, std::size_t items_max, std::size_t item_bytes)
      : window_(*window), host_(host), items_max_(items_max), item_bytes_(item_bytes) {}

  // That it needs of its host's window.
  static std::size_t Bytes(std::size_t items_max, std::size_t item_bytes) {
    return kItems + items_max * item_bytes;
  }

  // Many items in a row. False: the queue is full.
  bool Push(const void* items, std::size_t count) {
    std::uint64_t first = 0;
    if (!ReserveAndPut(items, count, &first)) return false;
    // Earlier ones are published first, whoever has them.
    while (window_.CompareAndSwap(At(kPublished), first, first + count) != first) {
      window_.Progress();
    }
    return true;
  }
  // Nobody pops before the next barrier.
  bool PushOnly(const void* items, std::size_t count) {
    std::uint64_t first = 0;
    return ReserveAndPut(items, count, &first);
  }
  // At a barrier behind a phase of PushOnly, by the host.
  void PublishAll() {
    auto* const words = reinterpret_cast<std::uint64_t*>(window_.local() + host_.at);
    words[kPublished / 8] = words[kTail / 8];
  }

  // False: there is none.
  bool Pop(void* item) {
    std::uint64_t at = 0;
    if (!ReserveAndGet(item, &at)) return false;
    while (window_.CompareAndSwap(At(kFreed), at, at + 1) != at) window_.Progress();
    return true;
  }
  // Nobody pushes before the next barrier, so the place need not be freed.
  bool PopOnly(void* item) {
    std::uint64_t at = 0;
    return ReserveAndGet(item, &at);
  }
  // At a barrier behind a phase of PopOnly, by the host.
  void FreeAll() {
    auto* const words = reinterpret_cast<std::uint64_t*>(window_.local() + host_.at);
    words[kFreed / 8] = words[kHead / 8];
  }

 private:
  // Each counts for ever, on a line of its own.
  static constexpr std::size_t kTail = 0;
  static constexpr std::size_t kPublished = 64;
  static constexpr std::size_t kHead = 128;
  static constexpr std::size_t kFreed = 192;
  static constexpr std::size_t kItems = 256;

  Place At(std::size_t offset) const { return {host_.rank, host_.at + offset}; }
  std::uint64_t Read(std::size_t offset) {
    std::uint64_t number = 0;
    window_.Get(At(offset), &number, 8);
    return number;
  }
  bool ReserveAndPut(const void* items, std::size_t count, std::uint64_t* first) {
    *first = window_.FetchAdd(At(kTail), count);
    // What is known of the other end is looked up again only where it does not do.
    if (*first + count > freed_ + items_max_) freed_ = Read(kFreed);
    if (*first + count > freed_ + items_max_) {
      window_.FetchAdd(At(kTail), ~static_cast<std::uint64_t>(count) + 1);
      return false;
    }
    const char* from = static_cast<const char*>(items);
    for (std::size_t done = 0; done < count;) {
      const std::size_t slot = (*first + done) % items_max_;
      const std::size_t now = count - done < items_max_ - slot ? count - done : items_max_ - slot;
      window_.Put(At(kItems + slot * item_bytes_), from + done * item_bytes_, now * item_bytes_);
      done += now;
    }
    return true;
  }
  bool ReserveAndGet(void* item, std::uint64_t* at) {
    *at = window_.FetchAdd(At(kHead), 1);
    if (*at >= published_) published_ = Read(kPublished);
    if (*at >= published_) {
      window_.FetchAdd(At(kHead), ~std::uint64_t{0});
      return false;
    }
    window_.Get(At(kItems + *at % items_max_ * item_bytes_), item, item_bytes_);
    return true;
  }

  Window& window_;
  const Place host_;
  const std::uint64_t items_max_;
  const std::size_t item_bytes_;
  std::uint64_t freed_ = 0;
  std::uint64_t published_ = 0;
};

}  // namespace tidepool::baselines
