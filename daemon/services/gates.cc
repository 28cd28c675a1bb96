#include "daemon/services/gates.h"

#include <chrono>
#include <string>

#include "daemon/services/gate.h"
#include "daemon/services/stream_places.h"
#include "proto/convert/grpc_status.h"

namespace tidepool::daemon {
namespace {

using grpc::ServerContext;
using RpcStatus = grpc::Status;

constexpr int kStreamsMax = 48;
constexpr std::chrono::seconds kPlaceWait(10);

// GetMap is asynchronous: a thousand daemons wait in it for the next map without a thread each.
class ClusterGate final : public v1::Cluster::WithCallbackMethod_GetMap<v1::Cluster::Service>,
                          private Gate {
 public:
  ClusterGate(const Authenticator& authenticator, ClusterService* inner)
      : Gate(authenticator), inner_(*inner) {}

  grpc::ServerUnaryReactor* GetMap(grpc::CallbackServerContext* context,
                                   const v1::GetMapRequest* request,
                                   v1::GetMapResponse* response) override {
    const RpcStatus checked = authenticator_.Check(*context);
    if (checked.ok()) return inner_.GetMap(context, request, response);
    grpc::ServerUnaryReactor* call_end = context->DefaultReactor();
    call_end->Finish(checked);
    return call_end;
  }
  RpcStatus Join(ServerContext* context, const v1::JoinRequest* request,
                 v1::JoinResponse* response) override {
    return Pass(context, [&] { return inner_.Join(context, request, response); });
  }
  RpcStatus Heartbeat(ServerContext* context, const v1::HeartbeatRequest* request,
                      v1::HeartbeatResponse* response) override {
    return Pass(context, [&] { return inner_.Heartbeat(context, request, response); });
  }
  RpcStatus Leave(ServerContext* context, const v1::LeaveRequest* request,
                  v1::LeaveResponse* response) override {
    return Pass(context, [&] { return inner_.Leave(context, request, response); });
  }
  RpcStatus Status(ServerContext* context, const v1::StatusRequest* request,
                   v1::StatusResponse* response) override {
    return Pass(context, [&] { return inner_.Status(context, request, response); });
  }
  RpcStatus Login(ServerContext* context, const v1::LoginRequest* request,
                  v1::LoginResponse* response) override {
    return inner_.Login(context, request, response);  // It is how a program gets the token.
  }
  RpcStatus Attach(ServerContext* context, const v1::AttachRequest* request,
                   v1::AttachResponse* response) override {
    return Pass(context, [&] { return inner_.Attach(context, request, response); });
  }
  RpcStatus NodeStatus(ServerContext* context, const v1::NodeStatusRequest* request,
                       v1::NodeStatusResponse* response) override {
    return Pass(context, [&] { return inner_.NodeStatus(context, request, response); });
  }

 private:
  ClusterService& inner_;
};

class NamespacesGate final : public v1::Namespaces::Service, private Gate {
 public:
  NamespacesGate(const Authenticator& authenticator, v1::Namespaces::Service* inner)
      : Gate(authenticator), inner_(*inner) {}

