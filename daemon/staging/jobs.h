// The jobs that this node coordinates: running jobs and the last ended jobs. A caller who was away
// thus still learns the outcome.
//
//   services/staging_service -> [jobs] -> job
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/staging/job.h"

namespace tidepool::daemon::staging {

inline constexpr std::size_t kEndedJobsKept = 32;
inline constexpr std::size_t kRunningJobsMax = 16;

// Thread-safe. Router and registry must outlive it.
class Jobs {
 public:
  Jobs(RequestRouter* router, SavedRegistry* saved) : router_(*router), saved_(*saved) {}
  ~Jobs() { Stop(); }

  // Starts a job, or attaches to a running job with the same arguments, here or on another node. If
  // nodes do not see the directory, names them in `blind_nodes`. Errors: kInvalidArgument,
  // kNotFound (namespace, directory), kFailedPrecondition (another job moves the same namespace),
  // kOverloaded, kUnavailable.
  Result<v1::StartStageResponse> Start(const v1::StartStageRequest& request);
  // Returns null if there is no job with this id.
  std::shared_ptr<Job> Find(const std::string& id) const;
  std::vector<std::shared_ptr<Job>> List() const;  // Newest first.
  // Cancels all jobs and accepts no more.
  void Stop();

 private:
  Result<std::shared_ptr<Job>> FindSame(const v1::StartStageRequest& request) const;

  RequestRouter& router_;
  SavedRegistry& saved_;
  mutable std::mutex mutex_;
  std::list<std::shared_ptr<Job>> jobs_;  // Newest first.
  bool stopped_ = false;
};

}  // namespace tidepool::daemon::staging
