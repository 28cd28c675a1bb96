// The unix socket of a same-node connection: how the two sides meet, who the other one is, the
// descriptors of what they share, and the doorbell. Internal to proto/transport.
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

// What a connecting side says first.
struct RingHello {
  std::string id;      // Of its worker, kRingIdBytes, and the connection's tag, kRingTagBytes.
  std::string secret;  // Of the worker that listens; kRingIdBytes.
};
inline constexpr std::size_t kRingIdBytes = 32;
inline constexpr std::size_t kRingTagBytes = 16;
inline constexpr std::size_t kRingPeerBytes = kRingIdBytes + kRingTagBytes;

// What it is answered: rings of so many bytes each, or why it gets none.
struct RingWelcome {
  StatusCode code = StatusCode::kOk;
  std::uint64_t ring_bytes = 0;
  OwnedFd rings;
  OwnedFd words;
};

// What nobody else has or can guess: a worker's name, or its secret.
std::string MakeRingId();

// Removes the sockets in `folder` of daemons that were killed.
void RemoveDeadRings(const std::string& folder);

// Makes `folder`/ring-ID, removes those of daemons that are gone, and listens; nobody sees the
// socket before it can be connected to. Errors: kInvalidArgument (the path is too long for a
// socket), kUnavailable.
Result<OwnedFd> ListenForRings(const std::string& folder, const std::string& id, std::string* path);
// Returns at once. Errors: kUnavailable (nobody listens there, it is another user's, no
// descriptor).
Result<OwnedFd> ConnectToRings(const std::string& path);
// The next that has connected, of this user. Errors: kNotFound (nobody), kPermissionDenied (another
// user), kResourceExhausted (descriptors).
Result<OwnedFd> AcceptRings(int listener);

// `memory`: descriptor of memory that the connecting side shows, or -1.
Status SendHello(int socket, const RingHello& hello, int memory = -1);
Status SendWelcome(int socket, const RingWelcome& welcome);

// The piece that holds `offset` is asked for, and given; `memory.descriptor` is sent along.
Status SendMemoryRequest(int socket, std::uint64_t offset);
Status SendMemory(int socket, const NodeMemory& memory);

// One message, if there is one.
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
  OwnedFd hello_memory;  // Empty if the peer shows no memory.
  RingWelcome welcome;
  std::uint64_t offset = 0;  // Of a request.
  NodeMemory memory;         // Its descriptor is memory_descriptor's.
  OwnedFd memory_descriptor;
};
RingMessage ReceiveRingMessage(int socket);
// Total: any bytes.
RingMessage DecodeRingMessage(Bytes bytes);

// Wakes the peer. One that does not empty its socket is awake or beyond help.
void RingBell(int socket);

}  // namespace tidepool::transport
