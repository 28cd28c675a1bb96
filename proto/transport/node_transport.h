// The transport of daemons and clients: our own rings to a peer on the same node, UCX to others.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "proto/base/result.h"
#include "proto/transport/ring_transport.h"
#include "proto/transport/transport.h"
#include "proto/transport/ucx_transport.h"

namespace tidepool::transport {

enum class TransportUse : std::uint8_t {
  kAuto,  // Rings where the peer's socket can be reached, else UCX.
  kUcx,   // Never a ring.
  kRing,  // Nothing else: who cannot be reached so is not reached.
};
// "auto", "ucx", "ring".
std::optional<TransportUse> TransportUseOf(std::string_view name);

struct NodeTransportSettings {
  UcxSettings ucx;
  RingSettings ring;
  TransportUse use = TransportUse::kAuto;
};

// Of an address of such a worker, its own or a peer's: as TagRingAddress. What is none stays as it
// is.
std::string TagAddress(std::string_view address, std::uint64_t tag);

// An address names both ways. The side that connects first chooses, and the other one answers by
// the ring if one was made, else by UCX. What cannot be made or is refused before a frame has gone
// through it is replaced by UCX, unseen but for Describe. Errors: as MakeUcxContext; a
// worker's also those of the ring's sockets, if nothing but rings is wanted.
Result<std::unique_ptr<Context>> MakeNodeContext(const NodeTransportSettings& settings);

}  // namespace tidepool::transport
