#include "proto/transport/ucx_signals.h"

#include <dlfcn.h>
#include <ucs/debug/debug.h>

#include <csignal>
#include <cstdlib>

namespace tidepool::transport {
namespace {

struct TakenSignal {
  int number;
  const char* variable;  // With it the user asks for UCX's handler.
};
constexpr TakenSignal kTakenSignals[] = {
    {SIGSEGV, "UCX_HANDLE_ERRORS"}, {SIGBUS, "UCX_HANDLE_ERRORS"}, {SIGILL, "UCX_HANDLE_ERRORS"},
    {SIGFPE, "UCX_HANDLE_ERRORS"},  {SIGHUP, "UCX_DEBUG_SIGNO"},
};

// Returns the start of the library or program that holds `function`; null if not found.
const void* HolderOf(const void* function) {
  Dl_info found{};
  return dladdr(function, &found) != 0 ? found.dli_fbase : nullptr;
}

bool IsUcxHandler(int signal, const void* ucs) {
  struct sigaction present {};
  if (sigaction(signal, nullptr, &present) != 0) return false;
  // Both members of the union hold the address of a function, SIG_DFL or SIG_IGN.
  const auto* handler = reinterpret_cast<const void*>(present.sa_handler);
  return handler != nullptr && HolderOf(handler) == ucs;
}

}  // namespace

int GiveBackSignals() {
  // By dlsym: a plain address may be that of a stub in this program.
  Dl_info library{};
  void* const disable = dlsym(RTLD_DEFAULT, "ucs_debug_disable_signal");
  if (disable == nullptr || dladdr(disable, &library) == 0) return 0;
  int given_back = 0;
  for (const TakenSignal& taken : kTakenSignals) {
    if (std::getenv(taken.variable) != nullptr) continue;
    if (!IsUcxHandler(taken.number, library.dli_fbase)) continue;
    ucs_debug_disable_signal(taken.number);
    ++given_back;
  }
  return given_back;
}

namespace {

// Before main(): a handler that the program installs there then meets the state of a program
// without UCX. Libraries run their constructors before the constructors of their users.
[[gnu::constructor]] void GiveBackSignalsAtLoad() { GiveBackSignals(); }

}  // namespace
}  // namespace tidepool::transport
