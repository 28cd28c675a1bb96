#include "storage/nvm/record_check.h"

#include <algorithm>
#include <cstddef>

#include "storage/nvm/crc32c.h"

namespace tidepool::storage {

std::uint32_t RecordChecksum(const RecordHeader& record, std::uint64_t bytes,
                             std::uint64_t segment_number) {
  constexpr std::size_t kFrom = offsetof(RecordHeader, lsn);
  const std::uint32_t seed = Crc32c(std::as_bytes(std::span(&segment_number, 1)));
  return Crc32c({reinterpret_cast<const std::byte*>(&record) + kFrom,
                 static_cast<std::size_t>(bytes) - kFrom},
                seed);
}

std::uint32_t ExtentChecksum(const std::byte* segment, std::uint32_t at, std::uint32_t used,
                             std::uint64_t segment_number) {
  const std::uint32_t seed = Crc32c(std::as_bytes(std::span(&segment_number, 1)));
  return Crc32c({segment + at, std::min<std::size_t>(kExtentPieceBytes, used - at)}, seed);
}

std::size_t ExtentPieceSlot(std::uint32_t at) {
  const std::size_t piece = (at - kExtentHeaderBytes) / kExtentPieceBytes;
  return sizeof(SegmentHeader) + piece * sizeof(std::uint32_t);
}

bool IsSoundExtent(const std::byte* segment, std::uint64_t number, std::uint32_t used) {
  const auto& header = *reinterpret_cast<const SegmentHeader*>(segment);
  if (header.number != number || header.crc32c != SegmentChecksum(header)) return false;
  for (std::uint32_t at = kExtentHeaderBytes; at < used; at += kExtentPieceBytes) {
    if (LoadUnaligned<std::uint32_t>(segment + ExtentPieceSlot(at)) !=
        ExtentChecksum(segment, at, used, number)) {
      return false;
    }
  }
  return true;
}

std::uint32_t SegmentChecksum(const SegmentHeader& header) {
  constexpr std::size_t kFrom = offsetof(SegmentHeader, number);
  return Crc32c({reinterpret_cast<const std::byte*>(&header) + kFrom, sizeof header - kFrom},
                header.magic);
}

}  // namespace tidepool::storage
