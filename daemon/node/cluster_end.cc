#include "daemon/node/cluster_end.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "proto/base/log.h"
#include "proto/cluster_file/file_io.h"
#include "proto/cluster_file/published_file.h"
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

bool MayLive(const placement::Node& node, const std::string& own_uuid) {
  if (node.uuid == own_uuid || node.state == placement::NodeState::kLeft) return false;
  const convert::PortState port = convert::AskPort(node.control_address, kAskPortMs);
  // The lease of a node that is down has ended, wherever its machine is.
  if (node.state == placement::NodeState::kDown) return port == convert::PortState::kOpen;
  return port != convert::PortState::kClosed;
}

bool IsLast(const placement::PlacementMap& map, const ClusterEnd& end) {
  if (std::any_of(map.nodes.begin(), map.nodes.end(),
                  [&end](const placement::Node& node) { return MayLive(node, end.node_uuid); })) {
    return false;
  }
  // The file may name nodes that have joined since.
  const auto found = cluster_file::Examine(
      end.file_path, "", [&](const cluster_file::ClusterFile&, const std::string& address) {
        const bool is_known = std::any_of(
            map.nodes.begin(), map.nodes.end(),
            [&](const placement::Node& node) { return node.control_address == address; });
        return !is_known && convert::AskPort(address, kAskPortMs) != convert::PortState::kClosed;
      });
  if (!found.ok() || found->finding == cluster_file::Finding::kLive) return false;
  return !found->file.has_value() || found->file->cluster_uuid == map.cluster_uuid;
}

// The state of a cluster goes with the coordinator's folder. If that lies elsewhere, by --data-dir
// or --nvm-dir, the state stays, and knows the other nodes by their folders.
void RemoveNodeFolders(const std::string& coordinator_uuid, const ClusterEnd& end) {
  const fs::path parent = cluster_file::DataFolderFor(end.file_path);
  std::vector<fs::path> folders;
  std::error_code error;
  for (fs::directory_iterator entry(parent, error), last; !error && entry != last;
       entry.increment(error)) {
    // Logs and records of losses have no identity, and stay.
    std::error_code none;
    if (fs::exists(entry->path() / kIdentityName, none)) folders.push_back(entry->path());
  }
  const bool has_coordinator =
      std::any_of(folders.begin(), folders.end(),
                  [&](const fs::path& folder) { return IsFolderOf(folder, coordinator_uuid); });
  for (const fs::path& folder : folders) {
    const bool is_given = !end.given_folder.empty() && folder == fs::path(end.given_folder);
    if (has_coordinator && !is_given) RemoveNodeFolder(folder);
  }
  fs::remove(parent, error);  // Only if nothing is left in it.
}

}  // namespace

void RemoveFilesOfCluster(const placement::PlacementMap& map, const ClusterEnd& end) {
  if (end.file_path.empty() || !IsLast(map, end)) return;
  const auto lock = cluster_file::TakeStartLock(end.file_path, kFilesLockMs);
  // In between another cluster may have begun.
  if (!lock.ok() || !IsLast(map, end)) return;
  if (const auto file = cluster_file::Read(end.file_path); file.ok()) {
    cluster_file::RemoveEnded(end.file_path, *file);
    log::Info("this was the last daemon of its cluster: removed '" + end.file_path + "'");
  }
  if (!end.keep_folders) RemoveNodeFolders(map.nodes.front().uuid, end);
  std::error_code ignored;
  fs::remove(end.file_path + ".lock", ignored);
}

}  // namespace tidepool::daemon
