#include "daemon/membership/identity.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "proto/base/limits.h"
#include "proto/base/log.h"
#include "proto/cluster_file/disk_reserve.h"
#include "proto/cluster_file/host_name.h"
#include "proto/cluster_file/random.h"

namespace tidepool::daemon {
namespace {

using Json = nlohmann::json;

constexpr int kFormat = 1;
constexpr std::size_t kFileBytesMax = 64 * 1024;
constexpr std::size_t kMarkBytes = 16;
// More than an original is started while its copy lies aside.
constexpr std::uint64_t kAdoptedStarts = 1'000'000;

std::string WordOf(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Whether a folder holds the identity `uuid`.
bool HoldsIdentity(const std::string& folder, const std::string& uuid) {
  const auto text = cluster_file::ReadSmallFile(folder + "/identity.json", kFileBytesMax);
  if (!text.ok()) return false;
  const Json json = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  return json.is_object() && WordOf(json, "uuid") == uuid;
}

}  // namespace

Result<Identity> Identity::Open(const std::string& folder, bool adopt) {
  TP_RETURN_IF_ERROR(cluster_file::MakeFolders(folder));
  Identity identity;
  identity.folder_ = folder;
  auto lock = cluster_file::LockFile(folder + "/lock");
  if (!lock.ok()) {
    if (lock.code() != StatusCode::kAborted) return lock.status();
    return Status(StatusCode::kAborted, "another daemon runs in the data folder '" + folder + "'",
                  "give each daemon a folder of its own (--data-dir)");
  }
  identity.lock_ = *std::move(lock);
  cluster_file::ReleaseReserve(folder);
  TP_RETURN_IF_ERROR(identity.FindPlace());
  auto text = cluster_file::ReadSmallFile(identity.path(), kFileBytesMax);
  if (text.ok()) {
    TP_RETURN_IF_ERROR(identity.Load(*text));
    TP_RETURN_IF_ERROR(identity.CheckOriginal(identity.before_, adopt));
    identity.NoteMove(identity.before_);
    if (!identity.moved_.empty()) {
      log::Info("the data folder of node " + identity.uuid_ + " was moved: " + identity.moved_);
    }
    if (adopt) identity.incarnation_ += kAdoptedStarts;
  } else if (text.code() == StatusCode::kNotFound) {
    identity.uuid_ = cluster_file::MakeUuid();
  } else {
    return text.status();
  }
  ++identity.incarnation_;
  if (identity.mark_.empty()) identity.mark_ = cluster_file::RandomHex(kMarkBytes);
  TP_RETURN_IF_ERROR(identity.Save());
  return identity;
}

Result<Identity> Identity::Examine(const std::string& folder) {
  Identity identity;
  identity.folder_ = folder;
  TP_RETURN_IF_ERROR(identity.FindPlace());
  auto text = cluster_file::ReadSmallFile(identity.path(), kFileBytesMax);
  if (!text.ok()) return text.status();
  TP_RETURN_IF_ERROR(identity.Load(*text));
  TP_RETURN_IF_ERROR(identity.CheckOriginal(identity.before_, /*adopt=*/false));
  identity.NoteMove(identity.before_);
  return identity;
}

Status Identity::FindPlace() {
  struct stat info {};
  if (stat(folder_.c_str(), &info) != 0) return cluster_file::FileError("use", folder_, errno);
  host_ = cluster_file::HostName();
  device_ = info.st_dev;
  inode_ = info.st_ino;
  const std::unique_ptr<char, decltype(&std::free)> real(realpath(folder_.c_str(), nullptr),
                                                         &std::free);
  real_path_ = real != nullptr ? real.get() : folder_;
  return OkStatus();
}

Result<Identity> Identity::OpenFirstFree(const std::string& parent) {
  const std::string stem = parent + "/" + cluster_file::HostName() + ".";
  for (std::uint32_t i = 0; i < limits::kNodesMax; ++i) {
    auto identity = Open(stem + std::to_string(i));
    // The last daemon of an earlier cluster may have removed the folder just now.
    if (identity.code() == StatusCode::kNotFound) identity = Open(stem + std::to_string(i));
    if (identity.ok() || identity.code() != StatusCode::kAborted) return identity;
  }
  return Status(
      StatusCode::kResourceExhausted,
      "all " + std::to_string(limits::kNodesMax) + " data folders '" + stem + "*' are taken",
      "end daemons that are not needed");
}

Status Identity::Load(const std::string& text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto number = [&json](const char* name) -> std::uint64_t {
    const auto found = json.find(name);
    return found != json.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
  };
  const auto word = [&json](const char* name) { return WordOf(json, name); };
  const bool is_sound = json.is_object() && number("format") == kFormat &&
                        cluster_file::IsUuid(word("uuid")) && number("incarnation") > 0;
  if (!is_sound) {
    return Status(StatusCode::kDataLoss, "the identity file '" + path() + "' is damaged",
                  "restore it, or remove it: the node then joins as a new one");
  }
  uuid_ = word("uuid");
  incarnation_ = number("incarnation");
  cluster_uuid_ = word("cluster_uuid");
  nvm_incarnation_ = number("nvm_incarnation");
  mark_ = word("mark");
  mark_before_ = word("mark_before");
  before_ = {word("host"), word("path"), number("device"), number("inode")};
  return OkStatus();
}

// Host name, device number and inode change when a disk is moved, a host renamed or a folder
// restored: they prove nothing. Two folders of one identity do: only the user knows which one
// counts.
Status Identity::CheckOriginal(const Place& before, bool adopt) const {
  if (before.path.empty() || before.path == real_path_) return OkStatus();
  struct stat info {};
  const bool is_there = stat(before.path.c_str(), &info) == 0;
  const bool is_this = is_there && info.st_dev == device_ && info.st_ino == inode_;
  if (!is_there || is_this || !HoldsIdentity(before.path, uuid_)) return OkStatus();
  const std::string what = "the data folder '" + folder_ + "' is a copy of that of node " + uuid_ +
                           " in '" + before.path + "'";
  // Whoever may not lock it learns nothing of a daemon there.
  if (cluster_file::LockFile(before.path + "/lock").code() == StatusCode::kAborted) {
    return Status(StatusCode::kFailedPrecondition, what + ", in which a daemon runs",
                  "use that daemon, or stop it first: kvctl stop");
  }
  if (adopt) return OkStatus();
  return Status(
      StatusCode::kFailedPrecondition, what + ", which is still there",
      "start with '" + before.path +
          "'; or, if this copy is to be the node from now on, give kvd --adopt (kvctl start ... -- "
          "--adopt)");
}

void Identity::NoteMove(const Place& before) {
  if (before.host == host_ && before.device == device_ && before.inode == inode_) return;
  const auto text = [](const Place& place) {
    return (place.path.empty() ? "" : "'" + place.path + "', ") + "host " + place.host +
           ", device " + std::to_string(place.device) + ", inode " + std::to_string(place.inode);
  };
  moved_ = text(before) + " -> " + text({host_, real_path_, device_, inode_});
}

Status Identity::Save() const {
  const Json json = {{"format", kFormat},
                     {"uuid", uuid_},
                     {"incarnation", incarnation_},
                     {"host", host_},
                     {"path", real_path_},
                     {"device", device_},
                     {"inode", inode_},
                     {"mark", is_joined_ ? std::string() : mark_},
                     {"mark_before", mark_before_},
                     {"cluster_uuid", cluster_uuid_},
                     {"nvm_incarnation", nvm_incarnation_}};
  return cluster_file::ReplaceFile(path(),
                                   json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

Status Identity::RememberDevices() {
  if (nvm_incarnation_ == incarnation_) return OkStatus();
  nvm_incarnation_ = incarnation_;
  return Save();
}

void Identity::Forget() {
  if (incarnation_ != 1 || nvm_incarnation_ != 0 || !cluster_uuid_.empty()) return;
  // The key for TLS is that of a cluster that has not begun.
  for (const char* const name : {"/tls", "/identity.json", "/lock"}) {
    unlink((folder_ + name).c_str());
  }
}

Status Identity::RememberCluster(const std::string& cluster_uuid) {
  if (cluster_uuid_ == cluster_uuid) return OkStatus();
  cluster_uuid_ = cluster_uuid;
  return Save();
}

// In the file the mark is used up, so the next start makes another. In memory it stays: a daemon
// asks again with it when the answer was lost.
Status Identity::RememberJoin(const std::string& cluster_uuid) {
  cluster_uuid_ = cluster_uuid;
  mark_before_ = mark_;
  is_joined_ = true;
  return Save();
}

}  // namespace tidepool::daemon
