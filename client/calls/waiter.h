// A thread that sleeps until another thread wakes it.
#pragma once

#include <atomic>
#include <cstdint>

namespace tidepool::internal {

// Lives on the stack of its thread. Wake() is called under the client's lock. The thread takes that
// lock before its Waiter goes, so a waker never touches a dead Waiter.
class Waiter {
 public:
  Waiter() = default;
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  // Any thread. A system call only if the thread really sleeps.
  void Wake();
  // Until Wake() or the monotonic time `until_ns`. Its own thread.
  void Sleep(std::uint64_t until_ns);
  bool woken() const { return word_.load(std::memory_order_acquire) == kWoken; }
  void Reset() { word_.store(kAwake, std::memory_order_relaxed); }

  // Links of the list of threads that wait for another thread's progress.
  Waiter* next = nullptr;
  Waiter* previous = nullptr;
  bool listed = false;

 private:
  static constexpr std::uint32_t kAwake = 0;
  static constexpr std::uint32_t kWoken = 1;
  static constexpr std::uint32_t kAsleep = 2;
  std::atomic<std::uint32_t> word_{kAwake};
};

}  // namespace tidepool::internal
