#include "cli/step.h"

#include <algorithm>
#include <utility>

#include "cli/text.h"
#include "proto/base/check.h"

namespace tidepool::cli {
namespace {

Status Malformed(std::string_view option, const std::string& text, std::string_view form) {
  return Status(StatusCode::kInvalidArgument,
                std::string(option) + ": " + Quote(text) + " is not " + std::string(form));
}

}  // namespace

Status RunStep(const Invocation& run, const std::string& cluster_file,
               std::vector<std::string> words) {
  // Stands before the passed-on arguments ("--" and options of kvd), which would include it
  // otherwise.
  std::vector<std::string> own = {"--cluster", cluster_file};
  if (run.insecure()) own.emplace_back("--insecure");
  words.insert(std::find(words.begin(), words.end(), "--"), own.begin(), own.end());
  const Result<CommandLine> command = ParseCommandLine(words);
  if (!command.ok()) return command.status();
  Output output(/*json=*/false, /*stdout_fd=*/2, /*stderr_fd=*/2);
  Invocation step(command->arguments, output);
  const Status status = command->verb->run(step);
  if (!status.ok()) return status;  // The caller prints it, once.
  if (output.Finish(status) == 0) return status;
  return Status(StatusCode::kUnavailable,
                "kvctl " + std::string(command->verb->name) + " has done only parts of its work");
}

Result<std::vector<StageSpec>> StageOutSpecs(const Arguments& args) {
  std::vector<StageSpec> specs;
  for (const std::string& text : args.All("--stage-out")) {
    const std::size_t colon = text.find(':');
    if (colon == 0 || colon == std::string::npos || colon + 1 == text.size()) {
      return Malformed("--stage-out", text, "NAMESPACE:DIRECTORY");
    }
    specs.push_back({text.substr(0, colon), text.substr(colon + 1)});
  }
  return specs;
}

Result<std::vector<StageSpec>> StageInSpecs(const Arguments& args) {
  std::vector<StageSpec> specs;
  for (const std::string& text : args.All("--stage-in")) {
    const std::size_t colon = text.rfind(':');
    if (colon == 0 || colon == std::string::npos || colon + 1 == text.size()) {
      return Malformed("--stage-in", text, "DIRECTORY:NAMESPACE");
    }
    specs.push_back({text.substr(colon + 1), text.substr(0, colon)});
  }
  return specs;
}

Option StageOutOption() {
  return {"--stage-out", "NS:DIR", "write this namespace into a directory first; may be repeated",
          true};
}

}  // namespace tidepool::cli
