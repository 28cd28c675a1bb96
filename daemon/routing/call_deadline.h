// Deadlines of gRPC calls: the caller's, or the default.
#pragma once

#include <grpcpp/server_context.h>

#include "proto/base/clock.h"

namespace tidepool::daemon {

// Returns the call's deadline, at most an hour from now, so that no wait is unbounded.
Deadline DeadlineOf(const grpc::ServerContextBase& call);

// Returns the deadline of a call that may wait for memory. Ends 200 ms before the caller's
// deadline, or a tenth of the remaining time if that is less: at the deadline gRPC reports no
// reason of the daemon.
Deadline WriteDeadlineOf(const grpc::ServerContextBase& call);

// Returns the deadline of one step of a stream; the whole stream has no deadline.
Deadline StepDeadline();

// Returns the deadline of a step that may wait for memory: for a job, which has no deadline,
Deadline RoomDeadline();
// and for a call: as WriteDeadlineOf, if the caller set a deadline.
Deadline RoomDeadlineOf(const grpc::ServerContextBase& call);

}  // namespace tidepool::daemon
