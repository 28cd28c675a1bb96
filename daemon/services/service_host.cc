#include "daemon/services/service_host.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "daemon/control/thread_limits.h"
#include "proto/base/log.h"
#include "proto/convert/grpc_channel.h"
#include "proto/convert/probe_cluster.h"

namespace tidepool::daemon {
namespace {

// Bound on calls in progress. Further calls are refused with RESOURCE_EXHAUSTED, so that the
// machine is not exhausted. Calls that wait for maps need no thread.
constexpr int kThreadsMax = 512;
// Bound per connection, so that no client takes all threads with open calls. Further calls wait in
// the client until a call ends, or until their deadline.
constexpr int kCallsPerConnectionMax = kThreadsMax / 2;
constexpr int kHandshakeMs = 10'000;
constexpr int kHeaderBytesMax = 16 * 1024;

// Returns the bound on messages in gRPC's buffers; beyond it gRPC ends calls. The least is two of
// the largest messages.
std::uint64_t BufferBytesMax(std::uint64_t memory_bytes) {
  return std::clamp<std::uint64_t>(memory_bytes / 16, 2ull * convert::kMessageBytesMax, 1ull << 30);
}

}  // namespace

Result<std::unique_ptr<ServiceHost>> ServiceHost::Start(
    const NetworkInterface& interface, std::uint32_t port, const cluster_file::TlsIdentity* tls,
    std::uint64_t memory_bytes, Authenticator* authenticator, const GatedServices& services,
    std::vector<std::unique_ptr<grpc::Service>> more) {
  static const bool kPluginsOn = [] {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    return true;
  }();
  static_cast<void>(kPluginsOn);
  std::unique_ptr<ServiceHost> host(new ServiceHost(authenticator));
  host->gates_ = MakeGates(authenticator, services);
  for (auto& gate : more) host->gates_.push_back(std::move(gate));

  TP_RETURN_IF_ERROR(ListenOn(interface.address, port, [&](std::uint32_t at) {
    return host->Listen(interface.address, at, tls, memory_bytes);
  }));
  host->SetHealth(false);
  return host;
}

Status ServiceHost::Listen(const std::string& address, std::uint32_t port,
                           const cluster_file::TlsIdentity* tls, std::uint64_t memory_bytes) {
  std::uint32_t bound_port = 0;
  auto listener = OpenListener(address, port, &bound_port);
  if (!listener.ok()) return listener.status();
  grpc::ServerBuilder builder;
  const std::shared_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor =
      builder.experimental().AddExternalConnectionAcceptor(
          grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
          FilteredCredentials(tls, &filter_));
  // Time for strangers that connect and stay silent; gRPC's default is 2 minutes.
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kCallsPerConnectionMax);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kHeaderBytesMax);
  builder.SetMaxReceiveMessageSize(convert::kMessageBytesMax);
  builder.SetMaxSendMessageSize(convert::kMessageBytesMax);
  grpc::ResourceQuota quota("kvd");
  quota.SetMaxThreads(CallThreadsMax(kThreadsMax, memory_bytes));
  quota.Resize(BufferBytesMax(memory_bytes));
  builder.SetResourceQuota(quota);
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> guards;
  guards.push_back(MakeReflectionGuard(&authenticator_));
  builder.experimental().SetInterceptorCreators(std::move(guards));
  for (const auto& gate : gates_) builder.RegisterService(gate.get());
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) {
    return Status(StatusCode::kUnavailable, "cannot listen on " + AddressWithPort(address, port),
                  "give another --port or --interface");
  }
  auto guard = ConnectionGuard::Start(*std::move(listener), [acceptor](int from, int connection) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
    parameters.listener_fd = from;
    parameters.fd = connection;
    acceptor->HandleNewConnection(&parameters);
  });
  if (!guard.ok()) return guard.status();
  guard_ = *std::move(guard);
  filter_.set_guard(guard_.get());
  authenticator_.Observe(guard_.get());
  address_ = AddressWithPort(address, bound_port);
  return OkStatus();
}

ServiceHost::~ServiceHost() { Stop(Deadline::AfterMs(0)); }

void ServiceHost::SetHealth(bool serving) {
  server_->GetHealthCheckService()->SetServingStatus("", serving);
}

void ServiceHost::ShowCluster(const std::string& cluster_uuid) {
  server_->GetHealthCheckService()->SetServingStatus(convert::HealthNameOf(cluster_uuid), true);
}

void ServiceHost::Stop(Deadline deadline) {
  if (server_ == nullptr) return;
  // First the listener: gRPC drops connections that come later without closing them.
  if (guard_ != nullptr) guard_->Close();
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::nanoseconds(deadline.LeftNs()));
  server_->Wait();
  // No call is left that would notify the guard.
  server_.reset();
  authenticator_.Observe(nullptr);
  filter_.set_guard(nullptr);
  guard_.reset();
}

void RouteGrpcLog() {
  gpr_set_log_function(
      [](gpr_log_func_args* line) { log::Debug(std::string("grpc: ") + line->message); });
  // Parsing comes before the token's check, so any process that reaches the port could fill the
  // log.
  google::protobuf::SetLogHandler(
      [](google::protobuf::LogLevel, const char*, int, const std::string& message) {
        log::Debug("protobuf: " + message);
      });
}

}  // namespace tidepool::daemon
