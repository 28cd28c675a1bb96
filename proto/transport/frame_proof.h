// A daemon's proof, when it starts, that its network carries frames.
//
//   ucx_transport -> [frame_proof] -> transport
#pragma once

#include "proto/base/status.h"
#include "proto/transport/transport.h"

namespace tidepool::transport {

// Sends a frame of the smallest and a frame of the largest size between two temporary workers, and
// waits until both have arrived. Takes some milliseconds.
// Errors: the errors of MakeWorker and Connect, kUnavailable (the connection broke, or a frame did
// not arrive within ten seconds).
Status ProveFrames(Context* context);

}  // namespace tidepool::transport
