// Name of this machine, by which daemons, programs and kvctl detect a common machine.
#pragma once

#include <string>

namespace tidepool::cluster_file {

// Returns the kernel's name; "localhost" if it is empty. All sides use this function, because a
// name that a process writes into the map is compared by another process. Thread-safe.
std::string HostName();

}  // namespace tidepool::cluster_file
