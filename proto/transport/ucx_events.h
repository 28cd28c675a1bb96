// A use-after-free in UCX 1.13.1, kept from happening.
//
// When the two sides of a TCP connection close it while one of them still has bytes to send, one
// epoll event may tell UCX both "readable" (the peer's goodbye) and "writable". UCX handles the
// first, which frees the connection, and then uses it for the second: a client that is slow to read
// and then leaves could end a daemon. So while UCX runs, its epoll_wait (MAX_POLL=1: one event at a
// time) never gets both at once: one of the two, and the other with a later call, since UCX's
// events are level-triggered.
//
// Done by a definition of epoll_wait in the executable, which the dynamic linker prefers to that of
// libc. It works for programs that link this library statically (kvd, the tests). The SDK is a
// shared library that hides its symbols, and may not change libc for its user's program: there the
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
