// Room on disk that a daemon reserves for its own next start. A start writes small files, even if
// other users have filled the disk meanwhile.
//
//   daemon/node/node, daemon/membership/identity -> [disk_reserve]
#pragma once

#include <string>

namespace tidepool::cluster_file {

// Gives the reserve in `folder` back to the disk, which makes room for files. The caller holds the
// folder's lock. Does nothing without a reserve.
void ReleaseReserve(const std::string& folder);

// Takes 1 MiB of the disk again. A full disk gets no reserve: the next start may then fail with a
// message about it.
void RefillReserve(const std::string& folder);

}  // namespace tidepool::cluster_file
