// Which part a starting daemon plays: the first node of a new cluster, the coordinator that comes
// back to its own, or one that joins.
//
//   daemon/node/node -> [membership/founding] -> proto/cluster_file
//
// Rules: a file of a live cluster is never overwritten; the coordinator's state makes a daemon the
// coordinator of that cluster and of no other; a former member of a cluster whose file still stands
// waits for its coordinator and never promotes itself; one whose devices keep durable data does so
// without a file too.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "daemon/config/options.h"
#include "daemon/membership/identity.h"
#include "proto/cluster_file/published_file.h"

namespace tidepool::daemon {

struct Part {
  enum class Kind : std::uint8_t { kFirst, kReturn, kJoin };
  Kind kind = Kind::kFirst;
  std::optional<cluster_file::ClusterFile> file;  // kJoin by file: what it joins.
  bool is_member = false;                         // With etcd: of the cluster that it joins.
  UniqueFd start_lock;  // kFirst, kReturn: held until the file is published.
};

struct FoundingContext {
  std::string path;        // Of the connection file; empty with --join and no file.
  std::string state_uuid;  // Of the cluster whose state lies in the data folder, or "".
  const Options* options = nullptr;
  const Identity* identity = nullptr;
  bool keeps_durable = false;  // Of the cluster that it was a member of.
  cluster_file::Environment environment;
  cluster_file::Probe probe;
  std::function<bool()> stopped;  // Asked while waiting.
};

// Waits, within --join-timeout-ms, for other starters; in a Slurm job on any node but its first,
// for the file that the first one makes; and with durable data for its coordinator's. Moves a stale
// file aside. Errors: kFailedPrecondition (a live cluster has the file and this daemon has no place
// in it; or the options contradict what is found), kDeadlineExceeded, kCancelled, those of Examine
// and MoveAside.
Result<Part> DecidePart(const FoundingContext& context);

}  // namespace tidepool::daemon
