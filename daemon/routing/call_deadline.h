// Every call has a deadline: the caller's, or the default.
#pragma once

#include <grpcpp/server_context.h>

#include "proto/base/clock.h"

namespace tidepool::daemon {

// Never later than an hour, so that nothing waits for ever on a caller who set none that counts.
Deadline DeadlineOf(const grpc::ServerContextBase& call);

// Of a call that may wait for room in memory. Ends 200 ms before the caller's deadline, at most a
// tenth of the time that is left: gRPC gives up at the deadline without the daemon's reason.
Deadline WriteDeadlineOf(const grpc::ServerContextBase& call);

// Of one step of a stream, which as a whole has none.
Deadline StepDeadline();

// Of a step that may have to wait for room in memory: of a job, which has no deadline of its own,
Deadline RoomDeadline();
// and of a call: as WriteDeadlineOf, if the caller set one.
Deadline RoomDeadlineOf(const grpc::ServerContextBase& call);

}  // namespace tidepool::daemon
