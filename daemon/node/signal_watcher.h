// Signals of a daemon. Depending on the signal: a drain, a drain after a while, a question first,
// an end at once, or only a line in the log.
//
//   the kernel -> [signal_watcher] -> stop_signal
#pragma once

#include <signal.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

#include "daemon/control/stop_signal.h"

namespace tidepool::daemon {

struct SignalWatcherOptions {
  std::uint64_t linger_ms = 0;  // Between a signal and the stop, once the node serves.
  // A person reads standard error: the first SIGINT asks if data would be lost.
  bool is_on_terminal = false;
};

// Blocks the signals in all threads and takes them in a thread of its own, so they interrupt no
// code. Lives as long as the process: its thread never ends.
class SignalWatcher {
 public:
  SignalWatcher(const SignalWatcherOptions& options, StopSignal* stop)
      : options_(options), stop_(*stop) {}
  SignalWatcher(const SignalWatcher&) = delete;
  SignalWatcher& operator=(const SignalWatcher&) = delete;

  // Blocks all watched signals in this thread, in each thread that it makes, and in a program that
  // it executes. They stay pending until Start.
  static void Block();
  // Blocks the signals as Block does, and begins to watch. Errors: kResourceExhausted (no thread).
  Status Start();
  // The node serves from now on. `unsaved` returns a text about the data that an end would lose, or
  // "", within about a second.
  void BeginServing(std::function<std::string()> unsaved);
  // Ends `unsaved`: after the return it does not run and is not called again.
  void EndServing();

  // Returns the name of the signal that has requested the stop; "" before.
  std::string reason() const;

 private:
  void Run();
  // Returns true if the user was asked instead of obeyed.
  bool Asks(int signal);
  // Returns true, and logs it, if the signal has no meaning for a daemon.
  bool LeavesAlone(int signal) const;
  void Stop(int signal);

  const SignalWatcherOptions options_;
  StopSignal& stop_;
  sigset_t signals_{};
  std::mutex mutex_;
  std::function<std::string()> unsaved_;  // Empty: the node does not serve.
  std::uint64_t asked_until_ns_ = 0;      // Used by the watching thread only.
  std::atomic<int> ended_by_{0};
};

}  // namespace tidepool::daemon
