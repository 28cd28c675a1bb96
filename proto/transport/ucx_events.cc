#include "proto/transport/ucx_events.h"

#include <sys/epoll.h>

#include <cstdint>

namespace tidepool::transport {

thread_local constinit bool UcxRuns::on_this_thread = false;

namespace {

// Chooses one of two, by chance. In some states of a connection UCX does nothing on one of them,
// which then stays due for ever and would hold the other back.
[[maybe_unused]] std::uint32_t AnyOf(std::uint32_t a, std::uint32_t b) {
  static thread_local std::uint64_t random = 1;
  random = random * 6'364'136'223'846'793'005 + 1'442'695'040'888'963'407;  // Knuth's MMIX.
  return random >> 63 != 0 ? a : b;
}

}  // namespace
}  // namespace tidepool::transport

// The sanitizers have an epoll_wait of their own, which must stay in place.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

extern "C" [[gnu::visibility("default")]] int epoll_wait(int set, epoll_event* events,
                                                         int events_max, int timeout_ms) {
  const int count = epoll_pwait(set, events, events_max, timeout_ms, nullptr);
  if (!tidepool::transport::UcxRuns::on_this_thread) return count;
  constexpr std::uint32_t kBoth = EPOLLIN | EPOLLOUT;
  for (int i = 0; i < count; ++i) {
    if ((events[i].events & kBoth) == kBoth)
      events[i].events ^= tidepool::transport::AnyOf(EPOLLIN, EPOLLOUT);
  }
  return count;
}

#endif
