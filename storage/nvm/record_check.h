// The checksums of frozen records and segments: made once, when a segment leaves DRAM, and checked
// by every read from a device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "proto/base/bytes.h"
#include "storage/layout.h"

namespace tidepool::storage {

// Returns the checksum of a record of `bytes`: all but the checksum itself and the sequence, seeded
// with its segment's number. A record from an earlier use of the place never passes.
std::uint32_t RecordChecksum(const RecordHeader& record, std::uint64_t bytes,
                             std::uint64_t segment_number);
// Returns the checksum of a piece of an extent: kExtentPieceBytes, or the rest of `used`, from `at`
// on. It stands in the segment's table, at ExtentPieceSlot.
std::uint32_t ExtentChecksum(const std::byte* segment, std::uint32_t at, std::uint32_t used,
                             std::uint64_t segment_number);
std::size_t ExtentPieceSlot(std::uint32_t at);
// Returns whether `segment` is intact: the written segment of this number with `used` bytes of an
// extent, its header included.
bool IsSoundExtent(const std::byte* segment, std::uint64_t number, std::uint32_t used);
// Returns the checksum of a segment's header without the checksum field.
std::uint32_t SegmentChecksum(const SegmentHeader& header);

}  // namespace tidepool::storage
