#include "daemon/control/persist.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

#include "daemon/core/core.h"

namespace tidepool::daemon {
namespace {

// Shared with the cores, because the waiting caller may give up first.
struct Marks {
  std::mutex mutex;
  std::condition_variable ended;
  std::size_t left = 0;
  Status status;
  std::uint64_t oldest_ms = UINT64_MAX;

  void Done(const Status& of_core, std::uint64_t durable_at_ms) {
    const std::lock_guard lock(mutex);
    if (status.ok()) status = of_core;
    oldest_ms = std::min(oldest_ms, durable_at_ms);
    if (--left == 0) ended.notify_all();
  }
};

}  // namespace

Result<std::uint64_t> PersistNode(CoreGroup* cores, Deadline deadline, bool is_last) {
  auto checkpoints = std::make_shared<Marks>();
  checkpoints->left = cores->size();
  for (std::uint32_t i = 0; i < cores->size(); ++i) {
    const bool posted =
        cores->Post(CoreId(static_cast<std::uint16_t>(i)), [checkpoints, is_last](Core& core) {
          core.store().Persist(
              [checkpoints, &core](const Status& status) {
                checkpoints->Done(status, core.store().last_durable_at_ms());
              },
              is_last);
        });
    if (!posted) return Status(StatusCode::kUnavailable, "the daemon is stopping");
  }
  std::unique_lock lock(checkpoints->mutex);
  const bool done = checkpoints->ended.wait_for(lock, std::chrono::nanoseconds(deadline.LeftNs()),
                                                [&] { return checkpoints->left == 0; });
  if (!done) {
    return Status(StatusCode::kDeadlineExceeded,
                  "the devices have not taken in time what was to be made durable",
                  "ask again with a longer --timeout");
  }
  TP_RETURN_IF_ERROR(checkpoints->status);
  return checkpoints->oldest_ms;
}

NodeDurability DurabilityOf(CoreGroup* cores, Deadline deadline) {
  struct Shared {
    std::mutex mutex;
    std::uint64_t oldest_ms = UINT64_MAX;
    bool failed = false;
  };
  auto shared = std::make_shared<Shared>();
  for (std::uint32_t i = 0; i < cores->size(); ++i) {
    (void)cores->Run(
        CoreId(static_cast<std::uint16_t>(i)),
        [shared](Core& core) {
          const std::lock_guard lock(shared->mutex);
          shared->oldest_ms = std::min(shared->oldest_ms, core.store().last_durable_at_ms());
          shared->failed = shared->failed || core.store().commit_failed() != StatusCode::kOk;
        },
        deadline);
  }
  const std::lock_guard lock(shared->mutex);
  return {shared->oldest_ms == UINT64_MAX ? 0 : shared->oldest_ms, shared->failed};
}

}  // namespace tidepool::daemon
