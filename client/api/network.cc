#include "tidepool/network.h"

#include <utility>

#include "proto/transport/network_ways.h"

namespace tidepool {

std::vector<NetworkWay> NetworkWays() {
  std::vector<NetworkWay> ways;
  for (transport::NetworkWay& way : transport::NetworkWays()) {
    ways.push_back({std::move(way.transport), std::move(way.device)});
  }
  return ways;
}

bool IsRdmaTransport(const std::string& transport) { return transport::IsRdmaTransport(transport); }

std::string NetworkLibrary() { return transport::NetworkLibrary(); }

}  // namespace tidepool
