// Segments of a core, or their ends, read one behind the other, the next few on their way
// meanwhile.
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
// each: while one is looked at, the device is kept busy (it alone had taken as long as the look at
// it, one after the other 1.9 s for a GiB that the disk reads in 1.1 s).
class SegmentReader {
 public:
  static constexpr unsigned kAhead = 4;

  // Of `queues`, one of each device of the volume, each of a depth of at least kAhead, nothing else
  // may be under way. All must outlive the reader.
  SegmentReader(const Volume& volume, DeviceQueues& queues, std::span<const FoundSegment> segments);
  // Waits for what is under way.
  ~SegmentReader();
  SegmentReader(const SegmentReader&) = delete;
  SegmentReader& operator=(const SegmentReader&) = delete;

  // From here on so many bytes of each are read, whole blocks from its end; what is on its way has
  // as many as before.
  void set_bytes(std::uint64_t bytes) { bytes_ = static_cast<std::uint32_t>(bytes); }
  // The next one of `segments`, of which there is one: its bytes live until the next call. Errors:
  // kDeviceError; what follows can be read all the same.
  Status Next(Bytes* image);
  // The last so many bytes of the same one again; more of it, where that was too little.
  Status Again(std::uint64_t bytes, Bytes* image);

 private:
  struct Buffer {
    BlockBuffer memory;
    std::uint32_t bytes = 0;  // Of the segment's end.
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
