// The wish that the daemon ends, from whoever has it: a signal, Admin.Stop, a refusal by the
// coordinator.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>

#include "proto/base/clock.h"
#include "proto/base/status.h"

namespace tidepool::daemon {

struct StopRequest {
  // What this node holds was saved or given up, so its namespaces come back empty rather than lost.
  bool loss_agreed = false;
  bool whole_cluster = false;  // The others stop too; one that does not answer is given up.
  Status failure;              // Not OK: why the daemon cannot go on; the exit code is then 1.
};

// Thread-safe. The first request counts.
class StopSignal {
 public:
  void Request(StopRequest request);
  bool requested() const;
  // Valid once requested.
  StopRequest request() const;
  // Returns true when a stop was requested, false at the deadline.
  bool WaitUntil(Deadline deadline) const;
  void Wait() const;

  // Runs `hook` at the request, on the requester's thread, or at once if it was made. One hook at a
  // time: the next replaces it; an empty one removes it (and has then surely ended).
  void SetHook(std::function<void()> hook);

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable wake_;
  std::optional<StopRequest> request_;
  std::mutex hook_mutex_;
  std::function<void()> hook_;
};

}  // namespace tidepool::daemon
