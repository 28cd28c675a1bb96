// The keys that are asked for most, found among samples in bounded memory.
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
  std::string key;              // Its first bytes, at most HotKeys::kKeyBytes.
  std::uint64_t key_bytes = 0;  // Of the whole.
  std::uint64_t samples = 0;    // At most so many,
  std::uint64_t error = 0;      // and at least so many fewer.
  std::uint64_t changes = 0;    // Of the samples since it is here.
};

// Owner core only. Space-saving (Metwally, Agrawal and El Abbadi, Efficient computation of frequent
// and top-k elements in data streams, ICDT 2005): a key that has had more than 1/64 of the samples
// is here. Halving all counts every some seconds makes that "has had lately".
//
// No allocation but in List. A sample costs some 40 ns, one look over 64 hashes and at most one
// over 64 counts; one operation in 128 is sampled.
class HotKeys {
 public:
  static constexpr std::size_t kKeys = 64;
  static constexpr std::size_t kKeyBytes = 64;

  // `hash`: KeyHash of the key.
  void Add(NamespaceId space, std::uint64_t hash, Bytes key, bool is_change);
  // Forgets half of everything.
  void Halve();
  void Clear() { *this = HotKeys(); }

  // The most asked for first.
  std::vector<HotKey> List() const;
  // Of all keys; what List's counts are parts of.
  std::uint64_t samples() const { return samples_; }

 private:
  struct Entry {
    std::uint32_t space = 0;
    std::uint32_t error = 0;
    std::uint32_t changes = 0;
    std::uint16_t key_bytes = 0;
    std::array<std::byte, kKeyBytes> key{};
  };

  // Apart from the rest, so that the look over them is one over a few cache lines.
  std::array<std::uint64_t, kKeys> hashes_{};
  std::array<std::uint32_t, kKeys> counts_{};  // 0: the entry is free.
  std::array<Entry, kKeys> entries_{};
  std::uint64_t samples_ = 0;
};

}  // namespace tidepool::daemon
