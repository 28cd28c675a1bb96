// The connection file, by which daemons and programs find a cluster: its contents, and its reader.
//
//   kvd writes it (published_file.h)  ->  [connection file]  ->  SDK, kvctl, other daemons (find.h)
//
// JSON, readable by scripts: {"format", "cluster_uuid", "job_id", "nodes_expected",
// "coordinator", "token_file", "insecure", "nodes": [{"node_id", "uuid", "control_address",
// "host"}], "tls": {"ca", "name", "file", "mutual"}}, the last only with TLS; with MUNGE "auth":
// "munge" in place of "token_file". Only additions may be made within a format; a reader ignores
// unknown members.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/result.h"

namespace tidepool::cluster_file {

// A program's facts about the daemons' TLS. All empty: they serve without TLS.
struct FileTls {
  std::string ca;       // PEM: authority of their certificate.
  std::string name;     // Name in the certificate; empty: each daemon's host.
  std::string file;     // For further daemons: certificate and key; a path like token_file's. Empty
                        // with the user's own certificates.
  bool mutual = false;  // Programs must show a certificate, too.

  friend bool operator==(const FileTls&, const FileTls&) = default;
};

struct FileNode {
  std::string uuid;
  std::string control_address;  // host:port of its gRPC services.
  std::string host;

  friend bool operator==(const FileNode&, const FileNode&) = default;
};

// A plain value.
struct ClusterFile {
  static constexpr int kFormat = 1;

  std::string cluster_uuid;
  std::string job_id;  // Batch job that it was started in; empty outside.
  std::uint32_t nodes_expected = 1;
  std::uint32_t coordinator = 0;  // Index into nodes.
  // Path of the job token. In memory an absolute path or a path relative to the working directory;
  // in the file relative to its folder, because a shared file system may be mounted elsewhere.
  std::string token_file;
  bool munge = false;     // No such file: programs prove their user, see convert/login.h.
  bool insecure = false;  // The daemons serve without TLS beyond loopback; clients must agree.
  FileTls tls;
  std::vector<FileNode> nodes;  // Index = NodeId. Never empty in a file.

  friend bool operator==(const ClusterFile&, const ClusterFile&) = default;
};

// `path` is where the text is to stand or stood: for the token's path and for messages.
std::string Serialize(const ClusterFile& file, const std::string& path);
// Parses any text: a value or kInvalidArgument (damaged), kUnimplemented (a newer format).
Result<ClusterFile> Parse(std::string_view text, const std::string& path);

// Reads and checks that only this user (or root) can have written it: whoever writes it decides
// where the job token is sent. Errors: as Parse, kNotFound, kPermissionDenied.
Result<ClusterFile> Read(const std::string& path);

// Returns the path of a new cluster's token: beside the connection file, with the cluster's UUID in
// its name. Two starters therefore cannot overwrite each other's token.
std::string TokenPathFor(const std::string& path, const std::string& cluster_uuid);
// Returns the path of another secret: `ending` in place of "token".
std::string SecretPathFor(const std::string& path, const std::string& cluster_uuid,
                          const std::string& ending);
// Returns the default folder of daemons' identity and state: a folder beside the file.
std::string DataFolderFor(const std::string& path);
// In the data folder of the daemon that is the coordinator: the state of its cluster.
inline constexpr const char* kCoordinatorStateName = "cluster-state";

}  // namespace tidepool::cluster_file
