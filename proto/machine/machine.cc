#include "proto/machine/machine.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <sstream>

namespace tidepool::machine {
namespace {

// Returns the number in a file; kNoLimit if it is "max", absent or no number.
std::uint64_t ReadLimit(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  return file >> value ? value : kNoLimit;
}

// Calls `look` with the folder of each group that this process is in, and of their ancestors.
// `controller`: of version 1, and where it is mounted; version 2 has a common tree.
void ForEachGroup(const std::string& controller,
                  const std::function<void(const std::string& folder, bool version_2)>& look) {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool version_2 = controllers == ",,";
    if (!version_2 && controllers.find("," + controller + ",") == std::string::npos) continue;
    const std::string root = version_2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/" + controller;
    std::string group = line.substr(second + 1);
    if (group == "/") group.clear();
    while (true) {
      look(root + group, version_2);
      if (group.empty()) break;
      group.resize(std::min(group.rfind('/'), group.size()));
    }
  }
}

}  // namespace

std::vector<int> AllowedCpus() {
  std::vector<int> cpus;
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &allowed)) cpus.push_back(cpu);
  }
  return cpus;
}

std::uint64_t GroupMemoryBytes() {
  // Version 1 writes "no limit" as the largest number of whole pages.
  constexpr std::uint64_t kLargest = 1ull << 62;
  std::uint64_t least = kNoLimit;
  ForEachGroup("memory", [&least](const std::string& folder, bool version_2) {
    least =
        std::min(least, ReadLimit(folder + (version_2 ? "/memory.max" : "/memory.limit_in_bytes")));
  });
  return least >= kLargest ? kNoLimit : least;
}

double GroupCpus() {
  double least = 0;
  ForEachGroup("cpu", [&least](const std::string& folder, bool version_2) {
    double quota_us = 0;
    double period_us = 0;
    if (version_2) {
      std::ifstream file(folder + "/cpu.max");
      if (!(file >> quota_us >> period_us)) return;  // "max 100000"
    } else {
      std::ifstream quota(folder + "/cpu.cfs_quota_us");
      std::ifstream period(folder + "/cpu.cfs_period_us");
      if (!(quota >> quota_us) || !(period >> period_us)) return;  // -1: none
    }
    if (quota_us <= 0 || period_us <= 0) return;
    const double cpus = quota_us / period_us;
    least = least == 0 ? cpus : std::min(least, cpus);
  });
  return least;
}

std::uint64_t MemInfoBytes(const std::string& wanted) {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    std::uint64_t kib = 0;
    if (words >> name >> kib && name == wanted) return kib * 1024;
  }
  return 0;
}

}  // namespace tidepool::machine
