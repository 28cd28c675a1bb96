#include "daemon/membership/identity.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "proto/base/limits.h"
#include "proto/cluster_file/host_name.h"
#include "proto/cluster_file/random.h"

namespace tidepool::daemon {
namespace {

using Json = nlohmann::json;

constexpr int kFormat = 1;
constexpr std::size_t kFileBytesMax = 64 * 1024;

}  // namespace

Result<Identity> Identity::Open(const std::string& folder) {
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
  struct stat info {};
  if (stat(folder.c_str(), &info) != 0) return cluster_file::FileError("use", folder, errno);
  identity.host_ = cluster_file::HostName();
  identity.device_ = info.st_dev;
  identity.inode_ = info.st_ino;
  auto text = cluster_file::ReadSmallFile(identity.path(), kFileBytesMax);
  if (text.ok()) {
    TP_RETURN_IF_ERROR(identity.Load(*text));
  } else if (text.code() == StatusCode::kNotFound) {
    identity.uuid_ = cluster_file::MakeUuid();
  } else {
    return text.status();
  }
  ++identity.incarnation_;
  TP_RETURN_IF_ERROR(identity.Save());
  return identity;
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
  const auto word = [&json](const char* name) -> std::string {
    const auto found = json.find(name);
    return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
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
  return CheckOriginal(word("host"), number("device"), number("inode"));
}

// A copied folder would give two nodes one identity; the original may well be alive elsewhere.
Status Identity::CheckOriginal(const std::string& host, std::uint64_t device,
                               std::uint64_t inode) const {
  if (host == host_ && device == device_ && inode == inode_) return OkStatus();
  const auto place = [](const std::string& h, std::uint64_t d, std::uint64_t i) {
    return "host " + h + ", device " + std::to_string(d) + ", inode " + std::to_string(i);
  };
  return Status(StatusCode::kFailedPrecondition,
                "the data folder '" + folder_ + "' is a copy of that of node " + uuid_ + " (" +
                    place(host, device, inode) + "; this one is " + place(host_, device_, inode_) +
                    ")",
                "use the original; or, if that is gone for good, remove '" + path() +
                    "' and join as a new node");
}

Status Identity::Save() const {
  const Json json = {{"format", kFormat},
                     {"uuid", uuid_},
                     {"incarnation", incarnation_},
                     {"host", host_},
                     {"device", device_},
                     {"inode", inode_},
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

}  // namespace tidepool::daemon
