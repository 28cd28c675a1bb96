// A verb as a step of another verb: kvctl run starts, stages and stops like a user.
//
// commands/cluster/run, commands/cluster/stop -> [RunStep] -> the table of verbs.h -> commands/*
#pragma once

#include <string>
#include <vector>

#include "cli/invocation.h"

namespace tidepool::cli {

// Runs `words` ("stage", "in", DIRECTORY, NAMESPACE) on the cluster of `cluster_file`, with the
// global options of `run`. Its results go to standard error, its failure only to the caller.
// Errors: the verb's; kUnavailable also if only parts were done.
Status RunStep(const Invocation& run, const std::string& cluster_file,
               std::vector<std::string> words);

// "NAMESPACE:DIRECTORY" and "DIRECTORY:NAMESPACE", as in --stage-out and --stage-in. A directory
// may contain colons, a name of a namespace cannot. Errors: kInvalidArgument naming the option.
struct StageSpec {
  std::string space;
  std::string directory;
};
Result<std::vector<StageSpec>> StageOutSpecs(const Arguments& args);
Result<std::vector<StageSpec>> StageInSpecs(const Arguments& args);
Option StageOutOption();

}  // namespace tidepool::cli
