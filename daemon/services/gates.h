// What stands before every service: no call gets through without the job token. A method that is
// not passed on here answers UNIMPLEMENTED, so a forgotten one is closed, not open; a test calls
// every method of every service without a token.
//
//   gRPC -> [services/gates] -> services/*_service
#pragma once

#include <grpcpp/impl/service_type.h>

#include <memory>
#include <vector>

#include "daemon/services/auth.h"
#include "daemon/services/cluster_service.h"
#include "tidepool/v1/admin.grpc.pb.h"
#include "tidepool/v1/bulk.grpc.pb.h"
#include "tidepool/v1/data.grpc.pb.h"
#include "tidepool/v1/namespaces.grpc.pb.h"

namespace tidepool::daemon {

// What is behind the gates; all must outlive them. Null: the gate is left out.
struct GatedServices {
  ClusterService* cluster = nullptr;
  v1::Namespaces::Service* namespaces = nullptr;
  v1::Admin::Service* admin = nullptr;
  v1::Data::Service* data = nullptr;
  v1::Bulk::Service* bulk = nullptr;
};

// To register with the gRPC builder; they must outlive its services.
std::vector<std::unique_ptr<grpc::Service>> MakeGates(const Authenticator* authenticator,
                                                      const GatedServices& services);

}  // namespace tidepool::daemon
