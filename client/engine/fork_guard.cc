#include "client/engine/fork_guard.h"

#include <pthread.h>

#include <atomic>

namespace tidepool::internal {
namespace {

std::atomic<std::uint64_t> fork_generation{0};
std::atomic<std::uint64_t> live_clients{0};
std::atomic<bool> forked_beside_client{false};

void OnForkInChild() {
  fork_generation.fetch_add(1, std::memory_order_relaxed);
  if (live_clients.load(std::memory_order_relaxed) != 0) {
    forked_beside_client.store(true, std::memory_order_relaxed);
  }
}

bool Register() {
  // In a shared library glibc removes the handler when the library is unloaded.
  return pthread_atfork(nullptr, nullptr, OnForkInChild) == 0;
}

}  // namespace

std::uint64_t ForkGeneration() {
  [[maybe_unused]] static const bool registered = Register();
  return fork_generation.load(std::memory_order_relaxed);
}

LiveClient::LiveClient() {
  static_cast<void>(ForkGeneration());  // Registers the handler.
  live_clients.fetch_add(1, std::memory_order_relaxed);
}

LiveClient::~LiveClient() { live_clients.fetch_sub(1, std::memory_order_relaxed); }

Status CheckMayConnect() {
  if (!forked_beside_client.load(std::memory_order_relaxed)) return {};
  return Status(StatusCode::kFailedPrecondition,
                "this process is a fork of one that had a client, and shares the state of its "
                "network libraries",
                "fork before the first Connect, or start the child as a program (exec; in Python "
                "multiprocessing's start method spawn)");
}

}  // namespace tidepool::internal
