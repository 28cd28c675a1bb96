// The transport of daemons and clients: rings to a peer on its own node, UCX to other nodes.
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
  kAuto,  // Rings if the peer's socket can be reached, otherwise UCX.
  kUcx,   // Never a ring.
  kRing,  // Only rings: no other peer is reachable.
};
// Parses "auto", "ucx", "ring".
std::optional<TransportUse> TransportUseOf(std::string_view name);

struct NodeTransportSettings {
  UcxSettings ucx;
  RingSettings ring;
  TransportUse use = TransportUse::kAuto;
};

// Tags the address of such a worker, its own or a peer's, like TagRingAddress. Returns any other
// address unchanged.
std::string TagAddress(std::string_view address, std::uint64_t tag);

// Makes a context whose addresses name both ways. The side that connects first chooses; the other
// side answers by the ring if it exists, otherwise by UCX. A ring that cannot be made, or that is
// refused before its first frame, is replaced by UCX; only Describe shows it. Errors: as
// MakeUcxContext; for workers also errors of the ring's sockets, if only rings are allowed.
Result<std::unique_ptr<Context>> MakeNodeContext(const NodeTransportSettings& settings);

}  // namespace tidepool::transport
