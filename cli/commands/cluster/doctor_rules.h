// Conclusions of kvctl doctor. The rules look at no machine, so tests can show each of them.
//
//   doctor.cc gathers -> [rules] -> findings -> output
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/commands/cluster/disk_speed.h"
#include "tidepool/v1/admin.pb.h"

namespace tidepool::cli {

// kNote: worth knowing, and perhaps as it should be. kWarning: something will be slower, or fail
// later. kProblem: something does not work, or not as it was asked for.
enum class Level : std::uint8_t { kOk, kNote, kWarning, kProblem };
const char* LevelName(Level level);

struct Finding {
  Level level = Level::kOk;
  std::string topic;  // "limits", "memory", "cpus", "network", "clock", "file", "nvm",
                      // "containers", "versions", "ports"
  std::string where;  // "here", "node 0 (host)", or a path.
  std::string what;
  std::string remedy;  // Empty: nothing is to be done.
};
using Findings = std::vector<Finding>;

// A finding of several places. Points into the findings.
struct GroupedFinding {
  const Finding* first = nullptr;
  std::vector<std::string> places;
};
// Joins findings that differ in their places alone.
std::vector<GroupedFinding> Grouped(const Findings& findings);
// Returns the names of places in short: "here, nodes 0-2 (n1)".
std::string PlacesText(const std::vector<std::string>& places);

// A daemon with the facts of its machine, or this program.
struct Place {
  std::string name;  // See Finding::where.
  v1::MachineFacts facts;
  // Only for daemons:
  bool daemon = false;
  std::string control_address;
  // Address of the metrics and the status page; empty: there are none.
  std::string metrics_address;
  std::string version;
  std::uint32_t cores = 0;
  std::uint64_t memory_limit_bytes = 0;
  // Its clock before this program's, known to within `clock_error_ms`.
  std::int64_t clock_ahead_ms = 0;
  std::uint64_t clock_error_ms = 0;
  // How this program reaches it; `reached` without an error.
  bool reached = false;
  std::string data_path;  // See PingResult::data_path.
  std::string error;
  // True if reads need no message. For a daemon of this machine that is reached by a ring.
  bool direct_reads = false;
};

// True if both are on one machine, whatever names their containers have.
bool SameMachine(const Place& a, const Place& b);

void JudgeLimits(const Place& place, Findings* findings);
void JudgeMemory(const Place& place, Findings* findings);
void JudgeCpus(const std::vector<Place>& places, Findings* findings);
// Judges the transports that UCX finds there. `require_rdma`: it is a problem if RDMA is absent.
void JudgeWays(const Place& place, bool require_rdma, Findings* findings);
// How `here` reaches the daemon, and which Linux namespaces lie between them. `require_rdma`: of
// another machine it must be by RDMA.
void JudgePath(const Place& here, const Place& daemon, bool require_rdma, Findings* findings);
void JudgeClock(const Place& daemon, Findings* findings);
void JudgeVersions(const std::string& ours, const std::vector<Place>& places, Findings* findings);
void JudgePorts(const Place& daemon, Findings* findings);
void JudgeDisk(const std::string& path, const DiskSpeed& speed, Findings* findings);

}  // namespace tidepool::cli
