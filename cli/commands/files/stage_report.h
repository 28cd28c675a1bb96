// Output about a staging job's progress and end, for any runner of the job.
//
// kvctl stage -> [stage_report] -> progress bar, standard output
#pragma once

#include "cli/invocation.h"
#include "cli/progress.h"
#include "tidepool/v1/staging.pb.h"

namespace tidepool::cli {

Json ProgressJson(const v1::StageProgress& progress);
ProgressState BarState(const v1::StageProgress& progress);

// Returns the command's status at the end of a job. Prints `result` with the totals, and lists
// failures.
Status EndOfJob(Invocation& run, const v1::StageProgress& end, Json result);

}  // namespace tidepool::cli
