// The same-node implementation of the transport: a pair of rings in shared memory per connection.
//
// Why not UCX's shared memory: one client that is killed in mid-write wedges its receive queue for
// every other client. Here nothing is shared between two clients.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "proto/transport/transport.h"

namespace tidepool::transport {

struct RingSettings {
  // Where workers listen: a folder of the user's, closed to others. Empty: they only connect.
  std::string folder;
  // What the rings of one listening worker may take. Those that connect when it is used up are
  // refused, and use another transport.
  std::uint64_t memory_bytes = 64ull << 20;
  // See UcxSettings.
  bool workers_move_between_threads = false;
};

// A connection carries frames both ways, so what connects cannot be connected to: to answer a peer,
// Connect to the address of its worker finds the connection that it has made. That of a worker that
// listens is a path, of use wherever it leads to the same file, and a secret, which who connects
// must know: whoever was given the address.
//
// A worker that connects several times to one says each time under which tag (TagRingAddress, of
// both addresses): so the other side knows which of the connections is meant.
//
// Beyond Worker::Connect's errors: kUnavailable where a path leads nowhere, or no connection of
// that worker is there.

// Of either side's address, which has the tag 0. What is no such address stays as it is.
std::string TagRingAddress(std::string_view address, std::uint64_t tag);

}  // namespace tidepool::transport
