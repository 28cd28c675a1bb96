// Records that were read from a device for an operation. Its second run finds them
// here.
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

// Owner core only. The segments stay pinned while the object lives, so a location keeps its
// meaning. Few records: usually 1, at most kFetchedRecordsMax for a walk.
class FetchedRecords {
 public:
  struct Record {
    std::uint64_t location = 0;
    RecordHeader* record = nullptr;  // Null: it cannot be read, and `code` says why.
    StatusCode code = StatusCode::kOk;
    std::shared_ptr<const std::byte> buffer;  // Holds the record; may outlive this object.
    mutable bool used = false;                // By the present run.
  };
  // A segment of a large value, which is back in DRAM, or in records() if it is not.
  struct Extent {
    std::uint32_t segment = 0;
    mutable bool used = false;
  };

  const Record* Find(std::uint64_t location) const {
    const auto found = std::find_if(records_.begin(), records_.end(),
                                    [&](const Record& each) { return each.location == location; });
    if (found == records_.end()) return nullptr;
    found->used = true;
    return &*found;
  }
  void UseExtent(std::uint32_t segment) const {
    for (const Extent& each : extents_) each.used = each.used || each.segment == segment;
  }
  // Begins a run. If several operations run with these records, each passes on only its own.
  void BeginRun() const {
    for (const Record& each : records_) each.used = false;
    for (const Extent& each : extents_) each.used = false;
  }
  void Add(Record record) { records_.push_back(std::move(record)); }
  const std::vector<Record>& records() const { return records_; }
  void AddExtent(std::uint32_t segment) { extents_.push_back({segment}); }
  const std::vector<Extent>& extents() const { return extents_; }

 private:
  std::vector<Record> records_;
  std::vector<Extent> extents_;
};

// Bounds on the records that a walk reads together: enough to keep a device busy.
inline constexpr std::size_t kFetchedRecordsMax = 64;
inline constexpr std::uint64_t kFetchedBytesMax = 1 << 20;

}  // namespace tidepool::storage
