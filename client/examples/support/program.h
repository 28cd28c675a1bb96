// A program of several processes: common parts of these examples.
//
//   main -> [RunProgram] -> the program's own part, in each process, with its client and its team
#pragma once

#include <tidepool/tidepool.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "client/examples/support/team.h"

namespace support {

// Options of every program of this kind.
struct ProgramOptions {
  std::string cluster;  // Connection file; empty: found as every client finds it.
  int processes = 1;
  std::string run;  // Names the run's namespaces; empty: made up, or from srun or mpirun.
  int silence_seconds = 60;
};

// How programs explain --processes.
inline constexpr char kAboutProcesses[] =
    "With --processes P this program starts P processes on this machine; under srun or\n"
    "mpirun its tasks are the processes, and files are read and written by all of them.";

// Adds --cluster, --processes, --run and --silence.
void AddProgramOptions(CLI::App* app, ProgramOptions* options);
// Returns -1 to go on, else the exit code: help was asked for, or something is wrong and was
// printed.
int Parse(CLI::App* app, int argc, char** argv);

using ProgramPart = std::function<tidepool::Status(tidepool::Client&, Team*)>;

// Starts the processes, or acts as a process: connects, runs `part`, reports a failure to the team,
// and drops all namespaces of the run. Prints failures, and returns main's exit code.
int RunProgram(const std::string& program, const ProgramOptions& options, char** argv,
               const ProgramPart& part);

}  // namespace support
