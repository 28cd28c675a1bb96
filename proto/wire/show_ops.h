// Answer of Show to a client of another node, behind the view of the partition: the requested piece
// of memory, and how long the owner may serve.
//
//   daemon/ops/show_ops => Show's value => client/engine/engine_direct
#pragma once

#include <cstdint>
#include <cstring>

#include "proto/base/bytes.h"
#include "proto/base/result.h"

namespace tidepool::wire {

// storage::DirectView.
inline constexpr std::size_t kDirectViewBytes = 56;
inline constexpr std::size_t kShownKeyBytesMax = 256;

// Views only.
struct ShownMemory {
  std::uint64_t lease_ns = 0;  // From when the question was sent.
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;  // 0: not shown, or not yet.
  std::uint64_t address = 0;
  Bytes key;  // Key of the network card; opaque.
};

// {lease:8, begin:8, bytes:8, address:8}, then the key.
inline constexpr std::size_t kShownMemoryHeaderBytes = 32;
inline constexpr std::size_t kShownBytesMax =
    kDirectViewBytes + kShownMemoryHeaderBytes + kShownKeyBytesMax;

// Returns how many bytes it has written. REQUIRES: room, and a key of at most kShownKeyBytesMax.
inline std::size_t StoreShownMemory(const ShownMemory& from, std::byte* to) {
  StoreUnaligned(to, from.lease_ns);
  StoreUnaligned(to + 8, from.begin);
  StoreUnaligned(to + 16, from.bytes);
  StoreUnaligned(to + 24, from.address);
  if (!from.key.empty()) {
    std::memcpy(to + kShownMemoryHeaderBytes, from.key.data(), from.key.size());
  }
  return kShownMemoryHeaderBytes + from.key.size();
}

// Returns: kInvalidArgument.
inline Result<ShownMemory> LoadShownMemory(Bytes from) {
  const Status malformed(StatusCode::kInvalidArgument, "malformed description of shown memory");
  if (from.size() < kShownMemoryHeaderBytes ||
      from.size() > kShownMemoryHeaderBytes + kShownKeyBytesMax) {
    return malformed;
  }
  ShownMemory shown;
  shown.lease_ns = LoadUnaligned<std::uint64_t>(from.data());
  shown.begin = LoadUnaligned<std::uint64_t>(from.data() + 8);
  shown.bytes = LoadUnaligned<std::uint64_t>(from.data() + 16);
  shown.address = LoadUnaligned<std::uint64_t>(from.data() + 24);
  shown.key = from.subspan(kShownMemoryHeaderBytes);
  // A range whose end wraps around, here or there, is malformed.
  if (shown.begin + shown.bytes < shown.begin || shown.address + shown.bytes < shown.address) {
    return malformed;
  }
  return shown;
}

}  // namespace tidepool::wire
