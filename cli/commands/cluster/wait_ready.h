// kvctl wait-ready, and the same check for start: does each node serve?
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/verb.h"
#include "proto/base/clock.h"
#include "proto/base/status.h"

namespace tidepool::cli {

std::vector<Verb> WaitReadyVerbs();

// True if `nodes` of the connection file at `path` serve and stand in it; 0: its expected number.
// False also while there is no file or no listener yet. Takes at most some 3 s.
bool AllServe(const std::string& path, std::uint64_t nodes, bool insecure);

// Writes a record to each node and reads it back, over the data path of programs. Errors: the
// errors of Client::Connect and Open; the error of the call to a node, with its name; kInternal.
Status TryEachNode(const std::string& path, bool insecure, Deadline deadline);

}  // namespace tidepool::cli
