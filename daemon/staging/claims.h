// The claims of staging jobs on the namespaces whose mark this node owns: one job at a time in
// each.
//
//   proto/stage/job_claim => services/staging_service -> [claims]
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "proto/base/clock.h"
#include "proto/base/ids.h"
#include "tidepool/v1/staging.pb.h"

namespace tidepool::daemon::staging {

// Thread-safe. Bounded: one claim per namespace.
class Claims {
 public:
  explicit Claims(const Clock& clock) : clock_(clock) {}

  // Grants or renews the claim on `space`, or says who has it; a job releases its own only.
  v1::ClaimStageResponse Take(NamespaceId space, const v1::ClaimStageRequest& request);

 private:
  struct Claim {
    v1::ClaimStageRequest holder;
    std::uint64_t ends_ns = 0;
  };

  const Clock& clock_;
  std::mutex mutex_;
  std::map<NamespaceId, Claim> claims_;
};

}  // namespace tidepool::daemon::staging
