// Which TCP ports data paths and services take where nobody has named one: never the same.
//
// UCX connects back to a client that may have died meanwhile, and aborts the process when what
// listens there now speaks another protocol ("tcp_ep.c:1404 Assertion", with "TTP/" as a length):
// seen where a daemon's page had got the port of a killed client. So of the ports from which the
// kernel chooses, data paths take the upper half and all that speaks gRPC or HTTP the lower one.
#pragma once

#include <cstdint>
#include <string_view>

namespace tidepool::transport {

struct PortRange {
  std::uint16_t first = 0;  // 0: the kernel chooses.
  std::uint16_t last = 0;

  friend bool operator==(const PortRange&, const PortRange&) = default;
};

struct PortRanges {
  PortRange services;
  PortRange data_paths;
};

// `text` as in /proc/sys/net/ipv4/ip_local_port_range. A range that is too small to be halved, or
// none: the kernel chooses.
PortRanges HalvesOf(std::string_view text);
// Of this machine.
PortRanges UnnamedPorts();

}  // namespace tidepool::transport
