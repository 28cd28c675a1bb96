#include "proto/stage/job_claim.h"

#include <chrono>
#include <utility>

#include "proto/file_tree/beneath.h"
#include "proto/stage/job.h"

namespace tidepool::stage {

Status ClaimedBy(const v1::ClaimStageRequest& holder) {
  const bool by_daemon = !holder.control_address().empty();
  return Status(
      StatusCode::kFailedPrecondition,
      "job " + holder.job() + " moves '" + holder.request().namespace_() + "' and " +
          file_tree::Printable(holder.request().directory()) + " already, " +
          (by_daemon ? "run by the daemon at " + holder.control_address() : "run by a kvctl") +
          " on host " + holder.host(),
      (by_daemon ? "wait for it, or: kvctl stage cancel " + holder.job()
                 : std::string("wait for it, or end that kvctl")) +
          "; one that was killed is forgotten after " + std::to_string(kClaimMs / 1'000) + " s");
}

Status JobClaim::Take() {
  auto answer = cluster_.Claim(about_);
  if (!answer.ok()) return answer.status();
  if (!answer->granted()) {
    holder_ = answer->holder();
    return ClaimedBy(holder_);
  }
  keeper_ = std::thread([this] { Keep(); });
  return OkStatus();
}

void JobClaim::Keep() {
  v1::ClaimStageRequest renewal = about_;
  renewal.set_renew(true);
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, std::chrono::milliseconds(kClaimRenewMs),
                            [&] { return released_; })) {
    lock.unlock();
    const auto answer = cluster_.Claim(renewal);
    lock.lock();
    // An owner that does not answer gives it to nobody else either.
    if (!answer.ok() || answer->granted()) continue;
    const bool running = !answer->holder().job().empty();
    lost_ = Status(StatusCode::kAborted,
                   "this job stood still, or the node that knows of it has restarted" +
                       (running ? "; meanwhile another began: " +
                                      std::string(ClaimedBy(answer->holder()).what())
                                : std::string()),
                   "give the command again; what is done stays done");
    state_.Cancel();
    return;
  }
}

void JobClaim::Release() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(released_, true)) return;
    changed_.notify_all();
  }
  if (!keeper_.joinable()) return;
  keeper_.join();
  v1::ClaimStageRequest release = about_;
  release.set_release(true);
  (void)cluster_.Claim(release);
}

Status JobClaim::Check() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

}  // namespace tidepool::stage
