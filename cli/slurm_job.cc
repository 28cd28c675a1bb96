#include "cli/slurm_job.h"

#include <cstdlib>
#include <sstream>
#include <utility>

#include "cli/spawn.h"
#include "cli/text.h"

namespace tidepool::cli {
namespace {

constexpr std::uint64_t kAskMs = 10'000;
constexpr std::uint64_t kKillWaitMs = 30'000;

std::string VariableOf(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Returns the printed lines of a command; none if it fails.
std::vector<std::string> Ask(const std::vector<std::string>& command) {
  std::vector<std::string> lines;
  const auto output = OutputOf(command, kAskMs);
  if (!output.ok()) return lines;
  std::istringstream text(*output);
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

}  // namespace

std::optional<SlurmJob> SlurmJob::OfThisProcess() {
  const std::string id = VariableOf("SLURM_JOB_ID");
  if (!ParseUnsigned(id).ok()) return std::nullopt;
  return SlurmJob(id);
}

std::uint64_t SlurmJob::EndMs() const {
  // By default it prints the local time, in the form of the user's settings.
  const auto lines =
      Ask({"env", "SLURM_TIME_FORMAT=%s", "squeue", "--noheader", "--jobs=" + id_, "--format=%e"});
  if (lines.size() == 1) {
    if (const auto seconds = ParseUnsigned(lines.front()); seconds.ok()) return *seconds * 1000;
  }
  const auto seconds = ParseUnsigned(VariableOf("SLURM_JOB_END_TIME"));  // Slurm 23.02 has it.
  return seconds.ok() ? *seconds * 1000 : 0;
}

std::uint64_t SlurmJob::KillWaitMs() const {
  for (const std::string& line : Ask({"scontrol", "show", "config"})) {
    std::istringstream words(line);
    std::string name;
    std::string equals;
    std::uint64_t seconds = 0;
    if (words >> name >> equals >> seconds && name == "KillWait") return seconds * 1000;
  }
  return kKillWaitMs;
}

std::vector<std::string> SlurmJob::Hosts() const {
  const std::string list = VariableOf("SLURM_JOB_NODELIST");
  if (list.empty()) return {};
  return Ask({"scontrol", "show", "hostnames", list});
}

std::vector<SlurmJob::Step> SlurmJob::Steps() const {
  std::vector<Step> steps;
  for (const std::string& line :
       Ask({"squeue", "--noheader", "--steps", "--jobs=" + id_, "--format=%i %j"})) {
    const std::size_t blank = line.find(' ');
    const std::string step = line.substr(0, blank);
    // Beside them there are "12.batch", "12.extern" and "12.interactive".
    if (!ParseUnsigned(step.substr(step.rfind('.') + 1)).ok()) continue;
    steps.push_back({step, blank == std::string::npos ? "" : line.substr(blank + 1)});
  }
  return steps;
}

void SlurmJob::Signal(const std::string& step, const std::string& signal) const {
  (void)Ask({"scancel", "--signal=" + signal, step});
}

}  // namespace tidepool::cli
