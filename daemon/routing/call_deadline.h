// Every call has a deadline: the caller's, or the default.
#pragma once

#include <grpcpp/server_context.h>

#include "proto/base/clock.h"

namespace tidepool::daemon {

// Never later than an hour, so that nothing waits for ever on a caller who set none that counts.
Deadline DeadlineOf(const grpc::ServerContextBase& call);

// Of one step of a stream, which as a whole has none.
Deadline StepDeadline();

// Of a step that may have to wait for room in memory: of a job, which has no deadline of its own,
Deadline RoomDeadline();
// and of a call: the caller's, if there is one, but early enough for the answer to be heard.
Deadline RoomDeadlineOf(const grpc::ServerContextBase& call);

}  // namespace tidepool::daemon
