// Gets a program's job token: from its file, or from a daemon by a proof of its user.
//
//   connection file -> [ObtainToken] -> each call's "authorization" header
#pragma once

#include <span>
#include <string>

#include "proto/base/channel_security.h"
#include "proto/base/clock.h"
#include "proto/base/result.h"
#include "proto/cluster_file/cluster_file.h"

namespace tidepool::convert {

// Returns the token of the cluster of `file`; with MUNGE from its daemons, asked in the order of
// the file. Errors: as cluster_file::ReadTokenFile and LogInAtAny.
Result<std::string> ObtainToken(const cluster_file::ClusterFile& file,
                                const ChannelSecurity& security, Deadline deadline);

// Returns the token by MUNGE, from the first of the cluster's daemons that answers, asked in that
// order; each has an equal share of the time that is left. `munge_socket` as in
// cluster_file::MakeCredential.
// Errors: as MakeChannel and MakeCredential, a daemon's error; kUnavailable, kDeadlineExceeded (no
// daemon answers), kInternal (an answer without a token).
Result<std::string> LogInAtAny(std::span<const std::string> control_addresses,
                               const ChannelSecurity& security, const std::string& munge_socket,
                               Deadline deadline);

}  // namespace tidepool::convert
