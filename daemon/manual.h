// The manual page kvd(1), of the same table as --help.
//
//   daemon/option_table -> [manual] -> daemon/print_manual, while kvd is built
#pragma once

#include <string>

namespace tidepool::daemon {

std::string ManualPage();

}  // namespace tidepool::daemon
