// Room on disk that a daemon keeps for its own next start: a start writes small files, also where
// others have filled the disk in the meantime.
//
//   daemon/node/node, daemon/membership/identity -> [disk_reserve]
#pragma once

#include <string>

namespace tidepool::cluster_file {

// Gives the room in `folder` back to the disk, so that files can be written there. The caller holds
// the folder's lock. Without a reserve nothing happens.
void ReleaseReserve(const std::string& folder);

// Takes 1 MiB of the disk again. A disk that has no room gets no reserve: the next start may then
// fail with a message that says so.
void RefillReserve(const std::string& folder);

}  // namespace tidepool::cluster_file
