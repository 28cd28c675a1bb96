// Whether a process listens at an address, asked by TCP alone: no name, no token, no TLS.
#pragma once

#include <cstdint>
#include <string>

namespace tidepool::convert {

enum class PortState {
  kOpen,     // A process listens, or the kernel does for a stopped one.
  kClosed,   // The machine answers, and no process listens.
  kUnknown,  // No answer in time, or no way there.
};

// Connects to `address` (host:port) and closes the connection. Takes at most `timeout_ms`, beside
// the look-up of a name.
PortState AskPort(const std::string& address, std::uint64_t timeout_ms);

}  // namespace tidepool::convert
