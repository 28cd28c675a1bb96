// A stage-in or stage-out that this node coordinates, on a thread of its own.
//
//   services/staging_service -> jobs -> [job] -> proto/stage/job
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "daemon/staging/cluster_view.h"
#include "proto/stage/job.h"

namespace tidepool::daemon::staging {

// A job and its thread. Thread-safe.
class Job {
 public:
  Job(std::string id, v1::StartStageRequest request, RequestRouter* router, SavedRegistry* saved,
      std::shared_ptr<const placement::Namespace> space);
  ~Job();  // Cancels and waits.

  const std::string& id() const { return id_; }
  const v1::StartStageRequest& request() const { return request_; }
  stage::JobState& state() { return state_; }

 private:
  void Run();

  const std::string id_;
  const v1::StartStageRequest request_;
  const ClusterView view_;
  stage::JobState state_;
  std::thread thread_;
};

}  // namespace tidepool::daemon::staging
