// Staging by kvctl itself, for directories that the daemons do not see. It uses the daemons' rules,
// so each may continue a job that the other has begun.
//
// kvctl stage -> [stage_by_client] -> proto/stage -> client_cluster, client_store
#pragma once

#include "cli/invocation.h"
#include "tidepool/v1/staging.pb.h"

namespace tidepool::cli {

// Runs the job in this process, with progress, to its end. Prints `result` with the totals. Ctrl-C
// cancels it. Errors: kFailedPrecondition (daemons move the same namespace), kCancelled, and the
// errors of the job.
Status StageThroughClient(Invocation& run, const v1::StartStageRequest& request, Json result);

}  // namespace tidepool::cli
