#include "storage/nvm/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <cstddef>

namespace tidepool::storage {

std::uint32_t Crc32c(Bytes bytes, std::uint32_t seed) {
  constexpr std::size_t kPieceBytes = std::size_t{1} << 30;  // The library counts in int.
  std::uint32_t crc = ~seed;
  while (!bytes.empty()) {
    const std::size_t piece = std::min(bytes.size(), kPieceBytes);
    // It reads only, whatever its signature says.
    auto* from = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(bytes.data()));
    crc = crc32_iscsi(from, static_cast<int>(piece), crc);
    bytes = bytes.subspan(piece);
  }
  return ~crc;
}

}  // namespace tidepool::storage
