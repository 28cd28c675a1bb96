// The gates before all services: no call passes without the job token. A method that a gate does
// not forward answers UNIMPLEMENTED, so a forgotten method is closed, not open. A test calls every
// method of every service without a token.
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

// Services behind the gates; all must outlive them. Null: that gate is left out.
struct GatedServices {
  ClusterService* cluster = nullptr;
  v1::Namespaces::Service* namespaces = nullptr;
  v1::Admin::Service* admin = nullptr;
  v1::Data::Service* data = nullptr;
  v1::Bulk::Service* bulk = nullptr;
};

// Returns the gates to register with the gRPC builder; they must outlive its services.
std::vector<std::unique_ptr<grpc::Service>> MakeGates(const Authenticator* authenticator,
                                                      const GatedServices& services);

}  // namespace tidepool::daemon
