// Chooses the node's address to listen on and the device for its data.
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

// Returns "10.0.0.7:4410" or "[fd00::7]:4410".
std::string AddressWithPort(const std::string& address, std::uint32_t port);

// Returns the interfaces that are up, one entry per address: IPv4 before IPv6, without link-local
// addresses.
std::vector<NetworkInterface> ListInterfaces();

// Chooses an interface. `wanted` is its name or one of its addresses. If it is empty: loopback when
// `is_alone`, otherwise the interface with the address of the host's name, otherwise the interface
// of the default route.
// Errors: kInvalidArgument (no such interface; lists the existing interfaces), kUnavailable (none
// fits).
Result<NetworkInterface> ChooseInterface(const std::string& wanted, bool is_alone);

// Checks that a listener can be opened; `port` 0 always passes. Without this check gRPC reports
// only that it has no port. `option`: the option of kvd that sets the port, for the remedy.
// Errors: kUnavailable (in use), kPermissionDenied, kInvalidArgument (not an address of this
// machine).
Status CheckPort(const std::string& address, std::uint32_t port,
                 std::string_view option = "--port");

// Opens the listener, not blocking. `port` 0 chooses a free port, which `*bound_port` receives.
// Errors: those of CheckPort; kResourceExhausted (no descriptor).
Result<UniqueFd> OpenListener(const std::string& address, std::uint32_t port,
                              std::uint32_t* bound_port, std::string_view option = "--port");

// Lets `listen` listen on `port`, or, if that is 0, on a free port of the range for services
// (proto/transport/ports.h). Errors: those of CheckPort and of `listen`.
Status ListenOn(const std::string& address, std::uint32_t port,
                const std::function<Status(std::uint32_t port)>& listen,
                std::string_view option = "--port");

}  // namespace tidepool::daemon
