// What a staging job's progress and end look like, whoever runs the job.
//
// kvctl stage -> [stage_report] -> progress bar, standard output
#pragma once

#include "cli/invocation.h"
#include "cli/progress.h"
#include "tidepool/v1/staging.pb.h"

namespace tidepool::cli {

Json ProgressJson(const v1::StageProgress& progress);
ProgressState BarState(const v1::StageProgress& progress);

// What the end of a job means for the command: prints `result` with the totals, lists the failures.
Status EndOfJob(Invocation& run, const v1::StageProgress& end, Json result);

}  // namespace tidepool::cli
