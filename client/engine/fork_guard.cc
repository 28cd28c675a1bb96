#include "client/engine/fork_guard.h"

#include <pthread.h>

#include <atomic>

namespace tidepool::internal {
namespace {

std::atomic<std::uint64_t> fork_generation{0};

bool Register() {
  // In a shared library glibc removes the handler when the library is unloaded.
  return pthread_atfork(nullptr, nullptr,
                        [] { fork_generation.fetch_add(1, std::memory_order_relaxed); }) == 0;
}

}  // namespace

std::uint64_t ForkGeneration() {
  [[maybe_unused]] static const bool registered = Register();
  return fork_generation.load(std::memory_order_relaxed);
}

}  // namespace tidepool::internal
