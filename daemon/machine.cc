// What the machine and its control groups leave to this process, and sizes as people write them;
// the parts of daemon/options.h that do not deal with options.
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>

#include "daemon/options.h"

namespace tidepool::daemon {
namespace {

constexpr std::uint64_t kNoLimit = UINT64_MAX;

// The number in a file of one number; kNoLimit if it is "max", absent or no number.
std::uint64_t ReadLimit(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  return file >> value ? value : kNoLimit;
}

// The least limit of `group` and its parents below `root`: a batch system sets the job's, not ours.
std::uint64_t LeastLimit(const std::string& root, std::string group, const std::string& name) {
  std::uint64_t least = kNoLimit;
  while (true) {
    least = std::min(least, ReadLimit(root + group + "/" + name));
    if (group.empty()) return least;
    group.resize(std::min(group.rfind('/'), group.size()));
  }
}

std::uint64_t ControlGroupLimit() {
  std::ifstream file("/proc/self/cgroup");
  std::uint64_t least = kNoLimit;
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    std::string group = line.substr(second + 1);
    if (group == "/") group.clear();
    if (controllers == ",,") {
      least = std::min(least, LeastLimit("/sys/fs/cgroup", group, "memory.max"));
    } else if (controllers.find(",memory,") != std::string::npos) {
      least = std::min(least, LeastLimit("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes"));
    }
  }
  return least;
}

// A line of /proc/meminfo; 0 if there is none.
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

int ShiftOfUnit(std::string unit) {
  if (unit.size() == 3 && unit.substr(1) == "iB") unit.resize(1);
  constexpr std::string_view kUnits = "KMGT";
  if (unit.empty() || unit == "B") return 0;
  const std::size_t index = unit.size() == 1 ? kUnits.find(unit[0]) : std::string_view::npos;
  return index == std::string_view::npos ? -1 : static_cast<int>(10 * (index + 1));
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

Machine ReadMachine() {
  Machine machine;
  machine.cores = std::max(1u, static_cast<std::uint32_t>(AllowedCpus().size()));
  const std::uint64_t group_bytes = ControlGroupLimit();
  machine.available_bytes = std::min(MemInfoBytes("MemAvailable:"), group_bytes);
  const std::uint64_t total_bytes = MemInfoBytes("MemTotal:");
  machine.limit_bytes = std::min(total_bytes == 0 ? UINT64_MAX : total_bytes, group_bytes);
  return machine;
}

Result<std::uint64_t> ParseSize(const std::string& text, std::uint64_t whole_bytes) {
  const Status refused(StatusCode::kInvalidArgument, "'" + text + "' is not a size",
                       "write 4GiB, 4G, 512M or 50%");
  const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string number = text.substr(0, digits);
  const std::string unit = text.substr(digits);
  if (number.empty() || number.size() > 20 || number.front() == '.' || number.back() == '.' ||
      std::count(number.begin(), number.end(), '.') > 1) {
    return refused;
  }
  const long double value = std::stold(number);  // Digits and one point: cannot throw.
  if (unit == "%") {
    if (value > 100) return refused;
    return static_cast<std::uint64_t>(static_cast<long double>(whole_bytes) * value / 100);
  }
  const int shift = ShiftOfUnit(unit);
  if (shift < 0) return refused;
  const long double bytes = std::ldexp(value, shift);
  if (bytes >= std::ldexp(1.0L, 62)) return refused;
  return static_cast<std::uint64_t>(bytes);
}

std::string FormatSize(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (unit < 4 && bytes >= 1024 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return std::to_string(bytes) + kUnits[unit];
}

}  // namespace tidepool::daemon
