#include "daemon/staging/claims.h"

#include "proto/stage/job_claim.h"

namespace tidepool::daemon::staging {
namespace {

constexpr std::uint64_t kRememberNs = 600'000'000'000;

}  // namespace

v1::ClaimStageResponse Claims::Take(NamespaceId space, const v1::ClaimStageRequest& request) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t now_ns = clock_.MonotonicNs();
  // Ended claims stay for a while, for late requests.
  std::erase_if(claims_,
                [&](const auto& entry) { return entry.second.ends_ns + kRememberNs <= now_ns; });
  v1::ClaimStageResponse response;
  const auto found = claims_.find(space);
  const bool known = found != claims_.end();
  const bool own = known && found->second.holder.job() == request.job();
  const bool held = known && found->second.ends_ns > now_ns;
  // A late renewal must not revive a claim that the job has released.
  const bool revives = own && found->second.released && request.renew();
  const bool refused =
      !own && (held || request.release() ||
               (request.renew() && !MayAdopt(known ? &found->second : nullptr, request, now_ns)));
  if (revives || refused) {
    if (held && !own) *response.mutable_holder() = found->second.holder;
    return response;
  }
  response.set_granted(true);
  if (request.release()) {
    // Kept, so that a renewal by an overlapping job is refused.
    found->second.ends_ns = now_ns;
    found->second.released = true;
  } else {
    claims_[space] = {request, now_ns + stage::kClaimMs * 1'000'000};
  }
  return response;
}

bool Claims::MayAdopt(const Claim* last, const v1::ClaimStageRequest& renewal,
                      std::uint64_t now_ns) {
  if (renewal.held_ms() == 0) return false;
  if (last == nullptr) return true;
  const std::uint64_t ended_ms = (now_ns - last->ends_ns) / 1'000'000;
  return ended_ms >= renewal.held_ms();
}

}  // namespace tidepool::daemon::staging
