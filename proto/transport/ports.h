// TCP ports of data paths and services for which the user named no port: disjoint ranges.
//
// UCX connects back to a client that may have died meanwhile. It aborts the process if the listener
// there now speaks another protocol ("tcp_ep.c:1404 Assertion", with "TTP/" as a length): seen when
// a daemon's page had got the port of a killed client. Of the kernel's range of ports, data paths
// therefore take the upper half, gRPC and HTTP the lower half.
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

// Returns the halves of `text`, as in /proc/sys/net/ipv4/ip_local_port_range. If the range is
// absent or too small to be halved, the kernel chooses.
PortRanges HalvesOf(std::string_view text);
// Returns the ranges of this machine.
PortRanges UnnamedPorts();

}  // namespace tidepool::transport
