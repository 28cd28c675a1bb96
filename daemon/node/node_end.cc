// The end of a node: what is lost with it, and the files that go with its cluster.
//
//   daemon/node/node -> [node_end] -> cluster_file/loss_record, cluster_file/published_file
#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "daemon/node/node.h"
#include "daemon/services/node_status.h"
#include "proto/base/log.h"
#include "proto/cluster_file/file_io.h"
#include "proto/cluster_file/loss_record.h"
#include "proto/convert/port_state.h"

namespace tidepool::daemon {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kAskPortMs = 1000;
// A starter that takes longer leaves the files to itself.
constexpr std::uint64_t kFilesLockMs = 2000;

constexpr const char* kIdentityName = "identity.json";
constexpr std::size_t kIdentityBytesMax = 64 * 1024;

// True if `folder` is the data folder of node `uuid`.
bool IsFolderOf(const fs::path& folder, const std::string& uuid) {
  const auto text = cluster_file::ReadSmallFile(folder / kIdentityName, kIdentityBytesMax);
  return text.ok() && text->find(uuid) != std::string::npos;
}

// Removes the data folder of a node that has ended. A daemon that runs there holds its lock.
void RemoveNodeFolder(const fs::path& folder) {
  std::error_code error;
  {
    const auto lock = cluster_file::LockFile(folder / "lock");
    if (lock.code() == StatusCode::kAborted) return;
    fs::remove_all(folder, error);
  }
  // NFS keeps an open file, and hence its folder, until it is closed.
  if (error) fs::remove(folder, error);
  if (error) log::Warn("the data folder '" + folder.string() + "' stays: " + error.message());
}

}  // namespace

std::vector<cluster_file::LostNamespace> Node::FindLosses() {
  const v1::CheckStopResponse found =
      admin_service_.FindLosses(/*cluster=*/false, Deadline::AfterMs(kNodeStatusTimeoutMs));
  std::vector<cluster_file::LostNamespace> lost;
  for (const auto& loss : found.losses()) {
    lost.push_back({loss.namespace_(), loss.records(), loss.bytes()});
  }
  return lost;
}

void Node::RecordLosses(const StopRequest& request, const std::string& reason) {
  if (request.loss_agreed) return;
  cluster_file::LossRecord record;
  record.lost = FindLosses();
  if (record.lost.empty()) return;
  record.reason = request.failure.ok() ? reason : std::string(request.failure.what());
  log::Error("this daemon ends by " + record.reason +
             " with data that was neither staged out nor durable; lost: " +
             cluster_file::LossText(record.lost));
  if (file_path_.empty()) return;
  record.cluster_uuid = state_.map.Get()->cluster_uuid;
  record.node_uuid = identity_->uuid();
  record.host = identity_->host();
  record.at_ms = Clock::Real().WallMs();
  const Status written = cluster_file::WriteLossRecord(file_path_, record);
  if (!written.ok()) log::Warn("kvctl cannot say what was lost: " + written.ToString());
}

bool Node::MayLive(const placement::Node& node) const {
  if (node.uuid == state_.uuid || node.state == placement::NodeState::kLeft) return false;
  const convert::PortState port = convert::AskPort(node.control_address, kAskPortMs);
  // The lease of a node that is down has ended, wherever its machine is.
  if (node.state == placement::NodeState::kDown) return port == convert::PortState::kOpen;
  return port != convert::PortState::kClosed;
}

// Each daemon closes its own port and then looks at the ports of the other nodes. The last daemon
// to close its port finds no port open.
bool Node::IsLast(const placement::PlacementMap& map, const std::string& cluster_uuid) const {
  if (std::any_of(map.nodes.begin(), map.nodes.end(),
                  [this](const placement::Node& node) { return MayLive(node); })) {
    return false;
  }
  // The file may name nodes that have joined since.
  const auto found = cluster_file::Examine(
      file_path_, "", [&](const cluster_file::ClusterFile&, const std::string& address) {
        const bool is_known = std::any_of(
            map.nodes.begin(), map.nodes.end(),
            [&](const placement::Node& node) { return node.control_address == address; });
        return !is_known && convert::AskPort(address, kAskPortMs) != convert::PortState::kClosed;
      });
  if (!found.ok() || found->finding == cluster_file::Finding::kLive) return false;
  return !found->file.has_value() || found->file->cluster_uuid == cluster_uuid;
}

void Node::RemoveFilesOfCluster() {
  published_.reset();  // With its lock on the connection file.
  const placement::PlacementMapPtr map = state_.map.Get();
  if (file_path_.empty() || map == nullptr) return;
  if (!IsLast(*map, map->cluster_uuid)) return;
  const auto lock = cluster_file::TakeStartLock(file_path_, kFilesLockMs);
  // In between another cluster may have begun.
  if (!lock.ok() || !IsLast(*map, map->cluster_uuid)) return;
  if (const auto file = cluster_file::Read(file_path_); file.ok()) {
    cluster_file::RemoveEnded(file_path_, *file);
    log::Info("this was the last daemon of its cluster: removed '" + file_path_ + "'");
  }
  // State in etcd outlives the nodes and knows them by their folders.
  if (!by_election()) RemoveNodeFolders(map->nodes.front().uuid);
  std::error_code ignored;
  fs::remove(file_path_ + ".lock", ignored);
}

// The state of a cluster goes with the coordinator's folder. If that lies elsewhere, by --data-dir
// or --nvm-dir, the state stays, and knows the other nodes by their folders.
void Node::RemoveNodeFolders(const std::string& coordinator_uuid) {
  const fs::path parent = cluster_file::DataFolderFor(file_path_);
  std::vector<fs::path> folders;
  std::error_code error;
  for (fs::directory_iterator entry(parent, error), end; !error && entry != end;
       entry.increment(error)) {
    // Logs and records of losses have no identity, and stay.
    std::error_code none;
    if (fs::exists(entry->path() / kIdentityName, none)) folders.push_back(entry->path());
  }
  const bool has_coordinator =
      std::any_of(folders.begin(), folders.end(),
                  [&](const fs::path& folder) { return IsFolderOf(folder, coordinator_uuid); });
  for (const fs::path& folder : folders) {
    const bool is_given = data_dir_given_ && folder == fs::path(identity_->folder());
    if (has_coordinator && !is_given) RemoveNodeFolder(folder);
  }
  fs::remove(parent, error);  // Only if nothing is left in it.
}

}  // namespace tidepool::daemon
