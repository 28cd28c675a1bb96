#include "proto/convert/grpc_channel.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <chrono>

namespace tidepool::convert {
namespace {

// The host of "host:port", "[v6]:port" or "host".
std::string_view HostOf(std::string_view address) {
  if (!address.empty() && address.front() == '[') {
    const std::size_t end = address.find(']');
    return end == std::string_view::npos ? address : address.substr(1, end - 1);
  }
  const std::size_t colon = address.rfind(':');
  // Several colons and no brackets: an IPv6 address without a port.
  if (colon == std::string_view::npos || address.find(':') != colon) return address;
  return address.substr(0, colon);
}

bool HasPort(std::string_view address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == address.size()) return false;
  const std::string_view port = address.substr(colon + 1);
  if (port.size() > 5) return false;
  std::uint32_t number = 0;
  for (const char c : port) {
    if (c < '0' || c > '9') return false;
    number = number * 10 + static_cast<std::uint32_t>(c - '0');
  }
  return number >= 1 && number <= 65'535;
}

}  // namespace

bool IsLoopback(std::string_view address) {
  const std::string_view host = HostOf(address);
  if (host == "localhost" || host == "::1") return true;
  // All of it must look like an address: "127.evil.org" is a name.
  return host.substr(0, 4) == "127." &&
         host.find_first_not_of("0123456789.") == std::string_view::npos;
}

Result<std::shared_ptr<grpc::Channel>> MakeChannel(const std::string& address,
                                                   const ChannelSecurity& security) {
  if (!HasPort(address)) {
    return Status(StatusCode::kInvalidArgument, "'" + address + "' is not an address",
                  "write host:port");
  }
  const bool is_tls = !security.tls_ca.empty();
  if (!is_tls && !security.insecure && !IsLoopback(address)) {
    return Status(StatusCode::kFailedPrecondition,
                  "the job token is not sent to " + address + " over a connection without TLS",
                  "if the network between the nodes is trusted, give --insecure (kvd, kvctl), "
                  "TIDEPOOL_INSECURE=1 or ConnectOptions::insecure");
  }
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  // Time limit of a connection attempt, under gRPC's odd name.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 2000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetMaxReceiveMessageSize(kMessageBytesMax);
  arguments.SetMaxSendMessageSize(kMessageBytesMax);
  if (!is_tls) {
    return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  }
  if (!security.tls_name.empty()) arguments.SetSslTargetNameOverride(security.tls_name);
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = security.tls_ca;
  tls.pem_cert_chain = security.tls_cert;
  tls.pem_private_key = security.tls_key;
  return grpc::CreateCustomChannel(address, grpc::SslCredentials(tls), arguments);
}

void PrepareCall(grpc::ClientContext* context, Deadline deadline, const std::string& token) {
  const auto left = std::chrono::nanoseconds(deadline.LeftNs());
  context->set_deadline(std::chrono::system_clock::now() + left);
  context->AddMetadata("authorization", "Bearer " + token);
}

}  // namespace tidepool::convert
