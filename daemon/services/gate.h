// Base of all gates: checks the job token before the call.
#pragma once

#include <grpcpp/server_context.h>

#include "daemon/services/auth.h"

namespace tidepool::daemon {

// Thread-safe; the authenticator must outlive it. A gate derives from Gate and from the generated
// service, and forwards each method to the service behind it.
class Gate {
 public:
  explicit Gate(const Authenticator& authenticator) : authenticator_(authenticator) {}

 protected:
  template <typename Call>
  grpc::Status Pass(const grpc::ServerContext* context, Call call) const {
    grpc::Status checked = authenticator_.Check(*context);
    return checked.ok() ? call() : checked;
  }

  const Authenticator& authenticator_;
};

}  // namespace tidepool::daemon
