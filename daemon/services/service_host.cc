#include "daemon/services/service_host.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <utility>

#include "proto/base/log.h"
#include "proto/convert/grpc_channel.h"
#include "proto/convert/probe_cluster.h"

namespace tidepool::daemon {
namespace {

// Of calls that are in progress at once; more are refused with RESOURCE_EXHAUSTED instead of
// exhausting the machine. Waiting for maps needs none.
constexpr int kThreadsMax = 512;
// So that no client, however many calls it leaves open on its connection, takes them all. The next
// ones wait in the client for one of these to end, or for their deadline.
constexpr int kCallsPerConnectionMax = kThreadsMax / 2;
constexpr int kHandshakeMs = 10'000;

std::shared_ptr<grpc::ServerCredentials> CredentialsOf(const cluster_file::TlsIdentity* tls) {
  if (tls == nullptr) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options(
      tls->mutual ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                  : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  options.pem_root_certs = tls->ca;
  options.pem_key_cert_pairs.push_back({tls->key, tls->cert});
  return grpc::SslServerCredentials(options);
}

}  // namespace

Result<std::unique_ptr<ServiceHost>> ServiceHost::Start(
    const NetworkInterface& interface, std::uint32_t port, const cluster_file::TlsIdentity* tls,
    const Authenticator* authenticator, const GatedServices& services,
    std::vector<std::unique_ptr<grpc::Service>> more) {
  static const bool kPluginsOn = [] {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    return true;
  }();
  static_cast<void>(kPluginsOn);
  std::unique_ptr<ServiceHost> host(new ServiceHost());
  host->gates_ = MakeGates(authenticator, services);
  for (auto& gate : more) host->gates_.push_back(std::move(gate));

  TP_RETURN_IF_ERROR(ListenOn(interface.address, port, [&](std::uint32_t at) {
    return host->Listen(interface.address, at, CredentialsOf(tls), authenticator);
  }));
  host->SetHealth(false);
  return host;
}

Status ServiceHost::Listen(const std::string& address, std::uint32_t port,
                           const std::shared_ptr<grpc::ServerCredentials>& credentials,
                           const Authenticator* authenticator) {
  grpc::ServerBuilder builder;
  int bound_port = 0;
  builder.AddListeningPort(AddressWithPort(address, port), credentials, &bound_port);
  // Of strangers that connect and say nothing, 2 minutes by default.
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
  // With it a second daemon would share the port and take half of the first one's calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kCallsPerConnectionMax);
  builder.SetMaxReceiveMessageSize(convert::kMessageBytesMax);
  builder.SetMaxSendMessageSize(convert::kMessageBytesMax);
  grpc::ResourceQuota quota("kvd");
  quota.SetMaxThreads(kThreadsMax);
  builder.SetResourceQuota(quota);
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> guards;
  guards.push_back(MakeReflectionGuard(authenticator));
  builder.experimental().SetInterceptorCreators(std::move(guards));
  for (const auto& gate : gates_) builder.RegisterService(gate.get());
  listener_ = builder.BuildAndStart();
  address_ = AddressWithPort(address, static_cast<std::uint32_t>(bound_port));
  if (listener_ != nullptr && bound_port != 0) return OkStatus();
  return Status(StatusCode::kUnavailable, "cannot listen on " + AddressWithPort(address, port),
                "give another --port or --interface");
}

ServiceHost::~ServiceHost() { Stop(Deadline::AfterMs(0)); }

void ServiceHost::SetHealth(bool serving) {
  listener_->GetHealthCheckService()->SetServingStatus("", serving);
}

void ServiceHost::ShowCluster(const std::string& cluster_uuid) {
  listener_->GetHealthCheckService()->SetServingStatus(convert::HealthNameOf(cluster_uuid), true);
}

void ServiceHost::Stop(Deadline deadline) {
  if (listener_ == nullptr) return;
  listener_->Shutdown(std::chrono::system_clock::now() +
                      std::chrono::nanoseconds(deadline.LeftNs()));
  listener_->Wait();
  listener_.reset();
}

void RouteGrpcLog() {
  gpr_set_log_function(
      [](gpr_log_func_args* line) { log::Debug(std::string("grpc: ") + line->message); });
  // Parsing comes before the token's check, so whoever reaches the port could fill the log.
  google::protobuf::SetLogHandler(
      [](google::protobuf::LogLevel, const char*, int, const std::string& message) {
        log::Debug("protobuf: " + message);
      });
}

}  // namespace tidepool::daemon
