// The node's right to serve, as the cores read it: one word.
//
//   daemon/membership extends it  ->  [lease]  ->  every core reads it before it applies and before
//   it answers a batch
#pragma once

#include <atomic>
#include <cstdint>

namespace tidepool::daemon {

// Thread-safe. Monotonic nanoseconds; 0 serves nothing. A revoked lease stays revoked.
class Lease {
 public:
  // Extends the lease to `until_ns`, counted from when the renewal was *sent*. Never shortens it.
  // Called by membership.
  void ExtendTo(std::uint64_t until_ns) {
    std::uint64_t now = until_ns_.load(std::memory_order_relaxed);
    while (now != kRevoked && now < until_ns &&
           !until_ns_.compare_exchange_weak(now, until_ns, std::memory_order_release)) {
    }
  }
  // Ends the lease for ever: the node stops, or another node has its identity.
  void Revoke() { until_ns_.store(kRevoked, std::memory_order_release); }
  bool ValidAt(std::uint64_t now_ns) const {
    return now_ns < until_ns_.load(std::memory_order_acquire);
  }
  std::uint64_t until_ns() const { return until_ns_.load(std::memory_order_acquire); }

 private:
  static constexpr std::uint64_t kRevoked = 1;  // Long past on any clock.

  std::atomic<std::uint64_t> until_ns_{0};
};

}  // namespace tidepool::daemon
