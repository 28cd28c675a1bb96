// This machine's name, by which daemons, programs and kvctl tell who is on one machine.
#pragma once

#include <string>

namespace tidepool::cluster_file {

// As the kernel has it; "localhost" if it has none. One function for all sides: what one writes
// into the map another compares. Thread-safe.
std::string HostName();

}  // namespace tidepool::cluster_file
