// kvctl wait-ready, and what start does so that it may say the same: does each node serve?
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/verb.h"
#include "proto/base/clock.h"
#include "proto/base/status.h"

namespace tidepool::cli {

std::vector<Verb> WaitReadyVerbs();

// Whether `nodes` of the connection file at `path` serve, and stand in it; 0: as many as it
// expects. False too while there is no file yet, or nobody listens yet. Takes at most some 3 s.
bool AllServe(const std::string& path, std::uint64_t nodes, bool insecure);

// A record is written to and read back from each node, over the data path that programs use.
// Errors: as Client::Connect and Open; what the call to a node has ended with, with its name;
// kInternal.
Status TryEachNode(const std::string& path, bool insecure, Deadline deadline);

}  // namespace tidepool::cli
