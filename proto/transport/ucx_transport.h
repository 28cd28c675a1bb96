// The UCX implementation of the transport: RDMA where the fabric has it, else TCP.
#pragma once

#include <memory>
#include <string>

#include "proto/transport/transport.h"

namespace tidepool::transport {

struct UcxSettings {
  // Network devices that may carry data, as UCX names them ("lo", "eth0", "mlx5_0:1"); comma
  // separated. Never empty: with all devices UCX opens a second lane over a slow one.
  std::string devices = "lo";
  // Clients that are expected; UCX sizes its endpoints' resources by it.
  std::size_t endpoints_expected = 64;
  // False: each worker belongs to the thread that first uses it (a daemon's core). True: threads
  // take turns on a worker under a lock of their own (a client). Debug builds check either.
  bool workers_move_between_threads = false;
  // True: the context is given only after frames have gone over it (frame_proof.h). For daemons.
  bool proves_frames = false;
};

// Workers keep what they need of the context alive, so the two may be destroyed in any order. The
// user's UCX_* variables apply where UcxSettingsTable (settings.h) says nothing.
// Errors: kUnavailable (UCX could not start, or no such device: the message lists those there are;
// or frames do not go), kInvalidArgument (an empty device name), kFailedPrecondition (a version of
// UCX with which Tidepool was not proved).
Result<std::unique_ptr<Context>> MakeUcxContext(const UcxSettings& settings);

// The settings in force, as "NAME=VALUE" lines, for `kvd --print-config` and bug reports.
std::string DescribeUcxSettings(const UcxSettings& settings);

}  // namespace tidepool::transport
