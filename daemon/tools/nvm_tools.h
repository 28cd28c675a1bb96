// kvd check, kvd inspect: what lies in directories of --nvm-dir while no daemon uses them, read
// without changing a byte.
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

// "check" and "inspect".
bool IsNvmTool(const std::string& word);
// `arguments` begin with one of them. Exit code: 0 all is sound, 1 something is damaged or cannot
// be read, 2 wrong arguments.
int RunNvmTool(const std::vector<std::string>& arguments);

struct SuperblockSlot {
  Status status;  // kNotFound: nothing was written there yet, as in a file that was never used.
  storage::Superblock superblock;
};

// All that is said of a node's devices.
struct NvmReport {
  std::vector<std::vector<SuperblockSlot>> superblocks;  // Of each device both.
  Status catalog_status;
  CatalogContent catalog;  // Empty if that is not kOk.
  std::vector<storage::CoreCheck> cores;

  std::uint64_t lost() const;         // Partitions.
  std::uint64_t lost_values() const;  // Keys of others, whose values cannot be read.
  // What a daemon would serve again is all that was durable, and nothing is damaged.
  bool is_sound() const;
};

// Which records are to be written down as they are read; they may be many.
struct RecordFilter {
  bool all = false;
  std::uint64_t segment = 0;  // Other than 0: those of the segment with this number.
};

// Errors: kDeviceError, kDataLoss (damaged so that nothing can be said).
Result<NvmReport> ReadVolume(storage::Volume* volume, const RecordFilter& filter,
                             std::ostream& out);
// Whether a start with the identity in `data_dir` would take these devices; says what has moved.
// Errors: those of the start, but for a cluster that is asked to admit the node.
Status CheckStart(const storage::Volume& volume, const std::string& data_dir,
                  const std::string& command, std::ostream& out);
// `inspect`: all that is there, else what is wrong and a summary. `start`: of CheckStart.
void Print(const storage::Volume& volume, const NvmReport& report, bool inspect,
           const Status& start, std::ostream& out);

}  // namespace tidepool::daemon
