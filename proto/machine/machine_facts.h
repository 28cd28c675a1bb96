// What a process finds of its machine that decides how well a cluster works: for `kvctl doctor`,
// which compares its own with those that each daemon sends (Admin.Machine).
#pragma once

#include "tidepool/v1/admin.pb.h"

namespace tidepool::machine {

// All but what only the network library knows (ways, network_library). What cannot be found out
// stays at its default. Takes about a millisecond.
v1::MachineFacts ReadMachineFacts();

}  // namespace tidepool::machine
