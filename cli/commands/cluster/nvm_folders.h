// The folders of the daemons in the directory of --nvm-dir, and data of earlier daemons in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/base/result.h"

namespace tidepool::cli {

struct NvmFolders {
  std::vector<std::string> paths;  // A path for each daemon.
  // The coordinator among an earlier cluster's daemons. The other daemons find their places by it,
  // so it must serve before they start. Otherwise one of them begins a new cluster.
  std::optional<std::size_t> coordinator;
};

// Makes the absent folders in `directory`, which must exist. Errors: kInvalidArgument (it is no
// directory), kFailedPrecondition (this number of daemons cannot continue the data), and the errors
// of cluster_file::MakeFolders.
Result<NvmFolders> MakeNvmFolders(const std::string& directory, std::uint64_t daemons);

}  // namespace tidepool::cli
