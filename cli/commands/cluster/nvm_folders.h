// The folders that kvctl start gives its daemons in the directory of --nvm-dir, and what earlier
// ones have left in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/base/result.h"

namespace tidepool::cli {

struct NvmFolders {
  std::vector<std::string> paths;  // One for each daemon.
  // Of an earlier cluster's daemons the one that is its coordinator. The others find their places
  // by it, so it must serve before they start: else one of them begins a cluster of its own.
  std::optional<std::size_t> coordinator;
};

// Makes those that are not there; `directory` must be. Errors: kInvalidArgument (it is no
// directory), kFailedPrecondition (so many daemons cannot go on with what is there), those of
// cluster_file::MakeFolders.
Result<NvmFolders> MakeNvmFolders(const std::string& directory, std::uint64_t daemons);

}  // namespace tidepool::cli
