// How a program gets the job token: from its file, or by proving to a daemon whose it is.
//
//   connection file -> [ObtainToken] -> each call's "authorization" header
#pragma once

#include <string>

#include "proto/base/channel_security.h"
#include "proto/base/clock.h"
#include "proto/base/result.h"
#include "proto/cluster_file/cluster_file.h"

namespace tidepool::convert {

// Of the cluster of `file`; with MUNGE from the first daemon that answers, asked in the order of
// the file. Errors: as cluster_file::ReadTokenFile and LogIn.
Result<std::string> ObtainToken(const cluster_file::ClusterFile& file,
                                const ChannelSecurity& security, Deadline deadline);

// The token of the cluster of the daemon at `control_address`, by MUNGE; `munge_socket` as of
// cluster_file::MakeCredential. Errors: as MakeChannel and MakeCredential, what the daemon says,
// kUnavailable.
Result<std::string> LogIn(const std::string& control_address, const ChannelSecurity& security,
                          const std::string& munge_socket, Deadline deadline);

}  // namespace tidepool::convert
