#include "client/engine/connector.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "client/engine/fork_guard.h"
#include "client/engine/grpc_control.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/time_namespace.h"
#include "proto/cluster_file/find.h"
#include "proto/cluster_file/tls_identity.h"
#include "proto/convert/grpc_channel.h"
#include "proto/convert/login.h"
#include "proto/transport/node_transport.h"

namespace tidepool::internal {

namespace {

std::string DefaultName() {
  return std::string(program_invocation_short_name) + "@" + HostName() + ":" +
         std::to_string(getpid());
}

bool SameAddress(const sockaddr* a, const sockaddr* b) {
  if (a == nullptr || a->sa_family != b->sa_family) return false;
  if (a->sa_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(a)->sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in*>(b)->sin_addr.s_addr;
  }
  return a->sa_family == AF_INET6 &&
         std::memcmp(&reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr,
                     &reinterpret_cast<const sockaddr_in6*>(b)->sin6_addr, sizeof(in6_addr)) == 0;
}

Result<std::string> InterfaceOf(const sockaddr* local) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) {
    return Status(StatusCode::kUnavailable, "this machine does not list its network interfaces");
  }
  std::string name;
  for (const ifaddrs* one = all; one != nullptr && name.empty(); one = one->ifa_next) {
    if (SameAddress(one->ifa_addr, local)) name = one->ifa_name;
  }
  freeifaddrs(all);
  if (!name.empty()) return name;
  return Status(StatusCode::kUnavailable, "no network interface leads to the cluster",
                "name one by ConnectOptions::devices");
}

// The address of this machine that a packet to `to` would carry.
Result<std::string> DeviceOfRoute(const addrinfo& to) {
  const int fd = socket(to.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return Status(StatusCode::kUnavailable, "cannot open a socket");
  sockaddr_storage local{};
  socklen_t bytes = sizeof local;
  // Connecting a datagram socket sends nothing; it looks the route up.
  const bool found = connect(fd, to.ai_addr, to.ai_addrlen) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&local), &bytes) == 0;
  const int error = errno;
  close(fd);
  if (!found) {
    return Status(StatusCode::kUnavailable,
                  std::string("no route to the cluster: ") + std::strerror(error));
  }
  return InterfaceOf(reinterpret_cast<const sockaddr*>(&local));
}

transport::TransportUse UseOf(Transport transport) {
  switch (transport) {
    case Transport::kAuto:
      return transport::TransportUse::kAuto;
    case Transport::kUcx:
      return transport::TransportUse::kUcx;
    case Transport::kRing:
      return transport::TransportUse::kRing;
  }
  return transport::TransportUse::kAuto;
}

}  // namespace

Result<std::string> DeviceFor(const std::string& address) {
  if (convert::IsLoopback(address)) return std::string("lo");
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0) {
    return Status(StatusCode::kInvalidArgument, "'" + address + "' is not host:port");
  }
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), address.c_str() + colon + 1, &wanted, &found);
  if (error != 0) {
    return Status(StatusCode::kUnavailable,
                  "cannot resolve '" + host + "': " + gai_strerror(error));
  }
  Result<std::string> device = DeviceOfRoute(*found);
  freeaddrinfo(found);
  return device;
}

Result<std::shared_ptr<Engine>> MakeEngine(EngineOptions parts, std::string token,
                                           ChannelSecurity security) {
  transport::NodeTransportSettings settings;
  settings.use = UseOf(parts.connect.transport);
  settings.ucx.devices = parts.connect.devices;
  settings.ucx.endpoints_expected = parts.addresses.size() * 4;
  settings.ucx.workers_move_between_threads = true;
  if (settings.ucx.devices.empty()) {
    auto device = DeviceFor(parts.addresses.front());
    if (!device.ok()) return device.status();
    settings.ucx.devices = *std::move(device);
  }
  // Leases use the owner's clock, which a time namespace would make us read wrongly.
  if (parts.connect.direct_read_bytes_max != 0 && !MonotonicIsMachineWide()) {
    log::Info("in a time namespace: no reads of a daemon's memory without a message");
    parts.connect.direct_read_bytes_max = 0;
  }
  auto control = MakeGrpcControl(std::move(token), std::move(security));
  auto context = transport::MakeNodeContext(settings);
  if (!context.ok()) return context.status();
  return Engine::Create(std::move(parts), std::move(control), *std::move(context));
}

Result<std::shared_ptr<Engine>> ConnectEngine(const ConnectOptions& options) {
  TP_RETURN_IF_ERROR(CheckMayConnect());
  const LiveClient live;  // Calls begin before there is an engine.
  const Deadline deadline = Deadline::AfterMs(
      static_cast<std::uint64_t>(std::max<std::int64_t>(1, options.connect_timeout.count())));
  auto found = cluster_file::Find(options.cluster_file);
  if (!found.ok()) return found.status();
  auto security =
      cluster_file::SecurityOf(found->file, options.insecure || cluster_file::InsecureAllowed());
  if (!security.ok()) return security.status();
  for (const auto& node : found->file.nodes) {  // Nothing is sent: this asks whether it would be.
    const auto channel = convert::MakeChannel(node.control_address, *security);
    if (!channel.ok()) return channel.status();
  }
  auto token = convert::ObtainToken(found->file, *security, deadline);
  if (!token.ok()) return token.status();

  EngineOptions parts;
  parts.connect = options;
  parts.cluster_file = found->path;
  parts.client_name = options.client_name.empty() ? DefaultName() : options.client_name;
  for (const auto& node : found->file.nodes) parts.addresses.push_back(node.control_address);
  auto engine = MakeEngine(std::move(parts), *std::move(token), *std::move(security));
  if (!engine.ok()) return engine.status();
  if (const Status status = (*engine)->RefreshMap(Epoch(), deadline); !status.ok()) {
    if (status.code() != StatusCode::kUnavailable) return status;
    return Status(
        status.code(),
        "no node of the cluster in " + found->path +
            " can be reached: " + std::string(status.what()),
        "look at the logs of its daemons, and whether this host reaches them; if all of them have "
        "ended, begin anew with: kvctl start");
  }
  return engine;
}

}  // namespace tidepool::internal
