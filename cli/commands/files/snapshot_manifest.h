// manifest.json of a snapshot: its source and its files. It is written last, so a directory without
// it is no snapshot.
//
//   snapshot create -> [snapshot_manifest] -> DIR/manifest.json => snapshot restore, check
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/output.h"
#include "proto/base/result.h"
#include "tidepool/v1/cluster.pb.h"
#include "tidepool/v1/snapshots.pb.h"

namespace tidepool::cli {

struct SnapshotManifest {
  std::string name;  // Name of the namespace.
  v1::Kind kind = v1::KIND_UNSPECIFIED;
  v1::NamespaceOptions options;
  std::string cluster_uuid;
  std::uint64_t made_at_ms = 0;
  std::vector<v1::ImageFile> files;  // In the order of their partitions.
  // Unavailable partitions, in order; `files` has the rest.
  std::vector<std::uint32_t> missing;

  std::uint64_t bytes() const;
  std::size_t partitions() const { return files.size() + missing.size(); }
};

Json ToJson(const SnapshotManifest& manifest);

// Durable when this returns. Errors: as cluster_file::FileError.
Status WriteManifest(const std::string& folder, const SnapshotManifest& manifest);
// Errors: kNotFound (no snapshot, or an incomplete snapshot), kDataLoss (damaged), kUnimplemented
// (another format), and the errors of cluster_file::FileError.
Result<SnapshotManifest> ReadManifest(const std::string& folder);

}  // namespace tidepool::cli
