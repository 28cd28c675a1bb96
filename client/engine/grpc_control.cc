#include "client/engine/grpc_control.h"

#include <grpcpp/client_context.h>

#include <utility>

#include "proto/base/limits.h"
#include "proto/convert/grpc_channel.h"
#include "proto/convert/grpc_status.h"
#include "proto/convert/placement_convert.h"
#include "tidepool/v1/cluster.grpc.pb.h"
#include "tidepool/v1/namespaces.grpc.pb.h"

namespace tidepool::internal {
namespace {

Status Malformed(const std::string& address, const char* what) {
  return Status(StatusCode::kInternal, "the daemon at " + address + " sent " + what,
                "use client and daemon of the same release");
}

class GrpcControl final : public ControlPlane {
 public:
  GrpcControl(std::string token, ChannelSecurity security)
      : token_(std::move(token)), security_(std::move(security)) {}

  Result<AttachReply> Attach(const std::string& address, const AttachRequest& request,
                             Deadline deadline) override {
    v1::AttachRequest message;
    message.set_worker_address(request.worker_address);
    message.set_session(request.session.value());
    message.set_incarnation(request.incarnation);
    message.set_client_name(request.client_name);
    message.set_uncounted(request.uncounted);
    v1::AttachResponse answer;
    TP_RETURN_IF_ERROR(
        (Call<v1::Cluster>(address, deadline, &v1::Cluster::Stub::Attach, message, &answer)));
    AttachReply reply;
    reply.session = SessionId(answer.session());
    reply.resumed = answer.resumed();
    reply.connection = answer.connection();
    reply.incarnation = answer.incarnation();
    reply.credit_operations = answer.credit_operations();
    reply.credit_bytes = answer.credit_bytes();
    reply.memory_address = answer.memory_address();
    if (answer.cores_size() == 0 ||
        answer.cores_size() > static_cast<int>(limits::kCoresPerNodeMax) ||
        reply.credit_operations == 0 || reply.credit_bytes < limits::kCreditBytesMin) {
      return Malformed(address, "an unusable grant");
    }
    reply.worker_addresses.resize(static_cast<std::size_t>(answer.cores_size()));
    for (const auto& core : answer.cores()) {
      if (core.core() >= reply.worker_addresses.size()) return Malformed(address, "core numbers");
      reply.worker_addresses[core.core()] = core.worker_address();
    }
    return reply;
  }

  Result<placement::PlacementDelta> GetMap(const std::string& address, Epoch known, Epoch wait_for,
                                           Deadline deadline) override {
    v1::GetMapRequest message;
    message.set_known_epoch(known.value());
    message.set_wait_for_epoch(wait_for.value());
    v1::GetMapResponse answer;
    TP_RETURN_IF_ERROR(
        (Call<v1::Cluster>(address, deadline, &v1::Cluster::Stub::GetMap, message, &answer)));
    return convert::FromProto(answer.map());
  }

  Result<CreateReply> CreateNamespace(const std::string& address, const std::string& name,
                                      placement::Kind kind,
                                      const placement::NamespaceOptions& options,
                                      Deadline deadline) override {
    v1::CreateNamespaceRequest message;
    message.set_name(name);
    message.set_kind(static_cast<v1::Kind>(kind));
    convert::ToProto(options, message.mutable_options());
    v1::CreateNamespaceResponse answer;
    TP_RETURN_IF_ERROR(
        (Call<v1::Namespaces>(address, deadline, &v1::Namespaces::Stub::Create, message, &answer)));
    return CreateReply{NamespaceId(answer.namespace_().namespace_id()), answer.created(),
                       Epoch(answer.epoch())};
  }

  Status DropNamespace(const std::string& address, const std::string& name, Epoch* epoch,
                       Deadline deadline) override {
    v1::DropNamespaceRequest message;
    message.set_name(name);
    v1::DropNamespaceResponse answer;
    TP_RETURN_IF_ERROR(
        (Call<v1::Namespaces>(address, deadline, &v1::Namespaces::Stub::Drop, message, &answer)));
    *epoch = Epoch(answer.epoch());
    return {};
  }

  Status PersistNamespace(const std::string& address, const std::string& name,
                          Deadline deadline) override {
    v1::PersistRequest message;
    message.set_name(name);
    v1::PersistResponse answer;
    return Call<v1::Namespaces>(address, deadline, &v1::Namespaces::Stub::Persist, message,
                                &answer);
  }

  Status MigrateNamespace(const std::string& address, const std::string& name,
                          const std::string& node, std::uint64_t hold_ms, Epoch* epoch,
                          Deadline deadline) override {
    v1::MigrateNamespaceRequest message;
    message.set_name(name);
    message.set_node(node);
    message.set_hold_ms(hold_ms);
    auto channel = convert::MakeChannel(address, security_);
    if (!channel.ok()) return channel.status();
    grpc::ClientContext context;
    convert::PrepareCall(&context, deadline, token_);
    const auto stub = v1::Namespaces::NewStub(*channel);
    const auto reader = stub->Migrate(&context, message);
    v1::MigrateNamespaceProgress progress;
    while (reader->Read(&progress)) {
    }
    TP_RETURN_IF_ERROR(convert::FromGrpc(reader->Finish(), address));
    if (!progress.done()) return Malformed(address, "half an answer");
    *epoch = Epoch(progress.epoch());
    return {};
  }

 private:
  template <typename Service, typename Method, typename Request, typename Answer>
  Status Call(const std::string& address, Deadline deadline, Method method, const Request& request,
              Answer* answer) {
    auto channel = convert::MakeChannel(address, security_);
    if (!channel.ok()) return channel.status();
    const auto stub = Service::NewStub(*channel);
    grpc::ClientContext context;
    convert::PrepareCall(&context, deadline, token_);
    return convert::FromGrpc((stub.get()->*method)(&context, request, answer), address);
  }

  const std::string token_;
  const ChannelSecurity security_;
};

}  // namespace

std::unique_ptr<ControlPlane> MakeGrpcControl(std::string token, ChannelSecurity security) {
  return std::make_unique<GrpcControl>(std::move(token), std::move(security));
}

}  // namespace tidepool::internal
