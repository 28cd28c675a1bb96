// The jobs that this node coordinates: those that run, and the last that have ended, so that a
// caller who was away still learns how it went.
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

  // Starts a job, attaches to one with the same arguments that a daemon runs, here or elsewhere, or
  // names in `blind_nodes` who does not see the directory. Errors: kInvalidArgument, kNotFound
  // (namespace, directory), kFailedPrecondition (another job moves the same namespace, whoever runs
  // it), kOverloaded, kUnavailable.
  Result<v1::StartStageResponse> Start(const v1::StartStageRequest& request);
  // Null if there is none of this id.
  std::shared_ptr<Job> Find(const std::string& id) const;
  std::vector<std::shared_ptr<Job>> List() const;  // Newest first.
  // Cancels all and takes no more.
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
