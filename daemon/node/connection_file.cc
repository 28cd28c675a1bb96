#include "daemon/node/connection_file.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "proto/base/check.h"
#include "proto/base/log.h"
#include "proto/cluster_file/job_token.h"

namespace tidepool::daemon {

ConnectionFile::ConnectionFile(ConnectionFileOptions options, const Clock& clock)
    : options_(std::move(options)), clock_(clock) {}

cluster_file::ClusterFile ConnectionFile::MakeContent(const placement::PlacementMap& map) const {
  cluster_file::ClusterFile file;
  file.cluster_uuid = map.cluster_uuid;
  file.job_id = options_.job_id;
  file.nodes_expected = map.nodes_expected;
  // The writer of the file is the coordinator.
  const auto self =
      std::find_if(map.nodes.begin(), map.nodes.end(),
                   [this](const placement::Node& node) { return node.uuid == options_.node_uuid; });
  file.coordinator = self == map.nodes.end() ? 0 : self->id.value();
  file.token_file = token_file_;
  file.munge = options_.munge;
  file.insecure = options_.insecure && !tls_.has_value();
  if (tls_.has_value()) file.tls = {tls_->ca, tls_->name, tls_file_, tls_->mutual};
  for (const placement::Node& node : map.nodes) {
    file.nodes.push_back({node.uuid, node.control_address, node.host});
  }
  return file;
}

Status ConnectionFile::WriteSecrets(const std::string& cluster_uuid) {
  if (options_.path.empty()) return OkStatus();
  if (!options_.munge) {
    TP_CHECK(!token_.empty());  // SetToken comes first.
    token_file_ = cluster_file::TokenPathFor(options_.path, cluster_uuid);
    TP_RETURN_IF_ERROR(cluster_file::WriteTokenFile(token_file_, token_));
  }
  if (tls_.has_value() && !tls_->mutual) {
    tls_file_ = cluster_file::TlsPathFor(options_.path, cluster_uuid);
    TP_RETURN_IF_ERROR(cluster_file::WriteTlsFile(tls_file_, *tls_));
  }
  return OkStatus();
}

void ConnectionFile::RemoveSecrets() const {
  TP_CHECK(!published_.has_value());  // The file may name them.
  if (!token_file_.empty()) unlink(token_file_.c_str());
  if (!tls_file_.empty()) unlink(tls_file_.c_str());
}

// With etcd a coordinator may have joined by address alone, and then has no path.
Status ConnectionFile::Publish(const placement::PlacementMap& map, bool is_new) {
  if (options_.path.empty()) return OkStatus();
  const cluster_file::ClusterFile file = MakeContent(map);
  auto published = is_new ? cluster_file::PublishedFile::Create(options_.path, file)
                          : cluster_file::PublishedFile::Adopt(options_.path, file);
  if (!published.ok()) return published.status();
  published_ = *std::move(published);
  return OkStatus();
}

bool ConnectionFile::IsForming() const {
  return published_.has_value() &&
         published_->content().nodes.size() < published_->content().nodes_expected;
}

// A former coordinator that was paused may write the file again, once, when it wakes up.
bool ConnectionFile::MustLook() {
  if (!options_.by_election) return false;
  const std::uint64_t now_ns = clock_.MonotonicNs();
  if (now_ns - looked_ns_ < options_.look_ms * 1'000'000ull) return false;
  looked_ns_ = now_ns;
  return true;
}

// A file that was cut off or written over hides a live cluster.
bool ConnectionFile::IsDamaged() const {
  return published_.has_value() &&
         cluster_file::Read(options_.path).code() == StatusCode::kInvalidArgument;
}

Status ConnectionFile::Write(const placement::PlacementMap& map,
                             const cluster_file::ClusterFile& content) {
  if (!published_.has_value()) return Publish(map, /*is_new=*/false);
  const auto standing = cluster_file::Read(options_.path);
  if (options_.by_election && standing.code() == StatusCode::kNotFound) {
    // A former coordinator that was paused while the other nodes left has removed it.
    TP_RETURN_IF_ERROR(WriteSecrets(map.cluster_uuid));
    return Publish(map, /*is_new=*/false);
  }
  if (standing.ok() && *standing == content) return OkStatus();
  return published_->Update(content);
}

void ConnectionFile::Follow(const placement::PlacementMap& map) {
  if (options_.path.empty()) return;
  const bool is_damaged = IsDamaged();
  if (is_damaged) {
    log::Warn("the connection file '" + options_.path + "' is damaged: written again");
  }
  if (map.epoch == followed_ && !MustLook() && !is_damaged) return;
  followed_ = map.epoch;
  const cluster_file::ClusterFile content = MakeContent(map);
  const bool is_same = published_.has_value() && content == published_->content();
  if (is_same && !options_.by_election && !is_damaged) return;
  const Status written = Write(map, content);
  if (!written.ok()) log::Error("the connection file is out of date: " + written.ToString());
}

void ConnectionFile::Remove() {
  if (published_.has_value()) published_->Remove();
}

}  // namespace tidepool::daemon
