#include "daemon/services/auth.h"

#include <google/protobuf/message.h>

#include <string_view>
#include <utility>

#include "proto/base/status.h"
#include "proto/cluster_file/job_token.h"
#include "proto/convert/grpc_status.h"

namespace tidepool::daemon {
namespace {

constexpr const char* kHeader = "authorization";
constexpr std::string_view kReflection = "/grpc.reflection.";

grpc::Status Refusal() {
  return convert::ToGrpc(Status(
      StatusCode::kUnauthenticated, "the call does not carry the job token of this service",
      "send the metadata header 'authorization: Bearer TOKEN'; the connection file names the "
      "token's file"));
}

using grpc::experimental::InterceptionHookPoints;

class ReflectionGuard final : public grpc::experimental::Interceptor {
 public:
  explicit ReflectionGuard(const Authenticator& authenticator) : authenticator_(authenticator) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_INITIAL_METADATA)) {
      const auto& metadata = *methods->GetRecvInitialMetadata();
      const auto header = metadata.find(kHeader);
      is_allowed_ = metadata.count(kHeader) == 1 &&
                    authenticator_.IsRight({header->second.data(), header->second.size()});
    }
    if (!is_allowed_ &&
        methods->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_MESSAGE)) {
      // The service reads messages of a single type, and an empty message requests no data.
      if (void* message = methods->GetRecvMessage(); message != nullptr) {
        static_cast<google::protobuf::Message*>(message)->Clear();
      }
    }
    if (!is_allowed_ &&
        methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) {
      methods->ModifySendStatus(Refusal());
    }
    methods->Proceed();
  }

 private:
  const Authenticator& authenticator_;
  bool is_allowed_ = false;
};

class ReflectionGuardFactory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit ReflectionGuardFactory(const Authenticator* authenticator)
      : authenticator_(*authenticator) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override {
    const bool is_reflection =
        std::string_view(info->method()).substr(0, kReflection.size()) == kReflection;
    return is_reflection ? new ReflectionGuard(authenticator_) : nullptr;
  }

 private:
  const Authenticator& authenticator_;
};

}  // namespace

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeReflectionGuard(
    const Authenticator* authenticator) {
  return std::make_unique<ReflectionGuardFactory>(authenticator);
}

void Authenticator::SetToken(std::string token) {
  const std::lock_guard lock(mutex_);
  expected_ = "Bearer " + std::move(token);
}

bool Authenticator::IsRight(std::string_view header) const {
  const std::lock_guard lock(mutex_);
  return !expected_.empty() && cluster_file::TokensEqual(header, expected_);
}

bool Authenticator::HasToken() const {
  const std::lock_guard lock(mutex_);
  return !expected_.empty();
}

grpc::Status Authenticator::Check(const grpc::ServerContextBase& call) const {
  const auto& metadata = call.client_metadata();
  const auto header = metadata.find(kHeader);
  // With two headers, the valid header would be ambiguous.
  const bool is_right =
      metadata.count(kHeader) == 1 && IsRight({header->second.data(), header->second.size()});
  if (is_right) {
    TokenObserver* const observer = observer_;
    if (observer != nullptr && observer->has_strangers()) observer->OnToken(call.peer());
    return grpc::Status::OK;
  }
  if (!HasToken()) {
    return convert::ToGrpc(
        Status(StatusCode::kUnavailable, "this node is still starting", "try again in a moment"));
  }
  refused_.Warn("call refused, from " + call.peer() + ": it does not carry the job token");
  return Refusal();
}

}  // namespace tidepool::daemon
