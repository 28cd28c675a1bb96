#include "daemon/control/thread_limits.h"

#include <malloc.h>
#include <pthread.h>

#include <algorithm>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "daemon/control/start_limits.h"
#include "proto/base/result.h"
#include "proto/base/thread.h"
#include "proto/machine/machine.h"
#include "proto/machine/process_limits.h"

namespace tidepool::daemon {
namespace {

// Threads of gRPC, UCX, the metrics port, membership and signals; measured: 20 with one core.
constexpr std::uint32_t kThreadsBesideCores = 28;
constexpr std::uint64_t kThreadStackBytes = 1 << 20;
constexpr int kMallocArenas = 4;

void KeepToFewAddresses() {
  if (machine::ReadProcessLimits().address_bytes == machine::kNoLimit) return;
  (void)mallopt(M_ARENA_MAX, kMallocArenas);
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return;
  (void)pthread_attr_setstacksize(&attributes, kThreadStackBytes);
  (void)pthread_setattr_default_np(&attributes);
  (void)pthread_attr_destroy(&attributes);
}

Status CheckThreads(std::uint32_t count) {
  std::promise<void> all_started;
  const std::shared_future<void> end = all_started.get_future().share();
  std::vector<std::thread> threads;
  Status status;
  while (threads.size() < count && status.ok()) {
    auto thread = StartThread("a daemon", [end] { end.wait(); });
    if (thread.ok()) {
      threads.push_back(*std::move(thread));
    } else {
      status = Status(thread.code(),
                      "a daemon starts up to " + std::to_string(count) + " threads, and only " +
                          std::to_string(threads.size()) + " can be started here",
                      std::string(thread.status().remedy()));
    }
  }
  all_started.set_value();
  for (std::thread& thread : threads) thread.join();
  return status;
}

}  // namespace

Status PrepareForThreads(std::uint32_t cores) {
  KeepToFewAddresses();
  return CheckThreads(cores + kThreadsBesideCores);
}

int CallThreadsMax(int most, std::uint64_t memory_bytes) {
  constexpr std::uint64_t kLeast = 64;
  const std::uint64_t limit = machine::ReadProcessLimits().address_bytes;
  if (limit == machine::kNoLimit) return most;
  const std::uint64_t spare = limit - std::min<std::uint64_t>(limit, AddressesNeeded(memory_bytes));
  return static_cast<int>(std::clamp<std::uint64_t>(kLeast + spare / (2 * kThreadStackBytes),
                                                    kLeast, static_cast<std::uint64_t>(most)));
}

}  // namespace tidepool::daemon
