// The Namespaces service. Reads come from this node's map, changes go to the coordinator.
//
//   gRPC -> gates -> [services/namespaces_service] -> coordinator, here or on its node
#pragma once

#include "daemon/control/node_state.h"
#include "tidepool/v1/namespaces.grpc.pb.h"

namespace tidepool::daemon {

// Thread-safe; `node` must outlive it.
class NamespacesService final : public v1::Namespaces::Service {
 public:
  explicit NamespacesService(NodeState* node) : node_(*node) {}

  grpc::Status Create(grpc::ServerContext* call, const v1::CreateNamespaceRequest* request,
                      v1::CreateNamespaceResponse* response) override;
  grpc::Status Drop(grpc::ServerContext* call, const v1::DropNamespaceRequest* request,
                    v1::DropNamespaceResponse* response) override;
  grpc::Status List(grpc::ServerContext* call, const v1::ListNamespacesRequest* request,
                    v1::ListNamespacesResponse* response) override;
  grpc::Status Describe(grpc::ServerContext* call, const v1::DescribeNamespaceRequest* request,
                        v1::DescribeNamespaceResponse* response) override;
  grpc::Status AcceptLoss(grpc::ServerContext* call, const v1::AcceptLossRequest* request,
                          v1::AcceptLossResponse* response) override;
  grpc::Status Persist(grpc::ServerContext* call, const v1::PersistRequest* request,
                       v1::PersistResponse* response) override;
  grpc::Status Migrate(grpc::ServerContext* call, const v1::MigrateNamespaceRequest* request,
                       grpc::ServerWriter<v1::MigrateNamespaceProgress>* writer) override;
  grpc::Status Split(grpc::ServerContext* call, const v1::SplitNamespaceRequest* request,
                     v1::SplitNamespaceResponse* response) override;
  grpc::Status CommitSplit(grpc::ServerContext* call, const v1::CommitSplitRequest* request,
                           v1::CommitSplitResponse* response) override;

 private:
  // Forwards a call to the coordinator's node and returns its answer and status. Then waits until
  // this node has the map of the answer, so that the caller can continue here.
  template <typename Request, typename Response, typename Method>
  grpc::Status Forward(grpc::ServerContext* call, const Request& request, Response* response,
                       Method method);
  // Checks that the answering nodes have room for a filter before it is created, because a filter
  // that does not fit could never serve. Errors: kResourceExhausted naming the node,
  // kInvalidArgument.
  Status CheckFilterFits(Kind kind, const placement::NamespaceOptions& options, Deadline deadline);
  // Returns the wall time in ms of the node's oldest checkpoint. Errors: those of PersistNode on
  // the node.
  Result<std::uint64_t> PersistAt(const placement::Node& node, const std::string& name,
                                  Deadline deadline);
  void DescribeFilter(const placement::Namespace& space, Deadline deadline,
                      v1::DescribeNamespaceResponse* response);
  Result<std::uint32_t> RangeToSplit(const placement::Namespace& space,
                                     const v1::SplitNamespaceRequest& request, Deadline deadline);
  // Waits within the deadline, at most a second.
  void WaitUntilInstalled(Epoch epoch, Deadline deadline);

  NodeState& node_;
};

}  // namespace tidepool::daemon
