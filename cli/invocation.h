// Input of a verb's handler: its arguments, its output, and the cluster on request.
#pragma once

#include <memory>

#include "cli/arguments.h"
#include "cli/channel.h"
#include "cli/output.h"

namespace tidepool::cli {

class Invocation {
 public:
  // `arguments` and `output` outlive the invocation.
  Invocation(const Arguments& arguments, Output& output) : args(arguments), out(output) {}

  // Finds the cluster and connects to a node, at the first call. Errors: the errors of
  // Channel::Connect; kInvalidArgument (--timeout).
  Result<Channel*> Connect();
  // Connects anew: the node of the former channel may have died. The former channel is gone.
  Result<Channel*> Reconnect();

  // --timeout, or the default of a call that moves `bytes`.
  Result<std::uint64_t> TimeoutMs(std::uint64_t bytes = 0) const;
  // --insecure, or TIDEPOOL_INSECURE.
  bool insecure() const;

  const Arguments& args;
  Output& out;

 private:
  std::unique_ptr<Channel> channel_;
};

}  // namespace tidepool::cli
