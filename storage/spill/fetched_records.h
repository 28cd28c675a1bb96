// Records that were read from a device for one operation, which finds them here when it is run
// again.
//
//   spiller -> [FetchedRecords] -> Log::Look
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "proto/base/status.h"
#include "storage/layout.h"

namespace tidepool::storage {

// Owner core only. Its segments stay pinned while it lives, so a location keeps its meaning. Few:
// one for most operations, at most kFetchedRecordsMax for a walk.
class FetchedRecords {
 public:
  struct Record {
    std::uint64_t location = 0;
    RecordHeader* record = nullptr;  // Null: it cannot be read, and `code` says why.
    StatusCode code = StatusCode::kOk;
    std::shared_ptr<const std::byte> buffer;  // That holds it, for who needs it longer.
  };

  const Record* Find(std::uint64_t location) const {
    const auto found = std::find_if(records_.begin(), records_.end(),
                                    [&](const Record& each) { return each.location == location; });
    return found == records_.end() ? nullptr : &*found;
  }
  void Add(Record record) { records_.push_back(std::move(record)); }
  const std::vector<Record>& records() const { return records_; }
  // Segments of large values, which are back in DRAM for it, or in records() if they are not.
  void AddExtent(std::uint32_t segment) { extents_.push_back(segment); }
  const std::vector<std::uint32_t>& extents() const { return extents_; }

 private:
  std::vector<Record> records_;
  std::vector<std::uint32_t> extents_;
};

// Read together for one walk: enough to keep a device busy, and some 100 KiB at most.
inline constexpr std::size_t kFetchedRecordsMax = 64;

}  // namespace tidepool::storage
