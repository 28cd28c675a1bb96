// Where the connection file is: the same answer for daemons, SDK and kvctl.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "proto/base/result.h"
#include "proto/cluster_file/cluster_file.h"

namespace tidepool::cluster_file {

// Looks up an environment variable; an empty variable counts as absent.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
// Returns the environment of this process.
Environment ProcessEnvironment();

// Returns $XDG_RUNTIME_DIR/tidepool/cluster.json, otherwise tidepool-<uid>/cluster.json below the
// temporary folder: the file of the user's own default service. `make_folder` makes its folder
// (0700). Errors: kPermissionDenied (the folder is another user's or open to other users), as
// FileError.
Result<std::string> UserServicePath(const Environment& environment, bool make_folder);

// Returns $SLURM_SUBMIT_DIR/tidepool-$SLURM_JOB_ID.json, or nothing outside a Slurm job.
std::optional<std::string> JobPath(const Environment& environment);
// Returns $SLURM_JOB_ID, or "".
std::string JobId(const Environment& environment);

// Returns the path where a daemon writes or looks for the file: `flag` (--cluster),
// TIDEPOOL_CLUSTER, the job's, the user's own default service.
Result<std::string> PathForDaemon(const std::string& flag, const Environment& environment);

struct Found {
  std::string path;
  std::string why;  // For people: "--cluster", "TIDEPOOL_CLUSTER", ...
  ClusterFile file;
};

// Finds the cluster that a program means: `flag` (--cluster; empty: not given), TIDEPOOL_CLUSTER,
// in a Slurm job the job's file, ./tidepool-cluster.json, the user's own default service. The first
// two must exist if given; of the rest the first existing file counts. Errors: kNotFound (no file;
// the message lists the places and a remedy), as Read.
Result<Found> Find(const std::string& flag, const Environment& environment = ProcessEnvironment());

// Returns true if TIDEPOOL_INSECURE is true, 1, yes or on: the user agrees that the job token goes
// over a plain connection to another machine. The connection file cannot agree for the user.
bool InsecureAllowed(const Environment& environment = ProcessEnvironment());

}  // namespace tidepool::cluster_file
