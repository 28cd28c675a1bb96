// The manual page kvd(1) and completion, of the same table as --help.
//
//   daemon/config/option_table -> [manual] -> daemon/config/print_manual, while kvd is built
#pragma once

#include <string>

#include "proto/base/completion.h"

namespace tidepool::daemon {

std::string ManualPage();
// What the shells complete kvd's command lines by.
CompletionTable Completions();

}  // namespace tidepool::daemon
