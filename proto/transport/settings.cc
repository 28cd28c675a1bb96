#include "proto/transport/settings.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <sys/socket.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>

#include "proto/transport/ports.h"

namespace tidepool::transport {
namespace {

std::vector<std::string> Split(const std::string& text) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::string Join(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text.append(text.empty() ? "" : ", ").append(part);
  return text;
}

void AddInterfaces(std::set<std::string>* devices) {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return;
  for (const ifaddrs* i = first; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr) continue;
    const int family = i->ifa_addr->sa_family;
    const bool running = (i->ifa_flags & IFF_UP) != 0 && (i->ifa_flags & IFF_RUNNING) != 0;
    if (running && (family == AF_INET || family == AF_INET6)) devices->insert(i->ifa_name);
  }
  freeifaddrs(first);
}

void AddRdmaPorts(std::set<std::string>* devices) {
  namespace fs = std::filesystem;
  std::error_code error;
  for (const auto& device : fs::directory_iterator("/sys/class/infiniband", error)) {
    std::error_code no_ports;
    for (const auto& port : fs::directory_iterator(device.path() / "ports", no_ports)) {
      devices->insert(device.path().filename().string() + ":" + port.path().filename().string());
    }
  }
}

}  // namespace

std::vector<UcxSetting> UcxSettingsTable(const UcxSettings& settings, const UcxVersion& version) {
  const PortRange ports = UnnamedPorts().data_paths;
  std::vector<UcxSetting> table = {
      {"NET_DEVICES", settings.devices, "with all devices a second lane is opened over a slow one"},
      {"TLS", "^shm",
       "a client killed in mid-send blocks the shared-memory queue for all others, for ever"},
      {"PROTO_ENABLE", "n", "all measurements and kill tests were made with the first protocols"},
      {"MAX_POLL", "1",
       "one epoll batch with two sockets of one endpoint aborts the process (after 40-340 kills)",
       true},
      {"PUT_ENABLE", "n", "a disconnect during a TCP put aborts the process (after 84-237 kills)",
       true},
      {"PORT_RANGE",
       ports.first == 0 ? "0" : std::to_string(ports.first) + "-" + std::to_string(ports.last),
       "services speak first on theirs: one on the port of a client that has died aborts who "
       "calls",
       true},
      {"CONN_NB", "y",
       "else connect() blocks a core, and a peer that goes at that moment aborts it", true},
      {"RESOLVE_REMOTE_EP_ID", "n", "else each endpoint makes the peer's UCX connect back"},
      {"ADAPTIVE_PROGRESS", "n",
       "else UCX calls epoll_ctl for each frame of a worker that makes no endpoint: 23 us, not 12"},
      {"TX_SEG_SIZE", "64K", "a 60 KiB frame goes out in one piece: 18 us round trip, not 36",
       true},
      {"RX_SEG_SIZE", "256K", "several frames are read by one recv()", true},
      {"RNDV_THRESH", "inf", "frames are always eager; a rendezvous outlives deadlines"},
      {"KEEPALIVE_INTERVAL", "1s", "a dead peer is noticed in about a second; default 20 s"},
      {"KEEPALIVE_NUM_EPS", "inf", "every endpoint is looked at in each round; default 128"},
  };
  if (version >= kBindsSourceSince) {
    table.push_back({"EP_BIND_SRC_ADDR", "n",
                     "else a connection takes a port of the kernel's choice before it is made, and "
                     "that choice falls on ports where peers listen",
                     true});
  }
  return table;
}

std::string NameOf(const UcxSetting& setting) {
  return UcxSettingName(setting.name, setting.of_tcp, RunningUcx());
}

std::vector<std::string> UsableNetworkDevices() {
  std::set<std::string> devices;
  AddInterfaces(&devices);
  AddRdmaPorts(&devices);
  return {devices.begin(), devices.end()};
}

Status CheckDevices(const UcxSettings& settings) {
  const std::vector<std::string> usable = UsableNetworkDevices();
  for (const std::string& name : Split(settings.devices)) {
    if (name.empty()) {
      return Status(StatusCode::kInvalidArgument,
                    "empty name in the list of network devices '" + settings.devices + "'",
                    "name one or more of: " + Join(usable));
    }
    if (std::find(usable.begin(), usable.end(), name) == usable.end()) {
      return Status(StatusCode::kUnavailable,
                    "network device '" + name + "' does not exist, is down or has no address",
                    "use one of: " + Join(usable));
    }
  }
  return OkStatus();
}

std::string DescribeUcxSettings(const UcxSettings& settings) {
  std::string text;
  for (const UcxSetting& row : UcxSettingsTable(settings)) {
    text.append(row.name).append("=").append(row.value).append("\n");
  }
  return text;
}

}  // namespace tidepool::transport
