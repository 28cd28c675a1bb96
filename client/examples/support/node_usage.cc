#include "client/examples/support/node_usage.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tidepool/v1/cluster.grpc.pb.h"

namespace support {
namespace {

using tidepool::Result;
using tidepool::Status;
using tidepool::StatusCode;

// The job token: its file is named by the connection file, beside which it lies.
Result<std::string> ReadToken(const nlohmann::json& json, const std::string& cluster_file) {
  const std::string name =
      json.is_object() ? json.value("token_file", std::string()) : std::string();
  std::ifstream file(std::filesystem::path(cluster_file).parent_path() / name);
  std::string token;
  if (name.empty() || !(file >> token)) {
    return Status(StatusCode::kNotFound, "cannot read the job token of " + cluster_file);
  }
  return token;
}

}  // namespace

Result<NodeUsage> UsageOf(const tidepool::Client& client) {
  const tidepool::ClientDescription cluster = client.Describe();
  std::ifstream stream(cluster.cluster_file);
  const auto file = nlohmann::json::parse(stream, nullptr, false);
  const Result<std::string> token = ReadToken(file, cluster.cluster_file);
  if (!token.ok()) return token.status();
  grpc::ChannelArguments arguments;
  auto credentials = grpc::InsecureChannelCredentials();
  if (file.contains("tls")) {
    grpc::SslCredentialsOptions tls;
    tls.pem_root_certs = file["tls"].value("ca", "");
    credentials = grpc::SslCredentials(tls);
    arguments.SetSslTargetNameOverride(file["tls"].value("name", ""));
  }
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // A site's proxy is not meant for the cluster.
  NodeUsage usage;
  for (const tidepool::NodeInfo& node : cluster.nodes) {
    if (node.state != "up") continue;
    const auto channel = grpc::CreateCustomChannel(node.control_address, credentials, arguments);
    grpc::ClientContext call;
    call.AddMetadata("authorization", "Bearer " + *token);
    call.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    tidepool::v1::NodeStatusResponse status;
    const grpc::Status done =
        tidepool::v1::Cluster::NewStub(channel)->NodeStatus(&call, {}, &status);
    if (!done.ok()) {
      return Status(StatusCode::kUnavailable,
                    "node " + std::to_string(node.id) + ": " + done.error_message());
    }
    usage.memory_bytes += status.memory().used_bytes();
    for (const auto& device : status.devices()) usage.device_bytes += device.used_bytes();
    usage.read_bytes += status.spill().read_bytes();
  }
  return usage;
}

}  // namespace support
