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

// A job and its thread. Thread-safe, except Claim and Begin, which are called once, in this order.
class Job {
 public:
  Job(std::string id, v1::StartStageRequest request, RequestRouter* router, SavedRegistry* saved,
      std::shared_ptr<const placement::Namespace> space);
  ~Job();  // Cancels and waits.

  // Takes the claim on its namespace. Errors: those of JobClaim::Take; the job has ended then.
  Status Claim();
  // Holder of the claim after Claim was refused.
  const v1::ClaimStageRequest& holder() const { return claim_.holder(); }
  // Runs the job. Errors: kResourceExhausted (no thread); the job and its claim have ended then.
  Status Begin();

  const std::string& id() const { return id_; }
  const v1::StartStageRequest& request() const { return request_; }
  stage::JobState& state() { return state_; }
  // A second caller attached to it. Guarded by Jobs' lock.
  void set_attached() { attached_ = true; }
  bool attached() const { return attached_; }

 private:
  void Run();

  const std::string id_;
  const v1::StartStageRequest request_;
  const ClusterView view_;
  stage::JobState state_;
  stage::JobClaim claim_;
  std::thread thread_;  // From Begin on.
  bool attached_ = false;
};

}  // namespace tidepool::daemon::staging
