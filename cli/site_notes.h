// Notes that kvctl prints before any verb: about the environment, and about lost data.
//
// kvctl.cc -> [site_notes] -> proto/base/variables, cluster_file/loss_record
#pragma once

#include <string>

#include "cli/output.h"

namespace tidepool::cli {

// Warns of each TIDEPOOL_* variable that Tidepool does not know, on standard error.
void WarnOfVariables(Output* out);

// Shows the losses of daemons that have ended, each once, on standard error. `flag` is --cluster.
// Leaves the records alone while standard error is /dev/null.
void ShowLosses(const std::string& flag, Output* out);

}  // namespace tidepool::cli
