// The claim that a job has on its namespace while it runs. Two jobs in one namespace would take
// each other's half files for leftovers, whoever runs them: daemons of several nodes, or kvctl.
//
//   daemon/staging/jobs, kvctl -> [job_claim] -> cluster => the owner of the namespace's mark
//
// Who owns the mark remembers the claim, in memory and not as a record: renewals would count as
// changes, and stopping would be refused for what is staged out. While the owner of the mark is
// dead a stage-out gets its claim from the lowest node that serves; a stage-in gets none. A renewal
// says for how long the job has had the claim, so that a new keeper goes on with it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "proto/base/clock.h"
#include "proto/stage/cluster.h"
#include "tidepool/v1/staging.pb.h"

namespace tidepool::stage {

class JobState;

// A claim that is not renewed for so long has ended with its runner.
inline constexpr std::uint64_t kClaimMs = 10'000;
inline constexpr std::uint64_t kClaimRenewMs = 2'000;
// One call, and the pause behind one that failed: four fit into what is left behind a renewal.
inline constexpr std::uint64_t kClaimCallMs = 1'500;
inline constexpr std::uint64_t kClaimRetryMs = 500;

// "job 12ab moves 'tree' and /data already, on host n1", for whoever comes second.
Status ClaimedBy(const v1::ClaimStageRequest& holder);

// Thread-safe. `cluster` and `state` must outlive it. Released with it.
class JobClaim {
 public:
  // `about` says who runs what. The rest is for tests.
  JobClaim(const Cluster* cluster, JobState* state, v1::ClaimStageRequest about,
           const Clock& clock = Clock::Real(), std::uint64_t renew_ms = kClaimRenewMs)
      : cluster_(*cluster),
        state_(*state),
        about_(std::move(about)),
        clock_(clock),
        renew_ms_(renew_ms) {}
  ~JobClaim() { Release(); }
  JobClaim(const JobClaim&) = delete;
  JobClaim& operator=(const JobClaim&) = delete;

  // Once. Takes the claim and renews it from a thread of its own until Release. If another job has
  // had it meanwhile, since this process stood still, or may have, since nobody has granted it for
  // kClaimMs, the job is cancelled.
  // Errors: kFailedPrecondition (another job has it: holder()), kResourceExhausted (no thread), and
  // of Cluster::Claim.
  Status Take();
  // Returns when nobody is refused on its account any more, or its owner does not answer.
  void Release();

  // Who has it instead, after Take was refused; else empty.
  const v1::ClaimStageRequest& holder() const { return holder_; }
  // After Take: kAborted if another job may have it. Blocks for up to kClaimCallMs behind a time in
  // which this process stood still.
  Status Check() const;

 private:
  void Keep();
  Result<v1::ClaimStageResponse> Ask(const v1::ClaimStageRequest& request,
                                     std::uint64_t timeout_ms) const {
    return cluster_.Claim(request, Deadline::AfterMs(timeout_ms));
  }
  // Of the last grant.
  std::uint64_t LeftMs() const;
  void Lose(std::string why);

  const Cluster& cluster_;
  JobState& state_;
  const v1::ClaimStageRequest about_;
  const Clock& clock_;
  const std::uint64_t renew_ms_;
  v1::ClaimStageRequest holder_;
  std::thread keeper_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  // When the last request was sent that was granted: the owner's time began no earlier.
  std::uint64_t granted_ns_ = 0;
  std::uint64_t taken_ns_ = 0;    // Of the first grant.
  bool mark_is_missing_ = false;  // As the last grant said.
  bool released_ = false;
  Status lost_;
};

}  // namespace tidepool::stage
