// The unix socket of a same-node connection: the meeting of the two sides, the identity of the
// peer, the descriptors of shared memory, and the doorbell. Internal to proto/transport.
//
//   connecting side                          accepting side (one socket per core)
//   Hello {id, secret}          ->           checks user, secret and memory
//   + its own memory, if it shows some
//                               <-           Welcome {ring bytes} + rings + words; or why not
//   which memory? {offset}      ->
//                               <-           Memory {where} + its descriptor
//   and one byte whenever the other one sleeps; the end of the socket is the end of the peer
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "proto/base/bytes.h"
#include "proto/base/result.h"
#include "proto/transport/ring_memory.h"
#include "proto/transport/transport.h"

namespace tidepool::transport {

// First message of a connecting side.
struct RingHello {
  std::string id;      // Id of its worker, kRingIdBytes, and the connection's tag, kRingTagBytes.
  std::string secret;  // Secret of the worker that listens; kRingIdBytes.
};
inline constexpr std::size_t kRingIdBytes = 32;
inline constexpr std::size_t kRingTagBytes = 16;
inline constexpr std::size_t kRingPeerBytes = kRingIdBytes + kRingTagBytes;

// The reply: the size of each ring, or why the peer gets no rings.
struct RingWelcome {
  StatusCode code = StatusCode::kOk;
  std::uint64_t ring_bytes = 0;
  UniqueFd rings;
  UniqueFd words;
};

// Returns a unique random id that cannot be guessed: a worker's name, or its secret.
std::string MakeRingId();

// Removes the sockets in `folder` of daemons that were killed.
void RemoveDeadRings(const std::string& folder);

// Makes `folder`/ring-ID, removes the sockets of dead daemons, and listens. The socket becomes
// visible only when it accepts connections. Errors: kInvalidArgument (the path is too long for a
// socket), kUnavailable.
Result<UniqueFd> ListenForRings(const std::string& folder, const std::string& id,
                                std::string* path);
// Returns at once. Errors: kUnavailable (no listener, it is another user's, no
// descriptor).
Result<UniqueFd> ConnectToRings(const std::string& path);
// Accepts the next connection of this user. Errors: kNotFound (no connection), kPermissionDenied
// (another user), kResourceExhausted (descriptors).
Result<UniqueFd> AcceptRings(int listener);

// `memory`: descriptor of memory that the connecting side shows, or -1.
Status SendHello(int socket, const RingHello& hello, int memory = -1);
Status SendWelcome(int socket, const RingWelcome& welcome);

// Requests the piece that holds `offset`, and sends it, with `memory.descriptor`.
Status SendMemoryRequest(int socket, std::uint64_t offset);
Status SendMemory(int socket, const NodeMemory& memory);

// A message, if any.
struct RingMessage {
  enum class What : std::uint8_t {
    kNothing,
    kBell,
    kHello,
    kWelcome,
    kMemoryRequest,
    kMemory,
    kEnd,
    kBroken
  };
  What what = What::kNothing;
  RingHello hello;
  UniqueFd hello_memory;  // Empty if the peer shows no memory.
  RingWelcome welcome;
  std::uint64_t offset = 0;  // In a request.
  NodeMemory memory;         // Its descriptor is memory_descriptor's.
  UniqueFd memory_descriptor;
};
RingMessage ReceiveRingMessage(int socket);
// Decodes any bytes.
RingMessage DecodeRingMessage(Bytes bytes);

// Wakes the peer. A peer that does not empty its socket is awake or beyond help.
void RingBell(int socket);

}  // namespace tidepool::transport
