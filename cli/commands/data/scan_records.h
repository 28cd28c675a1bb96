// Walking over a namespace through Bulk.Scan, across broken connections.
//
// kvctl keys|dump -> [scan_records] -> gRPC Bulk.Scan => any node -> all owners
#pragma once

#include <functional>
#include <vector>

#include "cli/channel.h"
#include "tidepool/v1/bulk.pb.h"

namespace tidepool::cli {

// Partitions that could not be had, by node and reason.
struct ScanGaps {
  std::vector<v1::MissingPart> missing;
  std::uint32_t partitions = 0;  // Of the namespace.

  void Add(const v1::MissingPart& part);
  std::uint32_t count() const;
  // True if all partitions are missing.
  bool has_nothing() const { return partitions > 0 && count() == partitions; }
};

// Calls `take` with each record that `request` asks for, once; stops early when it returns false,
// which is no failure. A broken stream is opened anew behind the last message, up to 5 times
// without a record in between. Errors: of the service; kDataLoss (behind all others there were some
// that cannot be read). With `gaps` the scan passes over partitions that stay unavailable or have
// lost their data, and lists them there: the caller says so. If no partition can be had the scan
// fails.
Status ScanRecords(Channel& channel, v1::ScanRequest request,
                   const std::function<bool(const v1::Record&)>& take, ScanGaps* gaps = nullptr);

}  // namespace tidepool::cli
