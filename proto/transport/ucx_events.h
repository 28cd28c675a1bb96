// Prevents a use-after-free in UCX 1.13.1.
//
// The two sides of a TCP connection may close it while a side still has bytes to send. An epoll
// event may then report both "readable" (the peer's goodbye) and "writable" to UCX. UCX handles the
// first, which frees the connection, and then uses it for the second: a client that is slow to read
// and then leaves could end a daemon. While UCX runs, its epoll_wait (MAX_POLL=1: an event at a
// time) therefore never gets both at once: it gets either now, and the other with a later call,
// because UCX's events are level-triggered.
//
// The means is a definition of epoll_wait in the executable, which the dynamic linker prefers to
// libc's. It works for programs that link this library statically (kvd, the tests). The SDK is a
// shared library that hides its symbols, and may not change libc for its user's program. There the
// rare case stays, and costs a client that closed a session in mid-send.
#pragma once

namespace tidepool::transport {

// On this thread, while it is alive, UCX runs.
class UcxRuns {
 public:
  UcxRuns() { on_this_thread = true; }
  ~UcxRuns() { on_this_thread = false; }
  UcxRuns(const UcxRuns&) = delete;
  UcxRuns& operator=(const UcxRuns&) = delete;

  static thread_local bool on_this_thread;
};

}  // namespace tidepool::transport
