// The owner's side of a move by a copy: fills a copy of the partition on the target while it is
// served here, and hands ownership over.
//
//   services/moves_service -> [copy_mover] -> core: daemon/copies; => Moves.OpenCopy of the target;
//       => Moves.Change of the coordinator
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "daemon/control/node_state.h"
#include "daemon/copies/copy_job.h"
#include "tidepool/v1/moves.pb.h"

namespace tidepool::daemon {

// Moves the hash partition that `request` names from this node to another. Returns when it is
// decided where it lives: an epoch whose map says that it is there, or an error, and then it is
// served here on. `report` receives the progress, five times per second or so.
//
// Operations run while the copy is filled. They are held back from the moment the copy follows
// closely until the new owner's map is here, or the coordinator has refused. `cancelled` ends the
// move as long as the coordinator was not asked for the hand-over.
//
// Blocks; called on a gRPC thread. Errors: kWrongEpoch (not owned here under this term),
// kUnimplemented (no copies of such a namespace), kAborted (it moves already, or its owner has
// changed), kUnavailable (the target is not up, or is lost), kResourceExhausted (no memory there),
// kDataLoss (a record cannot be read), kDeadlineExceeded (held back for too long), kCancelled.
Result<Epoch> MoveByCopy(NodeState* node, const v1::MovePartitionRequest& request,
                         const std::function<void(const v1::MovePartitionProgress&)>& report,
                         const std::function<bool()>& cancelled);

// A copy to be filled from here.
struct CopyPlan {
  PartitionId partition;
  Term term;
  std::uint64_t version = 0;  // Of the entry, since it names the copy.
  CoreId core;
  CoreId target_core;
  placement::Node target;
  bool is_replica = false;
};

// Opens the copy on its node and begins to fill it. Blocks for a call. `job` receives the progress.
// Errors: those of OpenCopy and Copies::Begin, kUnavailable (the target is not reached).
Status BeginCopy(NodeState* node, const CopyPlan& plan, std::shared_ptr<CopyJob>* job);

// The target's side: opens an empty copy for a source on another node. Errors: kUnavailable (this
// process is not the one that is meant, or stops), kWrongEpoch (the map says otherwise),
// kResourceExhausted.
Result<v1::OpenCopyResponse> OpenCopy(NodeState* node, const v1::OpenCopyRequest& request);

}  // namespace tidepool::daemon
