#include "proto/convert/login.h"

#include <chrono>
#include <vector>

#include "proto/cluster_file/job_token.h"
#include "proto/cluster_file/munge.h"
#include "proto/convert/grpc_channel.h"
#include "proto/convert/grpc_status.h"
#include "tidepool/v1/cluster.grpc.pb.h"

namespace tidepool::convert {
namespace {

// From the daemon at `control_address`.
Result<std::string> LogIn(const std::string& control_address, const ChannelSecurity& security,
                          const std::string& munge_socket, Deadline deadline) {
  auto channel = MakeChannel(control_address, security);
  if (!channel.ok()) return channel.status();
  auto credential = cluster_file::MakeCredential(control_address, munge_socket);
  if (!credential.ok()) return credential.status();
  v1::LoginRequest request;
  request.set_munge_credential(*std::move(credential));
  v1::LoginResponse response;
  grpc::ClientContext call;
  call.set_deadline(std::chrono::system_clock::now() +
                    std::chrono::milliseconds(deadline.LeftMs()));
  const auto stub = v1::Cluster::NewStub(*channel);
  const Status answered = FromGrpc(stub->Login(&call, request, &response), control_address);
  if (!answered.ok()) return answered;
  if (cluster_file::IsToken(response.job_token())) return response.job_token();
  return Status(StatusCode::kInternal, control_address + " gives no job token",
                "use the version of tidepool that the daemons run");
}

}  // namespace

Result<std::string> LogInAtAny(std::span<const std::string> control_addresses,
                               const ChannelSecurity& security, const std::string& munge_socket,
                               Deadline deadline) {
  Status refused(StatusCode::kUnavailable, "no node of the cluster is known");
  for (std::size_t i = 0; i < control_addresses.size() && !deadline.Passed(); ++i) {
    const std::uint64_t share_ms = deadline.LeftMs() / (control_addresses.size() - i);
    auto token = LogIn(control_addresses[i], security, munge_socket, Deadline::AfterMs(share_ms));
    // A refusal by one daemon is a refusal by all.
    const bool is_silent =
        token.code() == StatusCode::kUnavailable || token.code() == StatusCode::kDeadlineExceeded;
    if (token.ok() || !is_silent) return token;
    refused = token.status();
  }
  return refused;
}

Result<std::string> ObtainToken(const cluster_file::ClusterFile& file,
                                const ChannelSecurity& security, Deadline deadline) {
  if (!file.munge) return cluster_file::ReadTokenFile(file.token_file);
  std::vector<std::string> addresses;
  for (const auto& node : file.nodes) addresses.push_back(node.control_address);
  return LogInAtAny(addresses, security, cluster_file::MungeSocket(), deadline);
}

}  // namespace tidepool::convert
