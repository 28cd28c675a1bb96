#include "proto/transport/ports.h"

#include <fstream>
#include <sstream>
#include <string>

namespace tidepool::transport {
namespace {

// A client has a port for each core of each daemon that it is connected with.
constexpr int kHalfMin = 2'000;
constexpr int kPortMax = 65'535;

}  // namespace

PortRanges HalvesOf(std::string_view text) {
  std::istringstream numbers{std::string(text)};
  int first = 0;
  int last = 0;
  if (!(numbers >> first >> last) || first <= 0 || last > kPortMax) return {};
  const int half = (last - first + 1) / 2;
  if (half < kHalfMin) return {};
  const auto port = [](int number) { return static_cast<std::uint16_t>(number); };
  return {{port(first), port(first + half - 1)}, {port(first + half), port(last)}};
}

PortRanges UnnamedPorts() {
  std::ifstream file("/proc/sys/net/ipv4/ip_local_port_range");
  std::string line;
  std::getline(file, line);
  return HalvesOf(line);
}

}  // namespace tidepool::transport
