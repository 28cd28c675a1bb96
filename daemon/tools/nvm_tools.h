// kvd check, kvd inspect: read directories of --nvm-dir while no daemon uses them, without changing
// a byte.
//
//   kvd -> [nvm_tools] -> node_catalog, storage/durable/log_check
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "daemon/control/node_catalog.h"
#include "proto/base/result.h"
#include "storage/durable/log_check.h"
#include "storage/nvm/volume.h"

namespace tidepool::daemon {

// Returns true for "check" and "inspect".
bool IsNvmTool(const std::string& word);
// Runs the tool that `arguments` begin with. Exit code: 0 no damage, 1 damaged or unreadable data,
// 2 wrong arguments.
int RunNvmTool(const std::vector<std::string>& arguments);

struct SuperblockSlot {
  Status status;  // kNotFound: nothing was written there yet, as in an unused file.
  storage::Superblock superblock;
};

// Findings about a node's devices.
struct NvmReport {
  std::vector<std::vector<SuperblockSlot>> superblocks;  // Both superblocks of each device.
  Status catalog_status;
  CatalogContent catalog;  // Empty if catalog_status is not kOk.
  std::vector<storage::CoreCheck> cores;

  std::uint64_t lost() const;         // Lost partitions.
  std::uint64_t lost_values() const;  // Unreadable values in other partitions.
  // Returns true if nothing is damaged and a daemon would serve all durable data again.
  bool is_sound() const;
};

// Selects the records to print while reading; there may be many.
struct RecordFilter {
  bool all = false;
  std::uint64_t segment = 0;  // Not 0: only records of the segment with this number.
};

// Reads the volume. Errors: kDeviceError, kDataLoss (too damaged to report anything).
Result<NvmReport> ReadVolume(storage::Volume* volume, const RecordFilter& filter,
                             std::ostream& out);
// Checks whether a start with the identity in `data_dir` would accept these devices, and reports
// moved devices. Errors: those of the start, except those of the cluster that admits the node.
Status CheckStart(const storage::Volume& volume, const std::string& data_dir,
                  const std::string& command, std::ostream& out);
// Prints a summary with the damage; with `inspect`, all findings. `start`: result of CheckStart.
void Print(const storage::Volume& volume, const NvmReport& report, bool inspect,
           const Status& start, std::ostream& out);

}  // namespace tidepool::daemon
