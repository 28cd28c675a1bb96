// For tests of splits: a cluster with an ordered namespace, and splits by hand.
#pragma once

#include <grpcpp/channel.h>

#include <optional>
#include <string>
#include <string_view>

#include "proto/convert/grpc_status.h"
#include "tests/client/sdk_fixture.h"
#include "tidepool/v1/namespaces.grpc.pb.h"

namespace tidepool::testing {

// Threads of a test call it too: nothing here asserts.
inline Status Split(TestCluster& cluster, std::string_view name, std::optional<std::string> key,
                    std::size_t asked = 0, std::uint64_t timeout_ms = kPatienceMs) {
  v1::SplitNamespaceRequest request;
  request.set_name(std::string(name));
  if (key.has_value()) request.set_key(*std::move(key));
  v1::SplitNamespaceResponse response;
  grpc::ClientContext call;
  cluster.Prepare(&call, timeout_ms);
  const auto stub = v1::Namespaces::NewStub(cluster.channel(asked));
  return convert::FromGrpc(stub->Split(&call, request, &response), "kvd");
}

// Returns the answer behind `kvctl namespace describe`.
inline v1::DescribeNamespaceResponse Described(TestCluster& cluster, std::string_view name) {
  v1::DescribeNamespaceRequest request;
  request.set_name(std::string(name));
  v1::DescribeNamespaceResponse response;
  grpc::ClientContext call;
  cluster.Prepare(&call);
  const auto stub = v1::Namespaces::NewStub(cluster.channel(0));
  RequireOk(convert::FromGrpc(stub->Describe(&call, request, &response), "kvd"));
  return response;
}

inline int RangesOf(TestCluster& cluster, std::string_view name) {
  return Described(cluster, name).partitions_size();
}

}  // namespace tidepool::testing
