#include "daemon/node/bootstrap.h"

#include <unistd.h>

#include <utility>

#include "daemon/membership/embedded_store.h"
#include "daemon/node/node_volume.h"
#include "proto/base/check.h"
#include "proto/cluster_file/file_io.h"
#include "proto/cluster_file/job_token.h"
#include "proto/convert/grpc_channel.h"
#include "proto/convert/probe_cluster.h"

namespace tidepool::daemon {
namespace {

// Gives a folder name for "10.0.0.7:4410".
std::string FolderNameOf(std::string address) {
  for (char& c : address) {
    const bool is_plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                          (c >= 'A' && c <= 'Z') || c == '.' || c == '-';
    if (!is_plain) c = '_';
  }
  return "join-" + address;
}

std::uint32_t PortOf(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos || address.size() - colon > 6) return 0;
  std::uint32_t port = 0;
  for (const char c : address.substr(colon + 1)) {
    if (c < '0' || c > '9') return 0;
    port = port * 10 + static_cast<std::uint32_t>(c - '0');
  }
  return port <= 65'535 ? port : 0;
}

}  // namespace

Bootstrap::Bootstrap(const Options& options, StopSignal* stop, Lease* lease,
                     cluster_file::Environment environment)
    : options_(options), stop_(*stop), lease_(*lease), environment_(std::move(environment)) {}

Status Bootstrap::OpenIdentity() {
  TP_CHECK(!identity_.has_value());  // Once: the lock on the folder is held.
  const bool has_file = options_.join.empty() || !options_.cluster.empty();
  std::string folder = options_.data_dir;
  if (folder.empty()) {
    auto first = FirstNvmDirectory(options_);
    if (!first.ok()) return first.status();
    folder = *std::move(first);
  }
  data_dir_given_ = !folder.empty();
  if (has_file) {
    auto path = cluster_file::PathForDaemon(options_.cluster, environment_);
    if (!path.ok()) return path.status();
    file_path_ = *std::move(path);
    // Before anything is made beside it.
    TP_RETURN_IF_ERROR(cluster_file::CheckFolderOf(file_path_, "write the connection file"));
    if (folder.empty()) folder = cluster_file::DataFolderFor(file_path_);
  } else if (folder.empty()) {
    auto path = cluster_file::UserServicePath(environment_, /*make_folder=*/true);
    if (!path.ok()) return path.status();
    folder = cluster_file::FolderOf(*path) + "/" + FolderNameOf(options_.join);
  }
  auto identity =
      data_dir_given_ ? Identity::Open(folder, options_.adopt) : Identity::OpenFirstFree(folder);
  if (!identity.ok()) {
    return Status(identity.code(), "data folder: " + std::string(identity.status().what()),
                  identity.status().remedy().empty()
                      ? "name a folder on a local disk with --data-dir"
                      : std::string(identity.status().remedy()));
  }
  identity_ = *std::move(identity);
  return by_election() ? OpenEtcd() : OkStatus();
}

Status Bootstrap::OpenDevices() {
  TP_CHECK(identity_.has_value() && volume_ == nullptr);
  auto volume = OpenVolume(options_, &*identity_);
  if (!volume.ok()) return volume.status();
  volume_ = *std::move(volume);
  if (volume_ == nullptr) return OkStatus();
  auto catalog = NodeCatalog::Open(volume_.get());
  if (!catalog.ok()) return catalog.status();
  catalog_ = *std::move(catalog);
  return OkStatus();
}

Status Bootstrap::DecideByFile() {
  // A coordinator that lost the race for the file has taken the store, and emptied it.
  if (store_ == nullptr) store_ = std::make_unique<EmbeddedStore>(identity_->folder());
  auto saved = store_->Load();
  if (!saved.ok()) return saved.status();
  state_uuid_ = saved->has_value() ? (*saved)->map.cluster_uuid : "";
  nodes_of_state_ = saved->has_value() ? (*saved)->map.nodes_expected : 0;
  FoundingContext context;
  context.path = file_path_;
  context.state_uuid = state_uuid_;
  context.options = &options_;
  context.identity = &*identity_;
  context.environment = environment_;
  context.probe = convert::ProbeCluster;
  context.keeps_durable = catalog_.has_value() && !catalog_->found().empty();
  context.stopped = [this] { return stop_.requested(); };
  auto part = DecidePart(context);
  if (!part.ok()) return part.status();
  part_ = *std::move(part);
  return OkStatus();
}

Status Bootstrap::Decide() {
  TP_CHECK(identity_.has_value());
  std::uint32_t nodes = options_.nodes;
  if (by_election()) {
    TP_RETURN_IF_ERROR(DecideByElection());
  } else {
    TP_RETURN_IF_ERROR(DecideByFile());
  }
  TP_CHECK(part_.kind == Part::Kind::kJoin || store_ != nullptr);  // Invariant 3.
  if (part_.file.has_value()) nodes = part_.file->nodes_expected;
  if (nodes_of_state_ != 0) nodes = nodes_of_state_;
  const bool is_alone = options_.join.empty() ? nodes == 1 : convert::IsLoopback(options_.join);
  auto interface = ChooseInterface(options_.interface, is_alone);
  if (!interface.ok()) return interface.status();
  interface_ = *std::move(interface);
  TP_RETURN_IF_ERROR(ChooseSecurity());
  TP_CHECK(tls_.has_value() || interface_.is_loopback || options_.insecure);  // Invariant 4.
  return OkStatus();
}

void Bootstrap::GiveUp() {
  if (!identity_.has_value()) return;
  identity_->Forget();
  // Folders that this start has made, unless they hold more.
  if (!data_dir_given_ && rmdir(identity_->folder().c_str()) == 0) {
    rmdir(cluster_file::FolderOf(identity_->folder()).c_str());
  }
}

// A coordinator that comes back must have the token that its members know.
Result<std::string> Bootstrap::TokenOfCluster() const {
  TP_CHECK(part_.kind != Part::Kind::kJoin);
  const std::string path = identity_->folder() + "/token";
  if (part_.kind == Part::Kind::kReturn) {
    if (part_.file.has_value() && !part_.file->token_file.empty()) {
      return cluster_file::ReadTokenFile(part_.file->token_file);
    }
    auto token = cluster_file::ReadTokenFile(path);
    if (token.ok() || token.code() != StatusCode::kNotFound) return token;
  }
  std::string token = cluster_file::MakeToken();
  TP_RETURN_IF_ERROR(cluster_file::WriteTokenFile(path, token));
  return token;
}

// Nodes that joined by address alone find their coordinator at its former port.
std::uint32_t Bootstrap::PortToReturnTo() {
  if (part_.kind != Part::Kind::kReturn || by_election()) return 0;
  auto saved = store_->Load();
  std::uint32_t port = 0;
  if (saved.ok() && saved->has_value() && !(*saved)->map.nodes.empty()) {
    port = PortOf((*saved)->map.nodes.front().control_address);
  }
  return port;
}

Status Bootstrap::KeepSecrets(const std::string& token) const {
  TP_RETURN_IF_ERROR(cluster_file::WriteTokenFile(identity_->folder() + "/token", token));
  if (!tls_.has_value() || tls_->mutual) return OkStatus();
  return cluster_file::WriteTlsFile(identity_->folder() + "/tls", *tls_);
}

}  // namespace tidepool::daemon
