#include "daemon/control/network_interface.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>

#include "proto/cluster_file/file_io.h"
#include "proto/cluster_file/host_name.h"
#include "proto/transport/ports.h"

namespace tidepool::daemon {
namespace {

// Returns "" for addresses that are neither IPv4 nor IPv6.
std::string TextOf(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof text);
  } else if (address->sa_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    if (!IN6_IS_ADDR_LINKLOCAL(&v6)) inet_ntop(AF_INET6, &v6, text, sizeof text);
  }
  return text;
}

std::vector<std::string> AddressesOfHostName() {
  std::vector<std::string> addresses;
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(cluster_file::HostName().c_str(), nullptr, &wanted, &found) != 0)
    return addresses;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    addresses.push_back(TextOf(entry->ai_addr));
  }
  freeaddrinfo(found);
  return addresses;
}

// Returns the interface of the default route; "" if there is none.
std::string DefaultRouteInterface() {
  std::ifstream routes("/proc/net/route");
  std::string line;
  std::getline(routes, line);  // Titles.
  while (std::getline(routes, line)) {
    std::istringstream words(line);
    std::string name;
    std::string destination;
    if (words >> name >> destination && destination == "00000000") return name;
  }
  return {};
}

std::string NamesOf(const std::vector<NetworkInterface>& interfaces) {
  std::string names;
  for (const NetworkInterface& each : interfaces) {
    names += (names.empty() ? "" : ", ") + each.name + " (" + each.address + ")";
  }
  return names;
}

template <typename Matches>
const NetworkInterface* FindIf(const std::vector<NetworkInterface>& interfaces, Matches matches) {
  const auto found = std::find_if(interfaces.begin(), interfaces.end(), matches);
  return found == interfaces.end() ? nullptr : &*found;
}

}  // namespace

std::string AddressWithPort(const std::string& address, std::uint32_t port) {
  const bool is_v6 = address.find(':') != std::string::npos;
  return (is_v6 ? "[" + address + "]" : address) + ":" + std::to_string(port);
}

std::vector<NetworkInterface> ListInterfaces() {
  std::vector<NetworkInterface> interfaces;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return interfaces;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    std::string address = TextOf(entry->ifa_addr);
    if (address.empty()) continue;
    interfaces.push_back(
        {entry->ifa_name, std::move(address), (entry->ifa_flags & IFF_LOOPBACK) != 0});
  }
  freeifaddrs(list);
  std::stable_partition(interfaces.begin(), interfaces.end(), [](const NetworkInterface& each) {
    return each.address.find(':') == std::string::npos;
  });
  return interfaces;
}

Result<NetworkInterface> ChooseInterface(const std::string& wanted, bool is_alone) {
  const std::vector<NetworkInterface> interfaces = ListInterfaces();
  if (!wanted.empty()) {
    const auto* found = FindIf(interfaces, [&](const NetworkInterface& each) {
      return each.name == wanted || each.address == wanted;
    });
    if (found != nullptr) return *found;
    return Status(StatusCode::kInvalidArgument,
                  "there is no network interface '" + wanted + "' that is up",
                  "there are: " + NamesOf(interfaces));
  }
  if (is_alone) {
    const auto* loopback =
        FindIf(interfaces, [](const NetworkInterface& each) { return each.is_loopback; });
    if (loopback != nullptr) return *loopback;
    return Status(StatusCode::kUnavailable, "this machine has no loopback interface",
                  "name another with --interface: " + NamesOf(interfaces));
  }
  for (const std::string& address : AddressesOfHostName()) {
    const auto* found = FindIf(interfaces, [&](const NetworkInterface& each) {
      return each.address == address && !each.is_loopback;
    });
    if (found != nullptr) return *found;
  }
  const std::string route = DefaultRouteInterface();
  const auto* found =
      FindIf(interfaces, [&](const NetworkInterface& each) { return each.name == route; });
  if (found != nullptr) return *found;
  return Status(
      StatusCode::kUnavailable,
      "cannot tell which network the nodes share: the host's name resolves to no interface "
      "and there is no default route",
      "name it with --interface; there are: " + NamesOf(interfaces));
}

Status CheckPort(const std::string& address, std::uint32_t port, std::string_view option) {
  if (port == 0) return OkStatus();
  std::uint32_t bound_port = 0;
  return OpenListener(address, port, &bound_port, option).status();
}

Result<UniqueFd> OpenListener(const std::string& address, std::uint32_t port,
                              std::uint32_t* bound_port, std::string_view option) {
  sockaddr_storage where{};
  socklen_t bytes = 0;
  in_port_t* port_of_address = nullptr;
  if (auto* v4 = reinterpret_cast<sockaddr_in*>(&where);
      inet_pton(AF_INET, address.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    port_of_address = &v4->sin_port;
    bytes = sizeof *v4;
  } else if (auto* v6 = reinterpret_cast<sockaddr_in6*>(&where);
             inet_pton(AF_INET6, address.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    port_of_address = &v6->sin6_port;
    bytes = sizeof *v6;
  } else {
    return Status(StatusCode::kInvalidArgument, "'" + address + "' is not an address");
  }
  *port_of_address = htons(static_cast<std::uint16_t>(port));
  UniqueFd listener(socket(where.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  // A port whose last connections are only closing counts as free.
  const int on = 1;
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&where), bytes) == 0 &&
      listen(listener.get(), SOMAXCONN) == 0 &&
      getsockname(listener.get(), reinterpret_cast<sockaddr*>(&where), &bytes) == 0) {
    *bound_port = ntohs(*port_of_address);
    return listener;
  }
  const int error = errno;
  const std::string what = "cannot listen on " + AddressWithPort(address, port) + ": ";
  if (!listener.is_open()) {
    return Status(StatusCode::kResourceExhausted, what + std::strerror(error), "raise ulimit -n");
  }
  if (error == EADDRINUSE) {
    return Status(StatusCode::kUnavailable, what + "the port is in use",
                  "give another " + std::string(option) + ", or leave it out for any free port");
  }
  if (error == EACCES) {
    return Status(StatusCode::kPermissionDenied, what + "no permission",
                  "give a " + std::string(option) + " of 1024 or above");
  }
  return Status(StatusCode::kInvalidArgument, what + std::strerror(error));
}

Status ListenOn(const std::string& address, std::uint32_t port,
                const std::function<Status(std::uint32_t port)>& listen, std::string_view option) {
  const transport::PortRange range = transport::UnnamedPorts().services;
  if (port != 0 || range.first == 0) {
    TP_RETURN_IF_ERROR(CheckPort(address, port, option));
    return listen(port);
  }
  std::random_device random;
  std::uniform_int_distribution<std::uint32_t> any(range.first, range.last);
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    const std::uint32_t one = any(random);
    const Status free = CheckPort(address, one, option);
    if (free.code() == StatusCode::kInvalidArgument) return free;
    if (!free.ok()) continue;
    Status listening = listen(one);
    // Fails only if another process has taken the port meanwhile.
    if (listening.ok() || CheckPort(address, one).ok()) return listening;
  }
  return listen(0);
}

}  // namespace tidepool::daemon
