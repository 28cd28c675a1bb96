// One change of the cluster's state as text, so that a store appends it instead of writing the
// whole state again.
//
//   membership/embedded_store -> [state_change]; the code shares cluster_state.cc's codec
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "daemon/membership/cluster_state.h"

namespace tidepool::daemon {

// What turns `before` into `after`: nodes and namespaces that differ, dropped namespaces,
// entries that differ, the epoch and the next namespace id. A line with a checksum begins it.
// Requires: the same cluster, and no fewer nodes. Two namespaces are equal if they are one object:
// published ones never change.
std::string EncodeChange(const ClusterState& before, const ClusterState& after);

// Applies the changes of `text` in order; returns the bytes of the whole changes. The rest is a
// change that a crash has cut off: nobody was told that it is durable. Changes up to the state's
// epoch are skipped: a newer whole state has them. Errors: kDataLoss (a damaged change with a whole
// one behind it, or one that does not follow the state); `path` is for the message.
Result<std::size_t> ApplyChanges(std::string_view text, const std::string& path,
                                 ClusterState* state);

}  // namespace tidepool::daemon
