// The most requested keys, found among samples in bounded memory.
//
//   daemon/core/dispatcher (a sample now and then) -> [metrics/hot_keys] -> Admin.HotKeys
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "proto/base/bytes.h"
#include "proto/base/ids.h"

namespace tidepool::daemon {

struct HotKey {
  NamespaceId space;
  std::string key;              // The key's first bytes, at most HotKeys::kKeyBytes.
  std::uint64_t key_bytes = 0;  // Size of the whole key.
  std::uint64_t samples = 0;    // Upper bound of the key's samples;
  std::uint64_t error = 0;      // samples - error is the lower bound.
  std::uint64_t changes = 0;    // Samples of changes since the key's entry was made.
};

// Owner core only. Uses Space-saving (Metwally, Agrawal and El Abbadi, Efficient computation of
// frequent and top-k elements in data streams, ICDT 2005): a key with more than 1/64 of the samples
// has an entry. Counts are halved every few seconds, so recent samples weigh most.
//
// Only List allocates. A sample costs some 40 ns, a pass over 64 hashes and at most one over 64
// counts; one operation in 128 is sampled.
class HotKeys {
 public:
  static constexpr std::size_t kKeys = 64;
  static constexpr std::size_t kKeyBytes = 64;

  // `hash`: KeyHash of the key.
  void Add(NamespaceId space, std::uint64_t hash, Bytes key, bool is_change);
  // Halves all counts.
  void Halve();
  void Clear() { *this = HotKeys(); }

  // Returns the entries, the most requested first.
  std::vector<HotKey> List() const;
  // Returns the samples of all keys; List's counts are parts of it.
  std::uint64_t samples() const { return samples_; }

 private:
  struct Entry {
    std::uint32_t space = 0;
    std::uint32_t error = 0;
    std::uint32_t changes = 0;
    std::uint16_t key_bytes = 0;
    std::array<std::byte, kKeyBytes> key{};
  };

  // Separate from the entries, so that a pass over the hashes touches a few cache lines only.
  std::array<std::uint64_t, kKeys> hashes_{};
  std::array<std::uint32_t, kKeys> counts_{};  // 0: the entry is free.
  std::array<Entry, kKeys> entries_{};
  std::uint64_t samples_ = 0;
};

}  // namespace tidepool::daemon
