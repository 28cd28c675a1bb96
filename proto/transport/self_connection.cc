#include "proto/transport/self_connection.h"

#include <netinet/in.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

namespace tidepool::transport {
namespace {

std::atomic<std::uint64_t> g_self_connections_refused = 0;

// Copies: the addresses of callers may be unaligned.
template <typename Address>
Address AddressAs(const void* from) {
  Address address{};
  std::memcpy(&address, from, sizeof address);
  return address;
}

// Returns whether both are equal. A connection to "any" goes to loopback, and comes from loopback.
bool IsSameV4(const sockaddr_in& own, const sockaddr_in& peer) {
  return own.sin_port == peer.sin_port &&
         (own.sin_addr.s_addr == peer.sin_addr.s_addr || peer.sin_addr.s_addr == htonl(INADDR_ANY));
}

bool IsSameV6(const sockaddr_in6& own, const sockaddr_in6& peer) {
  return own.sin6_port == peer.sin6_port &&
         (std::memcmp(&own.sin6_addr, &peer.sin6_addr, sizeof own.sin6_addr) == 0 ||
          std::memcmp(&in6addr_any, &peer.sin6_addr, sizeof in6addr_any) == 0);
}

}  // namespace

bool IsSelfConnection(int socket, const sockaddr* peer, socklen_t peer_bytes) {
  const bool is_v4 = peer_bytes >= sizeof(sockaddr_in) && peer->sa_family == AF_INET;
  const bool is_v6 = peer_bytes >= sizeof(sockaddr_in6) && peer->sa_family == AF_INET6;
  if (!is_v4 && !is_v6) return false;
  sockaddr_storage own{};
  socklen_t bytes = sizeof own;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&own), &bytes) != 0) return false;
  if (own.ss_family != peer->sa_family) return false;
  const bool is_same = is_v4
                           ? IsSameV4(AddressAs<sockaddr_in>(&own), AddressAs<sockaddr_in>(peer))
                           : IsSameV6(AddressAs<sockaddr_in6>(&own), AddressAs<sockaddr_in6>(peer));
  int type = 0;
  bytes = sizeof type;
  return is_same && getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0 &&
         type == SOCK_STREAM;
}

std::uint64_t SelfConnectionsRefused() { return g_self_connections_refused; }

}  // namespace tidepool::transport

// The sanitizers have a connect of their own, which must stay in place.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

extern "C" [[gnu::visibility("default")]] int connect(int socket, const sockaddr* peer,
                                                      socklen_t peer_bytes) {
  const auto result = static_cast<int>(syscall(SYS_connect, socket, peer, peer_bytes));
  const int error = errno;
  // The kernel has chosen the source port by now, whether or not it goes on without the caller.
  const bool goes_on = result == 0 || error == EINPROGRESS || error == EINTR;
  if (!goes_on || !tidepool::transport::IsSelfConnection(socket, peer, peer_bytes)) {
    errno = error;
    return result;
  }
  sockaddr nobody{};
  nobody.sa_family = AF_UNSPEC;
  syscall(SYS_connect, socket, &nobody, sizeof nobody);  // Ends the connection.
  ++tidepool::transport::g_self_connections_refused;
  errno = ECONNREFUSED;
  return -1;
}

#endif
