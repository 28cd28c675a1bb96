// Staging by kvctl itself, for directories that the daemons do not see. The rules are the daemons'
// own, so that either may go on with what the other has begun.
//
// kvctl stage -> [stage_by_client] -> proto/stage -> client_cluster, client_store
#pragma once

#include "cli/invocation.h"
#include "tidepool/v1/staging.pb.h"

namespace tidepool::cli {

// Runs the job in this process, with progress, to its end; prints `result` with the totals. Ctrl-C
// cancels it. Errors: kFailedPrecondition (daemons move the same namespace), kCancelled, and what
// the job ends with.
Status StageThroughClient(Invocation& run, const v1::StartStageRequest& request, Json result);

}  // namespace tidepool::cli
