#include "cli/held_signals.h"

#include <pthread.h>

#include <ctime>
#include <initializer_list>

namespace tidepool::cli {
namespace {

int g_end_signal = 0;  // Of the thread that holds signals.

}  // namespace

HeldSignals::HeldSignals() {
  sigemptyset(&held_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD, SIGPIPE}) {
    sigaddset(&held_, signal);
  }
  pthread_sigmask(SIG_BLOCK, &held_, &before_);
}

HeldSignals::~HeldSignals() { Release(); }

void HeldSignals::Release() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

bool HeldSignals::AsksForEnd(int signal) {
  return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
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
