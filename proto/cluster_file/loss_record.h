// Record of data that ended with a daemon: written by the daemon, shown once by kvctl.
//
//   kvd, at an end that loses data -> [loss_record] beside the connection file -> kvctl's next call
//
// A JSON file per daemon and end in DataFolderFor(path)/lost, because the connection file
// disappears with its cluster.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/base/result.h"

namespace tidepool::cluster_file {

struct LostNamespace {
  std::string name;
  std::uint64_t records = 0;
  std::uint64_t bytes = 0;

  friend bool operator==(const LostNamespace&, const LostNamespace&) = default;
};

// A plain value.
struct LossRecord {
  std::string cluster_uuid;
  std::string node_uuid;
  std::string host;
  std::string reason;       // "SIGTERM", or why the daemon could not go on.
  std::uint64_t at_ms = 0;  // Wall clock.
  std::vector<LostNamespace> lost;

  friend bool operator==(const LossRecord&, const LossRecord&) = default;
};

// Returns "'inputs' (12 records, 3400 bytes), 'jobs' (1 record, 9 bytes)", with the first ten.
std::string LossText(const std::vector<LostNamespace>& lost);

// Writes `record` for the cluster whose connection file stands or stood at `path`. Errors: as
// FileError.
Status WriteLossRecord(const std::string& path, const LossRecord& record);

// Returns the records at `path` and removes them: a record goes to a single caller. Damaged files
// are removed, too; files of other users are left alone.
std::vector<LossRecord> TakeLossRecords(const std::string& path);

}  // namespace tidepool::cluster_file
