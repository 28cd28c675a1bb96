// Every call has a deadline: the caller's, or the default.
#pragma once

#include <grpcpp/server_context.h>

#include "proto/base/clock.h"

namespace tidepool::daemon {

// Never later than an hour, so that nothing waits for ever on a caller who set none that counts.
Deadline DeadlineOf(const grpc::ServerContextBase& call);

// Of one step of a stream, which as a whole has none.
Deadline StepDeadline();

}  // namespace tidepool::daemon
