// A part of a job that another daemon runs.
//
//   movers -> cluster_view -> [remote_part] -> Staging.RunPart of a peer
#pragma once

#include <functional>
#include <memory>

#include "daemon/routing/request_router.h"
#include "proto/stage/part_link.h"

namespace tidepool::daemon::staging {

// Longest silence of a node before it is given up: parts report every quarter of a second, and a
// disk that stalls for longer has probably failed.
inline constexpr std::uint64_t kSilenceMsMax = 20'000;

// Calls `ended` when nothing more will be reported, with or without done = true. The router must
// outlive the call. Errors: kResourceExhausted (no thread).
Result<std::unique_ptr<stage::PartLink>> OpenRemotePart(const RequestRouter& router,
                                                        const placement::Node& node,
                                                        const v1::RunPartStart& start,
                                                        stage::PartLink::Report report,
                                                        std::function<void()> ended);

}  // namespace tidepool::daemon::staging
