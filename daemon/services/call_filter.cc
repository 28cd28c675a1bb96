#include "daemon/services/call_filter.h"

#include <grpc/grpc_security.h>
#include <grpc/slice.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/services/connection_guard.h"
#include "proto/base/clock.h"

namespace tidepool::daemon {
namespace {

constexpr std::uint64_t kTurnsMax = 64;
constexpr std::uint64_t kTurnNs = 1'000'000'000 / 32;
constexpr std::string_view kTokenHeader = "authorization";
constexpr std::string_view kOurServices = "/tidepool.";

std::string_view TextOf(const grpc_slice& slice) {
  return {reinterpret_cast<const char*>(GRPC_SLICE_START_PTR(slice)), GRPC_SLICE_LENGTH(slice)};
}

// Called by gRPC with a call's headers, on the thread that has read them.
void FilterCall(void* filter, grpc_auth_context*, const grpc_metadata* headers, std::size_t count,
                grpc_process_auth_metadata_done_cb done, void* user_data) {
  std::string_view authorization;
  bool is_ours = false;
  int found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string_view name = TextOf(headers[i].key);
    if (name == ":path") is_ours = TextOf(headers[i].value).starts_with(kOurServices);
    if (name != kTokenHeader) continue;
    authorization = TextOf(headers[i].value);
    ++found;
  }
  if (found != 1) authorization = {};
  const bool is_admitted = static_cast<CallFilter*>(filter)->Admit(authorization, is_ours);
  done(user_data, nullptr, 0, nullptr, 0,
       is_admitted ? GRPC_STATUS_OK : GRPC_STATUS_RESOURCE_EXHAUSTED,
       is_admitted ? nullptr
                   : "too many calls without the job token; send the metadata header "
                     "'authorization: Bearer TOKEN', or try again in a second");
}

// gRPC's own class for a server without TLS refuses to take a processor of headers.
class Filtered final : public grpc::ServerCredentials {
 public:
  Filtered(const cluster_file::TlsIdentity* tls, CallFilter* filter) : filter_(*filter) {
    if (tls == nullptr) {
      credentials_ = grpc_insecure_server_credentials_create();
      return;
    }
    grpc_ssl_pem_key_cert_pair pair{tls->key.c_str(), tls->cert.c_str()};
    credentials_ = grpc_ssl_server_credentials_create_ex(
        tls->ca.empty() ? nullptr : tls->ca.c_str(), &pair, 1,
        tls->mutual ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                    : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE,
        nullptr);
  }
  ~Filtered() override { grpc_server_credentials_release(credentials_); }

  // The filter is the processor.
  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    grpc_server_credentials_set_auth_metadata_processor(credentials_,
                                                        {&FilterCall, nullptr, &filter_});
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  CallFilter& filter_;
  grpc_server_credentials* credentials_ = nullptr;
};

}  // namespace

void CallFilter::set_guard(ConnectionGuard* guard) { guard_ = guard; }

bool CallFilter::Admit(std::string_view authorization, bool is_ours) {
  if (authorization.empty() || !authenticator_.IsRight(authorization)) return TakeTurn();
  ConnectionGuard* const guard = guard_;
  if (is_ours && guard != nullptr && guard->has_strangers()) guard->OnHeaders();
  return true;
}

bool CallFilter::TakeTurn() {
  const std::uint64_t now_ns = Clock::Real().MonotonicNs();
  const std::lock_guard lock(mutex_);
  const std::uint64_t refill = (now_ns - refilled_ns_) / kTurnNs;
  if (refill > 0) {
    turns_ = std::min(kTurnsMax, turns_ + std::min(refill, kTurnsMax));
    refilled_ns_ = now_ns;
  }
  if (turns_ > 0) {
    --turns_;
    return true;
  }
  ConnectionGuard* const guard = guard_;
  if (guard != nullptr) guard->NoteFlood();
  return false;
}

std::shared_ptr<grpc::ServerCredentials> FilteredCredentials(const cluster_file::TlsIdentity* tls,
                                                             CallFilter* filter) {
  return std::make_shared<Filtered>(tls, filter);
}

}  // namespace tidepool::daemon
