// The owner's side of a move: freezes the partition, sends what it holds, and learns what has
// become of it.
//
//   services/moves_service -> [send_partition] => Moves.Receive of the target
#pragma once

#include <functional>

#include "daemon/control/node_state.h"
#include "tidepool/v1/moves.pb.h"

namespace tidepool::daemon {

// The longest that operations may be held back, if the request says how long.
inline constexpr std::uint64_t kHoldMsMax = 24 * 3'600'000;

// Moves the partition that `request` names from this node to another, and returns when it is
// decided where it lives: an epoch whose map says that it is there, or an error, and then it is
// served here on, perhaps under a new term. `report` hears of progress, every fifth of a second or
// so.
//
// Until the whole image is sent, whatever goes wrong ends the freeze at once. From then on the
// target may ask for the partition, so it stays frozen here until the target says that it will not,
// or a map or the coordinator decides: then this asks for it as well, for as long as it takes.
//
// Blocks; of a gRPC thread. Errors: kWrongEpoch (not owned here under this term), kInvalidArgument,
// kAborted (it moves already), kUnavailable (no such target), kResourceExhausted (no memory there),
// kDeadlineExceeded (the time that operations may be held back was over), kCancelled (the daemon
// stops).
Result<Epoch> SendPartition(NodeState* node, const v1::MovePartitionRequest& request,
                            const std::function<void(const v1::MovePartitionProgress&)>& report);

}  // namespace tidepool::daemon
