// The manual page kvd(1) and the shell completion, made from the table of --help.
//
//   daemon/config/option_table -> [manual] -> daemon/config/print_manual, while kvd is built
#pragma once

#include <string>

#include "proto/base/completion.h"

namespace tidepool::daemon {

std::string ManualPage();
// Returns the table by which shells complete kvd's command lines.
CompletionTable Completions();

}  // namespace tidepool::daemon
