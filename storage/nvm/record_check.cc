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

std::byte* ExtentPieceSlot(std::byte* segment, std::uint32_t at) {
  const std::size_t piece = (at - kExtentHeaderBytes) / kExtentPieceBytes;
  return segment + sizeof(SegmentHeader) + piece * sizeof(std::uint32_t);
}

std::uint32_t SegmentChecksum(const SegmentHeader& header) {
  constexpr std::size_t kFrom = offsetof(SegmentHeader, number);
  return Crc32c({reinterpret_cast<const std::byte*>(&header) + kFrom, sizeof header - kFrom},
                header.magic);
}

}  // namespace tidepool::storage
