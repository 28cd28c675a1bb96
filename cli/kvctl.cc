// kvctl: the command line of a Tidepool service.
//
// argv -> arguments.h (the table of verbs.h) -> commands/* -> channel.h => a daemon's gRPC
// services, or the SDK for measurements of the SDK -> output.h
#include <grpc/support/log.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/invocation.h"
#include "cli/output.h"
#include "cli/site_notes.h"
#include "proto/base/standard_descriptors.h"

TIDEPOOL_OPEN_STANDARD_DESCRIPTORS(tidepool::ClosedDescriptor::kFails);

int main(int argc, char** argv) {
  using namespace tidepool;
  // A write beyond the limit of file sizes fails with EFBIG, by name, and ends nothing.
  std::signal(SIGXFSZ, SIG_IGN);
  // gRPC's own log would only mention failed connections, which the calls report.
  if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function([](gpr_log_func_args*) {});
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  cli::Output output(cli::WantsJson(arguments));
  const Result<cli::CommandLine> command = cli::ParseCommandLine(arguments);
  cli::WarnOfVariables(&output);
  if (!command.ok()) return output.Finish(command.status());
  if (command->verb->name != "help") {
    cli::ShowLosses(command->arguments.Text("--cluster"), &output);
  }
  cli::Invocation run(command->arguments, output);
  return output.Finish(command->verb->run(run));
}
