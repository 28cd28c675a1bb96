// The UCX implementation of the transport: RDMA where the fabric has it, else TCP.
#pragma once

#include <memory>
#include <string>

#include "proto/transport/transport.h"

namespace tidepool::transport {

struct UcxSettings {
  // Network devices that may carry data, by UCX's names ("lo", "eth0", "mlx5_0:1"); comma
  // separated. Never empty: with all devices UCX opens a second lane over a slow device.
  std::string devices = "lo";
  // Clients that are expected; UCX sizes its endpoints' resources by it.
  std::size_t endpoints_expected = 64;
  // False: each worker belongs to the thread that first uses it (a daemon's core). True: threads
  // take turns on a worker under a lock of their own (a client). Debug builds check either.
  bool workers_move_between_threads = false;
  // True: the context is given only after frames have gone over it (frame_proof.h). For daemons.
  bool proves_frames = false;
};

// Makes a context of UCX. Workers keep the necessary parts of the context alive, in any order of
// destruction. The user's UCX_* variables apply except where UcxSettingsTable (settings.h) has a
// value.
// Errors: kUnavailable (UCX could not start; no such device: the message lists the present devices;
// or frames do not go), kInvalidArgument (an empty device name), kFailedPrecondition (a version of
// UCX with which Tidepool was not proved).
Result<std::unique_ptr<Context>> MakeUcxContext(const UcxSettings& settings);

// Returns the settings in force, as "NAME=VALUE" lines, for `kvd --print-config` and bug reports.
std::string DescribeUcxSettings(const UcxSettings& settings);

}  // namespace tidepool::transport
