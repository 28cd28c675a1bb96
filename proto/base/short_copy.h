// Copies of keys and small values, inline: on both ways of a scan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "proto/base/bytes.h"

namespace tidepool {

// Copies like memcpy, for mostly short lengths that the compiler does not know. In a run a scan of
// 100 records of 16 and 64 bytes took 6.5 to 7.2 us with a call of memcpy for each key and value,
// 5.1 to 5.7 us with this, and 4.6 us with copies whose length the compiler knew.
[[gnu::always_inline]] inline void CopyShort(std::byte* to, const std::byte* from,
                                             std::size_t count) {
  struct Words {
    std::uint64_t at[2];
  };
  if (count >= 16) {
    if (count > 256) {
      std::memcpy(to, from, count);
      return;
    }
    // The last 16 bytes first: they may overlap the bytes before them.
    StoreUnaligned(to + count - 16, LoadUnaligned<Words>(from + count - 16));
    for (std::size_t i = 0; i + 16 < count; i += 16) {
      StoreUnaligned(to + i, LoadUnaligned<Words>(from + i));
    }
  } else if (count >= 8) {
    const auto first = LoadUnaligned<std::uint64_t>(from);
    StoreUnaligned(to + count - 8, LoadUnaligned<std::uint64_t>(from + count - 8));
    StoreUnaligned(to, first);
  } else if (count >= 4) {
    const auto first = LoadUnaligned<std::uint32_t>(from);
    StoreUnaligned(to + count - 4, LoadUnaligned<std::uint32_t>(from + count - 4));
    StoreUnaligned(to, first);
  } else {
    for (std::size_t i = 0; i < count; ++i) to[i] = from[i];
  }
}

}  // namespace tidepool
