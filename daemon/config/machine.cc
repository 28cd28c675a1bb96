// What the machine and its control groups leave to this process, and sizes as people write them;
// the parts of daemon/config/options.h that do not deal with options.
#include <algorithm>
#include <cmath>
#include <string>

#include "daemon/config/options.h"
#include "proto/machine/machine.h"

namespace tidepool::daemon {
namespace {

int ShiftOfUnit(std::string unit) {
  if (unit.size() == 3 && unit.substr(1) == "iB") unit.resize(1);
  constexpr std::string_view kUnits = "KMGT";
  if (unit.empty() || unit == "B") return 0;
  const std::size_t index = unit.size() == 1 ? kUnits.find(unit[0]) : std::string_view::npos;
  return index == std::string_view::npos ? -1 : static_cast<int>(10 * (index + 1));
}

}  // namespace

std::vector<int> AllowedCpus() { return machine::AllowedCpus(); }

Machine ReadMachine() {
  Machine found;
  found.cores = std::max(1u, static_cast<std::uint32_t>(AllowedCpus().size()));
  const std::uint64_t group_bytes = machine::GroupMemoryBytes();
  found.available_bytes = std::min(machine::MemInfoBytes("MemAvailable:"), group_bytes);
  const std::uint64_t total_bytes = machine::MemInfoBytes("MemTotal:");
  found.limit_bytes = std::min(total_bytes == 0 ? UINT64_MAX : total_bytes, group_bytes);
  return found;
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
