// The checksums of frozen records and segments: made once, when a segment leaves DRAM, and checked
// by every read from a device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "proto/base/bytes.h"
#include "storage/layout.h"

namespace tidepool::storage {

// Of a record of `bytes`: all but the checksum itself and the sequence, seeded with the number of
// its segment, so that a record of an earlier life of the same place never passes.
std::uint32_t RecordChecksum(const RecordHeader& record, std::uint64_t bytes,
                             std::uint64_t segment_number);
// Of a piece of an extent: kExtentPieceBytes, or what is left of `used`, from `at` on. Stands in
// the segment's table, at ExtentPieceSlot.
std::uint32_t ExtentChecksum(const std::byte* segment, std::uint32_t at, std::uint32_t used,
                             std::uint64_t segment_number);
std::size_t ExtentPieceSlot(std::uint32_t at);
// Whether `segment`, as it was read, is the one of this number with so many bytes of an extent, its
// header's included, that was written.
bool IsSoundExtent(const std::byte* segment, std::uint64_t number, std::uint32_t used);
// Of a segment's header without the checksum.
std::uint32_t SegmentChecksum(const SegmentHeader& header);

}  // namespace tidepool::storage
