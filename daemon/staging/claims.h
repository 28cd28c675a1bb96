// The claims of staging jobs on namespaces whose mark this node owns: one job at a time per
// namespace.
//
// Claims live in memory. A node that becomes the keeper, because the last keeper died or restarted,
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

  // Grants or renews the claim on `space`, or returns its holder; a job releases only its own
  // claim. Grants a renewal of an unknown claim if it has not lapsed (held_ms) and no other job had
  // the claim here in that time.
  v1::ClaimStageResponse Take(NamespaceId space, const v1::ClaimStageRequest& request);

 private:
  struct Claim {
    v1::ClaimStageRequest holder;
    std::uint64_t ends_ns = 0;  // A time in the past: the claim has lapsed or was released.
    bool released = false;
  };

  // Returns true if the renewing job got its claim from another keeper after `last` ended. `last`:
  // the ended claim of another job here, or null.
  static bool MayAdopt(const Claim* last, const v1::ClaimStageRequest& renewal,
                       std::uint64_t now_ns);

  const Clock& clock_;
  std::mutex mutex_;
  std::map<NamespaceId, Claim> claims_;
};

}  // namespace tidepool::daemon::staging