  RpcStatus Create(ServerContext* context, const v1::CreateNamespaceRequest* request,
                   v1::CreateNamespaceResponse* response) override {
    return Pass(context, [&] { return inner_.Create(context, request, response); });
  }
  RpcStatus Drop(ServerContext* context, const v1::DropNamespaceRequest* request,
                 v1::DropNamespaceResponse* response) override {
    return Pass(context, [&] { return inner_.Drop(context, request, response); });
  }
  RpcStatus List(ServerContext* context, const v1::ListNamespacesRequest* request,
                 v1::ListNamespacesResponse* response) override {
    return Pass(context, [&] { return inner_.List(context, request, response); });
  }
  RpcStatus Describe(ServerContext* context, const v1::DescribeNamespaceRequest* request,
                     v1::DescribeNamespaceResponse* response) override {
    return Pass(context, [&] { return inner_.Describe(context, request, response); });
  }
  RpcStatus AcceptLoss(ServerContext* context, const v1::AcceptLossRequest* request,
                       v1::AcceptLossResponse* response) override {
    return Pass(context, [&] { return inner_.AcceptLoss(context, request, response); });
  }
  RpcStatus Persist(ServerContext* context, const v1::PersistRequest* request,
                    v1::PersistResponse* response) override {
    return Pass(context, [&] { return inner_.Persist(context, request, response); });
  }
  RpcStatus Migrate(ServerContext* context, const v1::MigrateNamespaceRequest* request,
                    grpc::ServerWriter<v1::MigrateNamespaceProgress>* writer) override {
    return Pass(context, [&] { return inner_.Migrate(context, request, writer); });
  }
  RpcStatus Split(ServerContext* context, const v1::SplitNamespaceRequest* request,
                  v1::SplitNamespaceResponse* response) override {
    return Pass(context, [&] { return inner_.Split(context, request, response); });
  }
  RpcStatus CommitSplit(ServerContext* context, const v1::CommitSplitRequest* request,
                        v1::CommitSplitResponse* response) override {
    return Pass(context, [&] { return inner_.CommitSplit(context, request, response); });
  }

 private:
  v1::Namespaces::Service& inner_;
};

class AdminGate final : public v1::Admin::Service, private Gate {
 public:
  AdminGate(const Authenticator& authenticator, v1::Admin::Service* inner)
      : Gate(authenticator), inner_(*inner) {}

  RpcStatus GetConfig(ServerContext* context, const v1::GetConfigRequest* request,
                      v1::GetConfigResponse* response) override {
    return Pass(context, [&] { return inner_.GetConfig(context, request, response); });
  }
  RpcStatus SetLogLevel(ServerContext* context, const v1::SetLogLevelRequest* request,
                        v1::SetLogLevelResponse* response) override {
    return Pass(context, [&] { return inner_.SetLogLevel(context, request, response); });
  }
  RpcStatus ResetStats(ServerContext* context, const v1::ResetStatsRequest* request,
                       v1::ResetStatsResponse* response) override {
    return Pass(context, [&] { return inner_.ResetStats(context, request, response); });
  }
  RpcStatus CheckStop(ServerContext* context, const v1::CheckStopRequest* request,
                      v1::CheckStopResponse* response) override {
    return Pass(context, [&] { return inner_.CheckStop(context, request, response); });
  }
  RpcStatus Stop(ServerContext* context, const v1::StopRequest* request,
                 v1::StopResponse* response) override {
    return Pass(context, [&] { return inner_.Stop(context, request, response); });
  }
  RpcStatus Ping(ServerContext* context, const v1::PingRequest* request,
                 v1::PingResponse* response) override {
    return Pass(context, [&] { return inner_.Ping(context, request, response); });
  }
  RpcStatus SlowLog(ServerContext* context, const v1::SlowLogRequest* request,
                    v1::SlowLogResponse* response) override {
    return Pass(context, [&] { return inner_.SlowLog(context, request, response); });
  }
  RpcStatus HotKeys(ServerContext* context, const v1::HotKeysRequest* request,
                    v1::HotKeysResponse* response) override {
    return Pass(context, [&] { return inner_.HotKeys(context, request, response); });
  }
  RpcStatus Machine(ServerContext* context, const v1::MachineRequest* request,
                    v1::MachineResponse* response) override {
    return Pass(context, [&] { return inner_.Machine(context, request, response); });
  }

 private:
  v1::Admin::Service& inner_;
};

class DataGate final : public v1::Data::Service, private Gate {
 public:
  DataGate(const Authenticator& authenticator, v1::Data::Service* inner)
      : Gate(authenticator), inner_(*inner) {}

