#include "daemon/staging/claims.h"

#include "proto/stage/job_claim.h"

namespace tidepool::daemon::staging {
namespace {

constexpr std::uint64_t kRememberNs = 600'000'000'000;

}  // namespace

v1::ClaimStageResponse Claims::Take(NamespaceId space, const v1::ClaimStageRequest& request) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t now_ns = clock_.MonotonicNs();
  // What has ended stays for a while, for those who come late.
  std::erase_if(claims_,
                [&](const auto& entry) { return entry.second.ends_ns + kRememberNs <= now_ns; });
  v1::ClaimStageResponse response;
  const auto found = claims_.find(space);
  const bool own = found != claims_.end() && found->second.holder.job() == request.job();
  const bool held = found != claims_.end() && found->second.ends_ns > now_ns;
  if (!own && (held || request.renew() || request.release())) {
    if (held) *response.mutable_holder() = found->second.holder;
    return response;
  }
  response.set_granted(true);
  if (request.release()) {
    claims_.erase(space);
  } else {
    claims_[space] = {request, now_ns + stage::kClaimMs * 1'000'000};
  }
  return response;
}

}  // namespace tidepool::daemon::staging
