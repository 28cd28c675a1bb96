// The claims of staging jobs on the namespaces whose mark this node owns: one job at a time in
// each.
//
// Claims live in memory. A node that becomes the keeper, since the last keeper died or restarted,
// learns of a running job by its next renewal.
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

  // Grants or renews the claim on `space`, or says who has it; a job releases its own only. A
  // renewal of an unknown claim is granted if it has not lapsed (held_ms) and no other job had the
  // claim here in that time.
  v1::ClaimStageResponse Take(NamespaceId space, const v1::ClaimStageRequest& request);

 private:
  struct Claim {
    v1::ClaimStageRequest holder;
    std::uint64_t ends_ns = 0;  // In the past: the claim has lapsed or was released.
    bool released = false;
  };

  // True if the renewing job has had its claim from another keeper only since `last` ended.
  // `last`: the claim of another job that has ended here, or null.
  static bool MayAdopt(const Claim* last, const v1::ClaimStageRequest& renewal,
                       std::uint64_t now_ns);

  const Clock& clock_;
  std::mutex mutex_;
  std::map<NamespaceId, Claim> claims_;
};

}  // namespace tidepool::daemon::staging
