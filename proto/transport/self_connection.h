// Prevents TCP connections of a process with itself.
//
//   every connect() of the program -> [self_connection] -> the kernel
//
// A connection to a port of this machine where no process listens is refused, with an exception:
// the kernel may choose that very port as the source of the connection, which then is connected
// with itself. A daemon connects to the UCX port of each client. If the client was killed before
// that, UCX would read its own greeting as a header and abort the daemon ("tcp_ep.c:1404
// Assertion", with the length 3188864086).
//
// The means is a definition of connect() in the executable, which the dynamic linker prefers to
// libc's, for the libraries of UCX and gRPC too. It refuses such a connection as the kernel would.
// It works for programs that link this library statically (kvd, kvctl, the tests). The SDK is a
// shared library that hides its symbols, and may not change libc for its user's program. There a
// client can meet this only if a daemon ends between a client's Attach and its connection.
#pragma once

#include <sys/socket.h>

#include <cstdint>

namespace tidepool::transport {

// Returns true if the TCP socket was given `peer` to connect to, and has that address itself.
bool IsSelfConnection(int socket, const sockaddr* peer, socklen_t peer_bytes);

// Returns the number of connections refused in this process. Thread-safe.
std::uint64_t SelfConnectionsRefused();

}  // namespace tidepool::transport
