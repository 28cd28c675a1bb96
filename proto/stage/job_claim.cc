#include "proto/stage/job_claim.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "proto/base/thread.h"
#include "proto/file_tree/beneath.h"
#include "proto/stage/job.h"

namespace tidepool::stage {
namespace {

// Its caller waits, and may give up.
constexpr std::uint64_t kClaimTakeMs = 5'000;

}  // namespace

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
  const std::uint64_t sent_ns = clock_.MonotonicNs();
  auto answer = Ask(about_, kClaimTakeMs);
  // It may have been granted: nobody shall be refused on account of a job that never was.
  const auto give_back = [&] {
    v1::ClaimStageRequest release = about_;
    release.set_release(true);
    (void)Ask(release, kClaimCallMs);
  };
  if (!answer.ok()) {
    give_back();
    return answer.status();
  }
  if (!answer->granted()) {
    holder_ = answer->holder();
    return ClaimedBy(holder_);
  }
  granted_ns_ = taken_ns_ = sent_ns;
  mark_is_missing_ = answer->mark_is_missing();
  Status kept = StartThread("the claim of a staging job", &keeper_, [this] { Keep(); });
  if (!kept.ok()) give_back();
  return kept;
}

std::uint64_t JobClaim::LeftMs() const {
  const std::uint64_t gone_ms = (clock_.MonotonicNs() - granted_ns_) / 1'000'000;
  return gone_ms < kClaimMs ? kClaimMs - gone_ms : 0;
}

void JobClaim::Lose(std::string why) {
  lost_ = Status(StatusCode::kAborted, std::move(why),
                 "give the command again; what is done stays done");
  state_.Cancel();
  changed_.notify_all();
}

void JobClaim::Keep() {
  v1::ClaimStageRequest renewal = about_;
  renewal.set_renew(true);
  std::unique_lock lock(mutex_);
  std::uint64_t pause_ms = renew_ms_;
  while (!changed_.wait_for(lock, std::chrono::milliseconds(pause_ms), [&] { return released_; })) {
    const std::uint64_t sent_ns = clock_.MonotonicNs();
    const std::uint64_t left_ms = LeftMs();
    renewal.set_mark_is_missing(mark_is_missing_);
    // No keeper has granted a claim to another job before this one lapses, except a keeper that
    // finds its own grant in this time.
    renewal.set_held_ms(left_ms > 0 ? (sent_ns - taken_ns_) / 1'000'000 + 1 : 0);
    lock.unlock();
    // Also behind its end, as this process stood still: it is granted if nobody has had it.
    const auto answer = Ask(renewal, left_ms > 0 ? std::min(left_ms, kClaimCallMs) : kClaimCallMs);
    lock.lock();
    if (answer.ok() && answer->granted()) {
      granted_ns_ = sent_ns;
      mark_is_missing_ = answer->mark_is_missing();
      pause_ms = renew_ms_;
      changed_.notify_all();
      continue;
    }
    if (answer.ok()) {
      const bool running = !answer->holder().job().empty();
      return Lose(
          (left_ms > 0 ? std::string("another node keeps the claims of the namespace now")
                       : "this job stood still for longer than the " +
                             std::to_string(kClaimMs / 1'000) + " s of its claim") +
          (running ? "; meanwhile another began: " + std::string(ClaimedBy(answer->holder()).what())
                   : std::string()));
    }
    // Whom this does not reach may grant it to others.
    if (LeftMs() == 0) {
      return Lose("for " + std::to_string(kClaimMs / 1'000) +
                  " s nobody has confirmed that no other job moves the same namespace: " +
                  std::string(answer.status().what()));
    }
    pause_ms = std::min({renew_ms_, kClaimRetryMs, LeftMs()});
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
  release.set_mark_is_missing(mark_is_missing_);
  (void)Ask(release, kClaimCallMs);
}

Status JobClaim::Check() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !lost_.ok() || released_ || LeftMs() > 0; });
  return lost_;
}

}  // namespace tidepool::stage
