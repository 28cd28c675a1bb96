// Chooses the TLS identity of a node's gRPC port before the node listens.
//
//   own certificates (--tls-cert) > certificates of the cluster that is joined or came back > new
//   certificates
#include <unistd.h>

#include <utility>

#include "daemon/node/bootstrap.h"

namespace tidepool::daemon {
namespace {

using cluster_file::TlsIdentity;

Status RefuseSecurity(const std::string& what, const std::string& remedy) {
  return Status(StatusCode::kFailedPrecondition, what, remedy);
}

constexpr const char* kOwnRemedy =
    "give this daemon a certificate of the same authority: --tls-cert, --tls-key, --tls-ca";

// Returns the TLS identity of the cluster to join, by `options` and `file`. No value: it serves
// without TLS.
Result<std::optional<TlsIdentity>> TlsToJoin(const Options& options,
                                             const std::optional<cluster_file::ClusterFile>& file) {
  std::string path = options.tls_file;
  if (file.has_value()) {
    if (file->tls.mutual) {
      return RefuseSecurity(
          "the daemons of cluster " + file->cluster_uuid + " have their own certificates",
          kOwnRemedy);
    }
    path = file->tls.file;
  }
  if (path.empty()) return std::optional<TlsIdentity>();
  auto read = cluster_file::ReadTlsFile(path);
  if (!read.ok()) return read.status();
  return std::optional<TlsIdentity>(*std::move(read));
}

}  // namespace

Result<std::optional<TlsIdentity>> Bootstrap::ChooseTls() const {
  const bool own = !options_.tls_cert.empty();
  if (own && part_.file.has_value() && !part_.file->tls.mutual) {
    return RefuseSecurity("cluster " + part_.file->cluster_uuid + " was not begun with --tls-cert",
                          "start this daemon without it, too, or the cluster anew with it");
  }
  if (own) {
    auto read = cluster_file::ReadOwnCertificates(options_.tls_cert, options_.tls_key,
                                                  options_.tls_ca, options_.tls_name);
    if (!read.ok()) return read.status();
    return std::optional<TlsIdentity>(*std::move(read));
  }
  const bool is_told = part_.file.has_value() || !options_.join.empty();
  if (part_.kind != Part::Kind::kFirst && is_told) return TlsToJoin(options_, part_.file);
  // A returning coordinator must keep the identity that its members know.
  const std::string kept = identity_->folder() + "/tls";
  if (part_.kind != Part::Kind::kFirst) {
    auto read = cluster_file::ReadTlsFile(kept);
    if (read.ok()) return std::optional<TlsIdentity>(*std::move(read));
    if (read.code() != StatusCode::kNotFound) return read.status();
    return std::optional<TlsIdentity>();
  }
  unlink(kept.c_str());
  const bool wanted = options_.tls || (!interface_.is_loopback && !options_.insecure);
  if (!wanted) return std::optional<TlsIdentity>();
  auto made = cluster_file::MakeTlsIdentity();
  if (!made.ok()) return made.status();
  TP_RETURN_IF_ERROR(cluster_file::WriteTlsFile(kept, *made));
  return std::optional<TlsIdentity>(*std::move(made));
}

Status Bootstrap::ChooseSecurity() {
  auto chosen = ChooseTls();
  if (!chosen.ok()) return chosen.status();
  tls_ = *std::move(chosen);
  if (!tls_.has_value() && !interface_.is_loopback && !options_.insecure) {
    const bool by_address = part_.kind == Part::Kind::kJoin && !part_.file.has_value();
    return RefuseSecurity(
        "listening on " + interface_.name + " (" + interface_.address + ") needs TLS, " +
            (by_address ? "and --join alone does not bring it" : "which this cluster has not"),
        by_address ? "give a copy of the first node's TLS file, which lies beside its connection "
                     "file, with --tls-file; or --insecure if the network between the nodes is "
                     "trusted"
                   : "give --insecure if the network between the nodes is trusted, or start the "
                     "cluster anew without it");
  }
  security_ = tls_.has_value() ? cluster_file::SecurityOf(*tls_) : ChannelSecurity();
  security_.insecure = options_.insecure;
  return OkStatus();
}

}  // namespace tidepool::daemon
