// MUNGE, at sites that have it: its daemon on each machine of a cluster vouches for a process's
// user, so the job token need not lie in a file.
//
//   program: [MakeCredential] -> Cluster.Login -> kvd: [ReadCredential] -> the job token
//
// https://dun.github.io/munge/: the site's key signs a credential, which lives five minutes and is
// taken once by each machine. Ours is readable by this user only, and names the daemon that it is
// for. A stranger with a copy therefore cannot use it with another daemon.
#pragma once

#include <sys/types.h>

#include <string>

#include "proto/base/result.h"
#include "proto/cluster_file/find.h"

namespace tidepool::cluster_file {

// Makes a credential for the daemon that serves at `control_address`. `socket`: munged's; empty:
// the site's. Blocks for as long as munged takes, 0.3 ms as a rule. Errors: kUnavailable (munged
// does not answer, or refuses).
Result<std::string> MakeCredential(const std::string& control_address, const std::string& socket);

// Checks that this user made `credential` for the daemon at `control_address`. Errors:
// kUnauthenticated (expired, used before, forged, for another daemon), kPermissionDenied (another
// user's), kUnavailable (munged does not answer).
Status ReadCredential(const std::string& credential, const std::string& control_address,
                      const std::string& socket);

// Returns TIDEPOOL_MUNGE_SOCKET, or "".
std::string MungeSocket(const Environment& environment = ProcessEnvironment());

}  // namespace tidepool::cluster_file
