// Deadlines of gRPC calls: the caller's, or the default.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/server_context.h>

#include "proto/base/clock.h"

namespace tidepool::daemon {

// Returns the call's deadline, at most an hour from now, so that no wait is unbounded.
Deadline DeadlineOf(const grpc::ServerContextBase& call);

// Returns the deadline of a call that may wait for memory. Ends 200 ms before the caller's
// deadline, or a tenth of the remaining time if that is less: at the deadline gRPC reports no
// reason of the daemon.
Deadline WriteDeadlineOf(const grpc::ServerContextBase& call);

// Tells the owner of keys how long it may work on a call that this node passes on: until
// `deadline`, which leaves time for the answers of both nodes.
void SetWorkDeadline(grpc::ClientContext* call, Deadline deadline);
// Returns the deadline of a call that another node may have passed on: SetWorkDeadline's, else
// WriteDeadlineOf's.
Deadline WorkDeadlineOf(const grpc::ServerContextBase& call);

// Returns the deadline of one step of a stream; the whole stream has no deadline.
Deadline StepDeadline();

// Returns the deadline of a step that may wait for memory: for a job, which has no deadline,
Deadline RoomDeadline();
// and for a call: as WriteDeadlineOf, if the caller set a deadline.
Deadline RoomDeadlineOf(const grpc::ServerContextBase& call);

}  // namespace tidepool::daemon
