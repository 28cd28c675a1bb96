// Which address the node listens on, and which device carries its data.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/result.h"
#include "proto/cluster_file/file_io.h"

namespace tidepool::daemon {

struct NetworkInterface {
  std::string name;     // "eth0"
  std::string address;  // "10.0.0.7" or "fd00::7"
  bool is_loopback = false;
};

// "10.0.0.7:4410" or "[fd00::7]:4410".
std::string AddressWithPort(const std::string& address, std::uint32_t port);

// Interfaces that are up, one entry per address; IPv4 before IPv6, link-local left out.
std::vector<NetworkInterface> ListInterfaces();

// `wanted` is a name or an address of an interface, or empty: then loopback when `is_alone`, else
// the interface with the address that the host's name resolves to, else the default route's.
// Errors: kInvalidArgument (no such interface; lists those there are), kUnavailable (none fits).
Result<NetworkInterface> ChooseInterface(const std::string& wanted, bool is_alone);

// Whether a listener can be made there; `port` 0 always can. Without this gRPC would only say that
// it has no port. `option`: the option of kvd that names the port, for the remedy. Errors:
// kUnavailable (in use), kPermissionDenied, kInvalidArgument (not an address of this machine).
Status CheckPort(const std::string& address, std::uint32_t port,
                 std::string_view option = "--port");

// The listener itself: as CheckPort, but `port` 0 is any free one, and `*bound_port` says which.
// Not blocking. Further errors: kResourceExhausted (no descriptor).
Result<UniqueFd> OpenListener(const std::string& address, std::uint32_t port,
                              std::uint32_t* bound_port, std::string_view option = "--port");

// Has `listen` listen on `port`, or, where that is 0, on a free one of those that services take
// (proto/transport/ports.h). Errors: those of CheckPort and of `listen`.
Status ListenOn(const std::string& address, std::uint32_t port,
                const std::function<Status(std::uint32_t port)>& listen,
                std::string_view option = "--port");

}  // namespace tidepool::daemon
