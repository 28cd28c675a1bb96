// Reads and verifies records for operations, one by one, and hands them over together.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "proto/base/log.h"
#include "storage/nvm/record_check.h"
#include "storage/spill/spiller.h"

namespace tidepool::storage {

void Spiller::Fetch(std::span<const std::uint64_t> locations, Then then) {
  auto fetching = std::make_shared<Fetching>();
  fetching->then = std::move(then);
  const SegmentTable& segments = log_.segments();
  // Keeps the records of the operation's earlier fetch, or it would want them again: between the
  // two fetches others may have left memory.
  if (const FetchedRecords* earlier = log_.fetched(); earlier != nullptr) {
    for (const FetchedRecords::Record& record : earlier->records()) {
      if (!record.used) continue;
      const std::uint32_t index = segments.IndexOf(record.location);
      log_.Pin(index);
      fetching->pinned.push_back(index);
      fetching->records.Add(record);
      fetching->records.records().back().used = false;
    }
    for (const FetchedRecords::Extent& extent : earlier->extents()) {
      if (!extent.used) continue;
      log_.Pin(extent.segment);
      fetching->pinned.push_back(extent.segment);
      fetching->records.AddExtent(extent.segment);
    }
  }
  for (const std::uint64_t location : locations) {
    const std::uint32_t index = segments.IndexOf(location);
    const Segment& segment = segments[index];
    if (segment.state != SegmentState::kSpilled) continue;  // Back meanwhile: it will be found.
    log_.Pin(index);
    fetching->pinned.push_back(index);
    ++fetching->reads_left;
    if (segment.extent) {
      fetching->extents.push_back(index);
      fetching->records.AddExtent(index);
      continue;
    }
    ReadRecord(fetching, location, segment.ExpectedRecordBytes());
  }
  if (!fetching->extents.empty()) {
    returning_.push_back(std::move(fetching));
    StartExtents();
  } else if (fetching->reads_left == 0) {
    fetched_.push_back(std::move(fetching));
  }
}

// Reads `bytes`, the expected size; the rest is read after the header has arrived.
void Spiller::ReadRecord(std::shared_ptr<Fetching> fetching, std::uint64_t location,
                         std::uint64_t bytes) {
  const SegmentTable& segments = log_.segments();
  const std::uint32_t taken = TakeIo();
  Io& io = ios_[taken];
  io.what = Io::What::kRecord;
  io.segment = segments.IndexOf(location);
  io.location = location;
  io.offset = DownToBlock(segments.OffsetOf(location));
  io.bytes = std::min(UpToBlock(segments.OffsetOf(location) + bytes),
                      UpToBlock(segments[io.segment].used)) -
             io.offset;
  io.fetching = std::move(fetching);
  StartIo(taken);
}

void Spiller::FinishRecord(Io& io, int error) {
  const std::uint32_t at = log_.segments().OffsetOf(io.location) - io.offset;
  auto* record = reinterpret_cast<RecordHeader*>(io.buffer.get() + at);
  FetchedRecords::Record fetched;
  fetched.location = io.location;
  reading_bytes_ -= io.bytes;
  ++counters_.reads;
  counters_.read_bytes += io.bytes;
  const bool is_put = record->type == RecordType::kPut || record->type == RecordType::kPutExtent;
  if (error == 0 && is_put && log_.BytesOf(*record) > io.bytes - at &&
      log_.BytesOf(*record) <= log_.segments()[io.segment].record_bytes_max) {
    return ReadRecord(std::move(io.fetching), io.location, log_.BytesOf(*record));
  }
  if (error != 0) {
    fetched.code = StatusCode::kDeviceError;
  } else if (!is_put || log_.BytesOf(*record) > io.bytes - at ||
             record->crc32c != RecordChecksum(*record, log_.BytesOf(*record),
                                              log_.segments()[io.segment].number)) {
    fetched.code = StatusCode::kDataLoss;
  } else {
    fetched.record = record;
    fetched.buffer = std::move(io.buffer);
  }
  if (fetched.record == nullptr) {
    if (counters_.failed_reads++ == 0) {
      log::Error("a record on the device cannot be read: " +
                 (error != 0 ? std::string(std::strerror(error))
                             : "its checksum differs, what is stored there is damaged"));
    }
  }
  io.fetching->records.Add(std::move(fetched));
  if (--io.fetching->reads_left == 0) fetched_.push_back(std::move(io.fetching));
}

}  // namespace tidepool::storage
