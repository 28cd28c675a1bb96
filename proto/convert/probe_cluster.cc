#include "proto/convert/probe_cluster.h"

#include <grpcpp/generic/generic_stub.h>

#include <chrono>

#include "proto/cluster_file/tls_identity.h"
#include "proto/convert/grpc_channel.h"

namespace tidepool::convert {
namespace {

constexpr std::uint64_t kProbeMs = 1000;

}  // namespace

std::string HealthNameOf(const std::string& cluster_uuid) {
  return "tidepool.cluster." + cluster_uuid;
}

bool ProbeCluster(const cluster_file::ClusterFile& file, const std::string& control_address) {
  // Sends no token, and therefore may leave the machine; the answer is only yes or no.
  auto security = cluster_file::SecurityOf(file, /*insecure=*/true);
  if (!security.ok()) return true;
  auto channel = MakeChannel(control_address, *security);
  if (!channel.ok()) return false;
  // HealthCheckRequest{service = 1: name} and HealthCheckResponse{status = 1: SERVING = 1}, by
  // hand: gRPC installs no stub of its own health service.
  const std::string name = HealthNameOf(file.cluster_uuid);
  const std::string request = std::string("\x0a") + static_cast<char>(name.size()) + name;
  const grpc::Slice slice(request);
  grpc::ByteBuffer message(&slice, 1);
  grpc::ByteBuffer answer;
  grpc::ClientContext call;
  call.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(kProbeMs));
  grpc::CompletionQueue queue;
  grpc::GenericStub stub(*channel);
  auto reader = stub.PrepareUnaryCall(&call, "/grpc.health.v1.Health/Check", message, &queue);
  reader->StartCall();
  grpc::Status status;
  reader->Finish(&answer, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
  grpc::Slice content;
  return status.ok() && answer.DumpToSingleSlice(&content).ok() && content.size() == 2 &&
         content.begin()[0] == 0x08 && content.begin()[1] == 1;
}

}  // namespace tidepool::convert
