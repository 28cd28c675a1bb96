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
  std::uint32_t partitions = 0;  // Partitions of the namespace.

  void Add(const v1::MissingPart& part);
  std::uint32_t count() const;
  // True if all partitions are missing.
  bool has_nothing() const { return partitions > 0 && count() == partitions; }
};

// Calls `take` once with each record that `request` asks for. Stops early when it returns false,
// which is no failure. A broken stream is opened again behind the last message, up to 5 times
// without a record in between. Errors: the errors of the service; kDataLoss (unreadable records,
// reported after all readable records). With `gaps` the scan skips partitions that stay unavailable
// or have lost their data, and lists them; the caller reports them. If no partition is available,
// the scan fails.
Status ScanRecords(Channel& channel, v1::ScanRequest request,
                   const std::function<bool(const v1::Record&)>& take, ScanGaps* gaps = nullptr);

}  // namespace tidepool::cli
