// Same-node implementation of the transport: a pair of rings in shared memory per connection.
//
// Why not UCX's shared memory: a client that is killed in mid-write wedges its receive queue for
// every other client. Here two clients share nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "proto/transport/transport.h"

namespace tidepool::transport {

struct RingSettings {
  // Folder where workers listen, the user's, closed to other users. Empty: they only connect.
  std::string folder;
  // Limit of the rings of a listening worker. Later connections are refused, and use another
  // transport.
  std::uint64_t memory_bytes = 64ull << 20;
  // See UcxSettings.
  bool workers_move_between_threads = false;
};

// A connection carries frames both ways, so a connecting worker does not listen: Connect to the
// address of a peer that has connected finds that connection. The address of a listening worker is
// a path, valid wherever it leads to this file, and a secret. A connecting worker must know the
// secret, which comes with the address.
//
// A worker that connects several times to a peer gives each connection a tag (TagRingAddress, of
// both addresses): the other side then knows which connection is meant.
//
// Beyond Worker::Connect's errors: kUnavailable if a path leads nowhere, or if no connection of
// that worker exists.

// Sets the tag in either side's address, which has the tag 0. Returns other addresses unchanged.
std::string TagRingAddress(std::string_view address, std::uint64_t tag);

}  // namespace tidepool::transport
