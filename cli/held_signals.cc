#include "cli/held_signals.h"

#include <pthread.h>

#include <algorithm>
#include <cstddef>
#include <ctime>
#include <iterator>

namespace tidepool::cli {
namespace {

int g_end_signal = 0;  // End signal of the thread that holds signals.

constexpr int kEndSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
// Notices, in addition to the real-time signals: signals that a batch system may send before the
// end of a job.
constexpr int kNotices[] = {SIGUSR1, SIGUSR2,   SIGALRM, SIGXCPU, SIGVTALRM,
                            SIGPROF, SIGSTKFLT, SIGIO,   SIGPWR};

template <std::size_t kCount>
bool HasSignal(const int (&list)[kCount], int signal) {
  return std::find(std::begin(list), std::end(list), signal) != std::end(list);
}

void AddNotices(sigset_t* signals) {
  for (const int signal : kNotices) sigaddset(signals, signal);
  for (int signal = SIGRTMIN; signal <= SIGRTMAX; ++signal) sigaddset(signals, signal);
}

}  // namespace

HeldSignals::HeldSignals() {
  sigemptyset(&held_);
  for (const int signal : kEndSignals) sigaddset(&held_, signal);
  sigaddset(&held_, SIGCHLD);
  sigaddset(&held_, SIGPIPE);
  AddNotices(&held_);
  pthread_sigmask(SIG_BLOCK, &held_, &before_);
  before_and_notices_ = before_;
  AddNotices(&before_and_notices_);
}

HeldSignals::~HeldSignals() { Release(); }

void HeldSignals::Release() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

bool HeldSignals::AsksForEnd(int signal) { return HasSignal(kEndSignals, signal); }

bool HeldSignals::IsNotice(int signal) {
  return HasSignal(kNotices, signal) || (signal >= SIGRTMIN && signal <= SIGRTMAX);
}

int HeldSignals::ExitCode() { return g_end_signal == 0 ? 0 : 128 + g_end_signal; }

int HeldSignals::Next(std::uint64_t timeout_ms) const {
  const timespec time = {static_cast<time_t>(timeout_ms / 1000),
                         static_cast<long>(timeout_ms % 1000 * 1'000'000)};
  const int signal = sigtimedwait(&held_, nullptr, &time);
  if (AsksForEnd(signal)) g_end_signal = signal;
  return signal > 0 ? signal : 0;
}

bool HeldSignals::EndAsked(std::uint64_t timeout_ms) {
  for (int signal = Next(timeout_ms); signal != 0; signal = Next(0)) {
    if (AsksForEnd(signal)) end_asked_ = true;
  }
  return end_asked_;
}

}  // namespace tidepool::cli
