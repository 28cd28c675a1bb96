#include "daemon/membership/embedded_store.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "daemon/membership/state_change.h"
#include "proto/cluster_file/file_io.h"

namespace tidepool::daemon {
namespace {

// 1,000 namespaces of 4,096 partitions.
constexpr std::size_t kFileStateBytesMax = 128 << 20;
// Up to this, changes are appended however small the whole state is.
constexpr std::uint64_t kJournalBytesLeast = 256 << 10;

}  // namespace

Result<std::optional<ClusterState>> EmbeddedStore::Load() {
  auto text = cluster_file::ReadSmallFile(path_, kFileStateBytesMax);
  if (text.code() == StatusCode::kNotFound) return std::optional<ClusterState>();
  if (!text.ok()) return text.status();
  auto state = DecodeState(*text, path_);
  if (!state.ok()) return state.status();
  auto changes = journal_.Read();
  if (!changes.ok()) return changes.status();
  const auto whole = ApplyChanges(*changes, path_, &*state);
  if (!whole.ok()) return whole.status();
  journal_.SetEnd(*whole);
  whole_bytes_ = text->size();
  last_ = *state;
  saved_ = state->map.epoch;
  return std::optional<ClusterState>(*std::move(state));
}

bool EmbeddedStore::MustSaveWhole(const ClusterState& next) const {
  return whole_bytes_ == 0 || journal_.broken() ||
         journal_.bytes() > std::max(kJournalBytesLeast, whole_bytes_) ||
         next.map.cluster_uuid != last_.map.cluster_uuid ||
         next.map.nodes_expected != last_.map.nodes_expected ||
         next.nodes.size() < last_.nodes.size();
}

Status EmbeddedStore::SaveWhole(const ClusterState& next) {
  const std::string text = EncodeState(next);
  whole_bytes_ = 0;  // Until it is known what is there.
  // Changes of an ended cluster, which a crash has left, are no changes of a new one.
  if (saved_ == Epoch(0)) TP_RETURN_IF_ERROR(journal_.Clear());
  TP_RETURN_IF_ERROR(cluster_file::ReplaceFile(path_, text));
  // Changes of earlier epochs are skipped, so a crash in between does no harm.
  TP_RETURN_IF_ERROR(journal_.Clear());
  whole_bytes_ = text.size();
  return OkStatus();
}

Status EmbeddedStore::Save(const ClusterState& next, Epoch previous) {
  if (previous != saved_) {
    return Status(StatusCode::kAborted, "the cluster's state '" + path_ + "' has epoch " +
                                            std::to_string(saved_.value()) + ", not " +
                                            std::to_string(previous.value()));
  }
  TP_RETURN_IF_ERROR(MustSaveWhole(next) ? SaveWhole(next)
                                         : journal_.Append(EncodeChange(last_, next)));
  last_ = next;
  saved_ = next.map.epoch;
  return OkStatus();
}

Status EmbeddedStore::Retire() {
  if (unlink(path_.c_str()) != 0 && errno != ENOENT) {
    return cluster_file::FileError("remove", path_, errno);
  }
  saved_ = Epoch(0);
  last_ = ClusterState();
  whole_bytes_ = 0;
  TP_RETURN_IF_ERROR(journal_.Clear());
  return cluster_file::SyncFolder(cluster_file::FolderOf(path_));
}

}  // namespace tidepool::daemon
