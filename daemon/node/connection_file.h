// A node's side of the connection file: the secrets beside it, and its content, which follows the
// coordinator's map.
//
//   daemon/node/{node,election_loop} -> [connection_file] -> cluster_file/published_file
//
// Invariants:
//   1. The secrets that the file names are on disk before the file names them.
//   2. Only a coordinator writes the file: `published_` is set from Publish or Follow until Release
//      or Remove, and holds the lock on the file meanwhile.
//   3. followed() is the epoch of the last map that the file was compared with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "proto/base/clock.h"
#include "proto/base/result.h"
#include "proto/cluster_file/published_file.h"
#include "proto/cluster_file/tls_identity.h"
#include "proto/placement/placement_map.h"

namespace tidepool::daemon {

struct ConnectionFileOptions {
  std::string path;       // Absolute. Empty: the node has no file, and all calls do nothing.
  std::string node_uuid;  // Identity of this node, which the file names as the coordinator.
  std::string job_id;     // Batch job of this node; empty outside of a job.
  bool munge = false;     // Clients prove their identity by MUNGE, so no token file is written.
  bool insecure = false;  // --insecure was given.
  // The coordinator is elected. A paused former coordinator may then write or remove the file once
  // more, so Follow reads the file every `look_ms` although the map is unchanged.
  bool by_election = false;
  std::uint64_t look_ms = 5000;
};

// Not thread-safe: the starting thread first, then the coordinator's thread, then the ending
// thread.
class ConnectionFile {
 public:
  // `clock` must outlive the object.
  explicit ConnectionFile(ConnectionFileOptions options = {}, const Clock& clock = Clock::Real());

  const std::string& path() const { return options_.path; }
  // Sets the TLS identity of the node; none: the node serves without TLS.
  void SetTls(std::optional<cluster_file::TlsIdentity> tls) { tls_ = std::move(tls); }
  // Sets the job token that WriteSecrets writes.
  void SetToken(std::string token) { token_ = std::move(token); }

  // Writes the token and the TLS identity of cluster `cluster_uuid` beside the file. Call before
  // Publish. Errors: those of WriteTokenFile and WriteTlsFile.
  Status WriteSecrets(const std::string& cluster_uuid);
  // Removes what WriteSecrets has written: another starter has won the race for the file.
  void RemoveSecrets() const;

  // Writes the file from `map`, which names this node. `is_new`: the file must not exist yet.
  // Errors: those of PublishedFile::Create (is_new) or PublishedFile::Adopt.
  Status Publish(const placement::PlacementMap& map, bool is_new);
  // Brings the file up to `map`, and repairs a damaged file. A failure is logged, and tried again
  // with the next map.
  void Follow(const placement::PlacementMap& map);
  // True while the published file names fewer nodes than the cluster expects.
  bool IsForming() const;
  Epoch followed() const { return followed_; }
  bool is_published() const { return published_.has_value(); }

  // Gives up the lock on the file, and leaves the file to another coordinator.
  void Release() { published_.reset(); }
  // Removes the file and its token at the end of the cluster.
  void Remove();

 private:
  cluster_file::ClusterFile MakeContent(const placement::PlacementMap& map) const;
  Status Write(const placement::PlacementMap& map, const cluster_file::ClusterFile& content);
  bool IsDamaged() const;
  bool MustLook();

  const ConnectionFileOptions options_;
  const Clock& clock_;
  std::optional<cluster_file::TlsIdentity> tls_;
  std::string token_;
  std::string token_file_;  // Written by this node; empty: none.
  std::string tls_file_;    // Written by this node; empty: none.
  std::optional<cluster_file::PublishedFile> published_;
  Epoch followed_;
  std::uint64_t looked_ns_ = 0;
};

}  // namespace tidepool::daemon
