#include "proto/convert/port_state.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "proto/base/clock.h"
#include "proto/cluster_file/file_io.h"

namespace tidepool::convert {
namespace {

// Splits "10.0.0.7:4410" and "[::1]:4410".
bool SplitHostAndPort(const std::string& address, std::string* host, std::string* port) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0) return false;
  *host = address.substr(0, colon);
  *port = address.substr(colon + 1);
  if (host->size() > 2 && host->front() == '[' && host->back() == ']') {
    *host = host->substr(1, host->size() - 2);
  }
  return true;
}

PortState ConnectOnce(const addrinfo& target, Deadline deadline) {
  const UniqueFd connection(
      socket(target.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!connection.is_open()) return PortState::kUnknown;
  int error = connect(connection.get(), target.ai_addr, target.ai_addrlen) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    pollfd waiting{connection.get(), POLLOUT, 0};
    int ready = 0;
    do {
      ready =
          poll(&waiting, 1, static_cast<int>(std::min<std::uint64_t>(deadline.LeftMs(), 60'000)));
    } while (ready < 0 && errno == EINTR);
    socklen_t bytes = sizeof error;
    if (ready != 1 || getsockopt(connection.get(), SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) {
      return PortState::kUnknown;
    }
  }
  if (error == 0) return PortState::kOpen;
  return error == ECONNREFUSED ? PortState::kClosed : PortState::kUnknown;
}

}  // namespace

PortState AskPort(const std::string& address, std::uint64_t timeout_ms) {
  const Deadline deadline = Deadline::AfterMs(timeout_ms);
  std::string host;
  std::string port;
  if (!SplitHostAndPort(address, &host, &port)) return PortState::kUnknown;
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), port.c_str(), &wanted, &found) != 0) return PortState::kUnknown;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  return ConnectOnce(*found, deadline);
}

}  // namespace tidepool::convert
