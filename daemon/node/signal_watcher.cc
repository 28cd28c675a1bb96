#include "daemon/node/signal_watcher.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include <cstdio>
#include <string>
#include <thread>
#include <utility>

#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/thread.h"

namespace tidepool::daemon {
namespace {

constexpr std::uint64_t kEverMs = 3'600'000;      // Bound on a wait, which is then repeated.
constexpr std::uint64_t kSecondCtrlCMs = 10'000;  // For the second Ctrl-C.
constexpr int kSecondSignal = 3;                  // Equal to kvd's exit code.

struct WatchedSignal {
  int number;
  const char* name;
  bool ends;  // False: a batch system sends it, and means other programs.
};
// All signals whose default action ends a process, except for crashes. A failed write beyond the
// limit of file sizes raises SIGXFSZ too; the write then returns EFBIG.
constexpr WatchedSignal kWatchedSignals[] = {
    {SIGINT, "SIGINT", true},        {SIGTERM, "SIGTERM", true},      {SIGQUIT, "SIGQUIT", true},
    {SIGHUP, "SIGHUP", false},       {SIGUSR1, "SIGUSR1", false},     {SIGUSR2, "SIGUSR2", false},
    {SIGALRM, "SIGALRM", false},     {SIGXCPU, "SIGXCPU", false},     {SIGXFSZ, "SIGXFSZ", false},
    {SIGVTALRM, "SIGVTALRM", false}, {SIGPROF, "SIGPROF", false},     {SIGIO, "SIGIO", false},
    {SIGPWR, "SIGPWR", false},       {SIGSTKFLT, "SIGSTKFLT", false},
};

const WatchedSignal* FindSignal(int number) {
  for (const WatchedSignal& each : kWatchedSignals) {
    if (each.number == number) return &each;
  }
  return nullptr;
}

bool IsRealTime(int number) { return number >= SIGRTMIN && number <= SIGRTMAX; }

std::string SignalName(int number) {
  if (IsRealTime(number)) return "SIGRTMIN+" + std::to_string(number - SIGRTMIN);
  const WatchedSignal* const found = FindSignal(number);
  return found == nullptr ? "" : found->name;
}

sigset_t AllWatched() {
  sigset_t all;
  sigemptyset(&all);
  for (const WatchedSignal& each : kWatchedSignals) sigaddset(&all, each.number);
  for (int number = SIGRTMIN; number <= SIGRTMAX; ++number) sigaddset(&all, number);
  return all;
}

}  // namespace

void SignalWatcher::Block() {
  const sigset_t all = AllWatched();
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

Status SignalWatcher::Start() {
  signals_ = AllWatched();
  Block();
  auto thread = StartThread("signals", [this] { Run(); });
  if (!thread.ok()) return thread.status();
  thread->detach();
  return OkStatus();
}

void SignalWatcher::BeginServing(std::function<std::string()> unsaved) {
  const std::lock_guard lock(mutex_);
  unsaved_ = std::move(unsaved);
}

void SignalWatcher::EndServing() {
  const std::lock_guard lock(mutex_);
  unsaved_ = nullptr;
}

std::string SignalWatcher::reason() const { return SignalName(ended_by_); }

bool SignalWatcher::Asks(int signal) {
  if (signal != SIGINT || !options_.is_on_terminal) return false;
  const std::uint64_t now_ns = Clock::Real().MonotonicNs();
  if (now_ns < asked_until_ns_) return false;  // This signal is the answer.
  std::string unsaved;
  {
    const std::lock_guard lock(mutex_);
    if (unsaved_ && !stop_.requested()) unsaved = unsaved_();
  }
  if (unsaved.empty()) return false;
  asked_until_ns_ = Clock::Real().MonotonicNs() + kSecondCtrlCMs * 1'000'000;
  // On a line of its own, behind the "^C" of the terminal.
  std::fprintf(stderr,
               "\nkvd: %s unsaved; Ctrl-C again within %d s ends this daemon and loses that; kvctl "
               "stage out NAMESPACE DIR saves a namespace\n",
               unsaved.c_str(), static_cast<int>(kSecondCtrlCMs / 1000));
  std::fflush(stderr);
  return true;
}

// The terminal of a person that goes away takes the daemon along.
bool SignalWatcher::LeavesAlone(int signal) const {
  const WatchedSignal* const found = FindSignal(signal);
  const bool ends = found != nullptr ? found->ends : !IsRealTime(signal);
  if (ends || (signal == SIGHUP && options_.is_on_terminal)) return false;
  log::Info(SignalName(signal) + " is left alone: SIGTERM ends this daemon");
  return true;
}

void SignalWatcher::Stop(int signal) {
  ended_by_ = signal;
  stop_.Request({});
}

// A node that does not serve yet has no data to keep, so it does not linger. While it lingers,
// SIGTERM may come again: both Slurm and srun may send it to the processes of a step at the end of
// a job.
void SignalWatcher::Run() {
  bool is_first = true;
  int lingers_for = 0;  // The signal, until the stop is requested.
  Deadline linger_end = Deadline::AfterMs(0);
  while (true) {
    const std::uint64_t wait_ms = lingers_for != 0 ? linger_end.LeftMs() : kEverMs;
    const timespec time = {static_cast<time_t>(wait_ms / 1000),
                           static_cast<long>(wait_ms % 1000 * 1'000'000)};
    const int signal = sigtimedwait(&signals_, nullptr, &time);
    if (signal < 0 && lingers_for != 0 && linger_end.Passed()) {
      log::Info("nobody has stopped this node meanwhile: stopping in good order");
      Stop(std::exchange(lingers_for, 0));
    }
    if (signal < 0 || LeavesAlone(signal) || (lingers_for != 0 && signal == SIGTERM)) continue;
    if (!is_first) _Exit(kSecondSignal);
    if (Asks(signal)) continue;
    is_first = false;
    bool serves = false;
    {
      const std::lock_guard lock(mutex_);
      serves = unsaved_ != nullptr;
    }
    if (options_.linger_ms > 0 && serves) {
      log::Info(SignalName(signal) + ": serving for up to " + std::to_string(options_.linger_ms) +
                " ms more, or until kvctl stop");
      lingers_for = signal;
      linger_end = Deadline::AfterMs(options_.linger_ms);
      continue;
    }
    log::Info(SignalName(signal) + ": stopping in good order");
    Stop(signal);
  }
}

}  // namespace tidepool::daemon
