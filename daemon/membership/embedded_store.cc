#include "daemon/membership/embedded_store.h"

#include <unistd.h>

#include <cerrno>

#include "proto/cluster_file/file_io.h"

namespace tidepool::daemon {
namespace {

// 1,000 namespaces of 4,096 partitions.
constexpr std::size_t kFileStateBytesMax = 128 << 20;

}  // namespace

Result<std::optional<ClusterState>> EmbeddedStore::Load() {
  auto text = cluster_file::ReadSmallFile(path_, kFileStateBytesMax);
  if (text.code() == StatusCode::kNotFound) return std::optional<ClusterState>();
  if (!text.ok()) return text.status();
  auto state = DecodeState(*text, path_);
  if (!state.ok()) return state.status();
  saved_ = state->map.epoch;
  return std::optional<ClusterState>(*std::move(state));
}

Status EmbeddedStore::Save(const ClusterState& next, Epoch previous) {
  if (previous != saved_) {
    return Status(StatusCode::kAborted, "the cluster's state '" + path_ + "' has epoch " +
                                            std::to_string(saved_.value()) + ", not " +
                                            std::to_string(previous.value()));
  }
  TP_RETURN_IF_ERROR(cluster_file::ReplaceFile(path_, EncodeState(next)));
  saved_ = next.map.epoch;
  return OkStatus();
}

Status EmbeddedStore::Retire() {
  if (unlink(path_.c_str()) != 0 && errno != ENOENT) {
    return cluster_file::FileError("remove", path_, errno);
  }
  saved_ = Epoch(0);
  return cluster_file::SyncFolder(cluster_file::FolderOf(path_));
}

}  // namespace tidepool::daemon
