// The target's side of a move: makes a partition of what the owner sends, and asks the coordinator
// for it once all of it is here.
//
//   Moves.Receive => services/moves_service -> [receive_partition] -> storage/partition_image
#pragma once

#include <grpcpp/support/sync_stream.h>

#include "daemon/control/node_state.h"
#include "tidepool/v1/moves.pb.h"

namespace tidepool::daemon {

using ReceiveStream = grpc::ServerReaderWriter<v1::ReceiveAnswer, v1::PartitionPiece>;

// Serves one stream to its end, from its second message on; `start` was the first, and its numbers
// are within their limits. Nobody sees the partition before the map says that it is this
// node's. An image that does not become whole, or whose grant is refused, is dropped and never
// used; as long as it is not known whether it was granted, it is kept and asked for again, also
// when the owner is gone. A refusal says nothing of a question that was asked before it and not
// answered: then only a grant or another owner or term decides.
//
// The last answer says what was decided. Returns: kOk (it is decided and said), kCancelled (the
// owner has ended it, or this daemon stops).
Status ReceivePartition(NodeState* node, const v1::ReceiveStart& start, ReceiveStream* stream);

}  // namespace tidepool::daemon
