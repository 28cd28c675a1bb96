// Signals that wait until a verb asks for them, since it must end in good order.
//
// Ctrl-C, a batch system -> [HeldSignals] -> kvctl run, kvctl start, kvctl bench
#pragma once

#include <signal.h>

#include <cstdint>

namespace tidepool::cli {

// Holds back, from its making on: SIGINT, SIGTERM, SIGHUP and SIGQUIT, which ask for the end; the
// notices, which a batch system sends for a program to act on (SIGUSR1, SIGUSR2, SIGALRM, SIGXCPU,
// real-time signals and their like); SIGCHLD and SIGPIPE. Made before any thread, and used by that
// thread. May be nested.
class HeldSignals {
 public:
  HeldSignals();
  ~HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  // Waits for a signal and returns it; 0 if none comes in time.
  int Next(std::uint64_t timeout_ms) const;
  // Waits for a signal. Returns true if a signal has requested the end, now or earlier.
  bool EndAsked(std::uint64_t timeout_ms = 0);
  // The next signal ends the process again, as without this object.
  void Release();

  // Returns whether `signal` asks for the end.
  static bool AsksForEnd(int signal);
  // Returns whether `signal` is a notice.
  static bool IsNotice(int signal);
  // Returns 128 plus the last signal that requested the end in this process; 0: no signal.
  static int ExitCode();

  // The signals that were held before, which a child process inherits.
  const sigset_t& before() const { return before_; }
  // The earlier mask plus the notices: for a child process that no notice may end.
  const sigset_t& before_and_notices() const { return before_and_notices_; }
  const sigset_t& held() const { return held_; }

 private:
  sigset_t held_;
  sigset_t before_;
  sigset_t before_and_notices_;
  bool end_asked_ = false;
};

}  // namespace tidepool::cli
