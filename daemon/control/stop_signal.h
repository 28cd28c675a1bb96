// The request that the daemon ends, from a signal, Admin.Stop or a refusal by the coordinator.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>

#include "proto/base/clock.h"
#include "proto/base/status.h"

namespace tidepool::daemon {

struct StopRequest {
  // The node's data was saved or given up, so its namespaces come back empty rather than lost.
  bool loss_agreed = false;
  bool whole_cluster = false;  // All nodes stop; a node that does not answer is given up.
  Status failure;  // Not OK: the reason why the daemon cannot go on; the exit code is then 1.
};

// Thread-safe. Only the first request counts.
class StopSignal {
 public:
  void Request(StopRequest request);
  bool requested() const;
  // REQUIRES: a stop was requested.
  StopRequest request() const;
  // Returns true when a stop was requested, false at the deadline.
  bool WaitUntil(Deadline deadline) const;
  void Wait() const;

  // Runs `hook` at the request, on the requester's thread; at once if a stop was requested already.
  // The next hook replaces it. An empty hook removes it; the removed hook has surely ended then.
  void SetHook(std::function<void()> hook);

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable wake_;
  std::optional<StopRequest> request_;
  std::mutex hook_mutex_;
  std::function<void()> hook_;
};

}  // namespace tidepool::daemon
