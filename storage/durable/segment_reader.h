// Reads segments of a core, or their ends, in order, and reads the next few
// ahead.
//
//   recovery -> [segment_reader] -> device
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "proto/base/bytes.h"
#include "proto/base/status.h"
#include "storage/device/device_io.h"
#include "storage/nvm/slot_scan.h"
#include "storage/nvm/volume.h"

namespace tidepool::storage {

// For the start of a node: Next() waits for the device. Not thread-safe. Four buffers of a segment
// each keep the device busy while the caller works on a segment. (Read and work each took as long;
// in turns 1.9 s for a GiB that the disk reads in 1.1 s.)
class SegmentReader {
 public:
  static constexpr unsigned kAhead = 4;

  // `queues`: a queue for each device of the volume, of a depth of at least kAhead, with no other
  // requests under way. All must outlive the reader.
  SegmentReader(const Volume& volume, DeviceQueues& queues, std::span<const FoundSegment> segments);
  // Waits for the requests under way.
  ~SegmentReader();
  SegmentReader(const SegmentReader&) = delete;
  SegmentReader& operator=(const SegmentReader&) = delete;

  // Sets the number of bytes to read from each segment's end, in whole blocks. Reads under way keep
  // their size.
  void set_bytes(std::uint64_t bytes) { bytes_ = static_cast<std::uint32_t>(bytes); }
  // Reads the next of `segments`; there must be a next. The bytes live until the next call. Errors:
  // kDeviceError; the segments that follow can still be read.
  Status Next(Bytes* image);
  // Reads the last `bytes` of this segment again; for more of it, where the first read was too
  // small.
  Status Again(std::uint64_t bytes, Bytes* image);

 private:
  struct Buffer {
    BlockBuffer memory;
    std::uint32_t bytes = 0;  // Bytes of the segment's end.
    bool under_way = false;
    int error = 0;
  };
  void Start(std::size_t which);
  void Await(std::size_t which);
  Status Taken(std::size_t which, Bytes* image);
  DeviceQueue& QueueOf(std::size_t which) const;

  const Volume& volume_;
  DeviceQueues& queues_;
  const std::span<const FoundSegment> segments_;
  std::uint32_t bytes_;
  std::array<Buffer, kAhead> buffers_;
  std::size_t started_ = 0;
  std::size_t next_ = 0;
};

}  // namespace tidepool::storage
