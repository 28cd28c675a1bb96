// Writer of the connection file: the daemons' side of cluster_file.h.
//
// Rules: a single starter of several wins (link() of a complete file). Only the winner, the
// coordinator, changes it (rename()). It holds a lock on the file for its lifetime, so a starter on
// this machine, or on a shared file system with locks, sees that the cluster lives even while it is
// stopped. A file of a live cluster is never overwritten.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "proto/base/result.h"
#include "proto/cluster_file/cluster_file.h"
#include "proto/cluster_file/file_io.h"

namespace tidepool::cluster_file {

// The coordinator's hold on its connection file. Move-only; not thread-safe. The file stays when
// this is destroyed, only the lock goes.
class PublishedFile {
 public:
  // Makes the file. Errors: kAlreadyExists (another starter was first; read it), as FileError.
  static Result<PublishedFile> Create(const std::string& path, const ClusterFile& file);
  // A coordinator that came back takes over the file of its own cluster, or makes it if it is gone.
  // Errors: kFailedPrecondition (it is another cluster's), as FileError.
  static Result<PublishedFile> Adopt(const std::string& path, const ClusterFile& file);

  // Errors: kFailedPrecondition (the file at the path is no longer this cluster's: left alone), as
  // FileError.
  Status Update(const ClusterFile& file);
  // Ends the cluster in good order: removes the file if it is still this cluster's, and the
  // token.
  void Remove();

  const std::string& path() const { return path_; }
  const ClusterFile& content() const { return content_; }

 private:
  PublishedFile(std::string path, ClusterFile content, UniqueFd lock);
  Status CheckOwnership() const;

  std::string path_;
  ClusterFile content_;
  UniqueFd lock_;  // Lock of the inode at path_.
};

// State of a path.
enum class Finding {
  kNothing,
  kLive,   // A daemon of its cluster lives.
  kStale,  // No daemon lives, or the file is of another batch job.
};
struct Examination {
  Finding finding = Finding::kNothing;
  std::optional<ClusterFile> file;  // Unless kNothing.
};

// Whether a daemon of the cluster of `file` answers at `control_address`.
using Probe = std::function<bool(const ClusterFile& file, const std::string& control_address)>;

// Reads `path` and finds out whether its cluster lives: by the coordinator's lock, else by asking
// all its nodes. A file of another job than `job_id` (when both are given) is stale whoever
// answers. Errors: as Read but for kNotFound.
Result<Examination> Examine(const std::string& path, const std::string& job_id, const Probe& probe);

// Moves a stale file of cluster `cluster_uuid` to "<path>.stale-<first 8 digits>" and removes its
// token. If another file stands there by now, it is left alone. Call it under StartLock.
// Returns: kOk, as FileError.
Status MoveAside(const std::string& path, const ClusterFile& stale);

// Removes a connection file whose cluster has ended, with the token and the TLS file that it names.
// A file of another cluster at this path is left alone. Call it under StartLock.
void RemoveEnded(const std::string& path, const ClusterFile& ended);

// Takes the lock under which a starter examines the file and makes its own, so that two starters on
// a machine cannot both move aside. Waits at most `timeout_ms`. A file system without locks gives
// an empty lock. Errors: kDeadlineExceeded, as FileError.
Result<UniqueFd> TakeStartLock(const std::string& path, std::uint64_t timeout_ms);

}  // namespace tidepool::cluster_file
