// Facts about the machine that decide how well a cluster works: for `kvctl doctor`, which compares
// its own facts with the facts of each daemon (Admin.Machine).
#pragma once

#include "tidepool/v1/admin.pb.h"

namespace tidepool::machine {

// Reads all facts except the network library's (ways, network_library). A fact that cannot be read
// stays at its default. Takes about a millisecond.
v1::MachineFacts ReadMachineFacts();

}  // namespace tidepool::machine