  RpcStatus Get(ServerContext* context, const v1::GetRequest* request,
                v1::GetResponse* response) override {
    return Pass(context, [&] { return inner_.Get(context, request, response); });
  }
  RpcStatus Put(ServerContext* context, const v1::PutRequest* request,
                v1::PutResponse* response) override {
    return Pass(context, [&] { return inner_.Put(context, request, response); });
  }
  RpcStatus Delete(ServerContext* context, const v1::DeleteRequest* request,
                   v1::DeleteResponse* response) override {
    return Pass(context, [&] { return inner_.Delete(context, request, response); });
  }
  RpcStatus Execute(ServerContext* context, const v1::ExecuteRequest* request,
                    v1::ExecuteResponse* response) override {
    return Pass(context, [&] { return inner_.Execute(context, request, response); });
  }
  RpcStatus Length(ServerContext* context, const v1::LengthRequest* request,
                   v1::LengthResponse* response) override {
    return Pass(context, [&] { return inner_.Length(context, request, response); });
  }
  RpcStatus Locate(ServerContext* context, const v1::LocateRequest* request,
                   v1::LocateResponse* response) override {
    return Pass(context, [&] { return inner_.Locate(context, request, response); });
  }

 private:
  v1::Data::Service& inner_;
};

class BulkGate final : public v1::Bulk::Service, private Gate {
 public:
  BulkGate(const Authenticator& authenticator, v1::Bulk::Service* inner)
      : Gate(authenticator), inner_(*inner) {}

  RpcStatus Load(ServerContext* context,
                 grpc::ServerReaderWriter<v1::LoadResponse, v1::LoadRequest>* stream) override {
    return Pass(context, [&] { return inner_.Load(context, stream); });
  }
  RpcStatus Scan(ServerContext* context, const v1::ScanRequest* request,
                 grpc::ServerWriter<v1::ScanResponse>* writer) override {
    return Pass(context,
                [&] { return InPlace([&] { return inner_.Scan(context, request, writer); }); });
  }
  RpcStatus ScanPartition(ServerContext* context, const v1::ScanPartitionRequest* request,
                          v1::ScanPartitionResponse* response) override {
    return Pass(context, [&] { return inner_.ScanPartition(context, request, response); });
  }
  RpcStatus WriteValue(ServerContext* context, grpc::ServerReader<v1::WriteValueRequest>* reader,
                       v1::WriteValueResponse* response) override {
    return Pass(context, [&] { return inner_.WriteValue(context, reader, response); });
  }
  RpcStatus ReadValue(ServerContext* context, const v1::ReadValueRequest* request,
                      grpc::ServerWriter<v1::ReadValueResponse>* writer) override {
    return Pass(context, [&] {
      return InPlace([&] { return inner_.ReadValue(context, request, writer); });
    });
  }

 private:
  template <typename Call>
  RpcStatus InPlace(Call call) {
    if (!places_.Take(kPlaceWait)) {
      return convert::ToGrpc(Status(StatusCode::kOverloaded,
                                    "this node sends scans or large values to " +
                                        std::to_string(kStreamsMax) +
                                        " callers already, and no call has ended within 10 s",
                                    "read what was asked for, or ask with fewer calls at once"));
    }
    RpcStatus status = call();
    places_.Leave();
    return status;
  }

  StreamPlaces places_{kStreamsMax};
  v1::Bulk::Service& inner_;
};

template <typename GateType, typename Inner>
void AddGate(const Authenticator& authenticator, Inner* inner,
             std::vector<std::unique_ptr<grpc::Service>>* gates) {
  if (inner != nullptr) gates->push_back(std::make_unique<GateType>(authenticator, inner));
}

}  // namespace

std::vector<std::unique_ptr<grpc::Service>> MakeGates(const Authenticator* authenticator,
                                                      const GatedServices& services) {
  std::vector<std::unique_ptr<grpc::Service>> gates;
  AddGate<ClusterGate>(*authenticator, services.cluster, &gates);
  AddGate<NamespacesGate>(*authenticator, services.namespaces, &gates);
  AddGate<AdminGate>(*authenticator, services.admin, &gates);
  AddGate<DataGate>(*authenticator, services.data, &gates);
  AddGate<BulkGate>(*authenticator, services.bulk, &gates);
  return gates;
}

}  // namespace tidepool::daemon
