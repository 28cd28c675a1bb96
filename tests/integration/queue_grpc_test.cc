// Queues over gRPC, from the node that holds them and from another.
#include <grpcpp/channel.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "proto/wire/queue_ops.h"
#include "tests/integration/harness.h"
#include "tidepool/v1/common.pb.h"
#include "tidepool/v1/data.grpc.pb.h"
#include "tidepool/v1/namespaces.grpc.pb.h"

namespace tidepool::testing {
namespace {

v1::Operation Push(const std::string& value) {
  v1::Operation push;
  push.set_kind(v1::OPERATION_KIND_PUSH);
  push.set_value(value);
  return push;
}

v1::Operation Pop(std::uint64_t items_max, std::uint64_t lease_ms = 0) {
  v1::Operation pop;
  pop.set_kind(v1::OPERATION_KIND_POP);
  pop.set_items_max(items_max);
  pop.set_lease_ms(lease_ms);
  return pop;
}

v1::Operation Of(v1::OperationKind kind) {
  v1::Operation operation;
  operation.set_kind(kind);
  return operation;
}

v1::Operation EndOf(v1::OperationKind kind, const v1::Item& item) {
  v1::Operation operation = Of(kind);
  operation.set_item_id(item.id());
  operation.set_deliveries(item.deliveries());
  return operation;
}

// A cluster of two with a queue on node 1, asked through either.
struct Fixture {
  explicit Fixture(std::uint32_t asked_node)
      : cluster({.nodes = 2}), asked(cluster.node_id(0) == asked_node ? 0 : 1) {
    cluster.WaitReady();
    v1::CreateNamespaceRequest create;
    create.set_name("q");
    create.set_kind(v1::KIND_PRIORITY);
    create.mutable_options()->set_home("1");
    create.mutable_options()->set_capacity(4);
    grpc::ClientContext call;
    cluster.Prepare(&call);
    v1::CreateNamespaceResponse created;
    REQUIRE(v1::Namespaces::NewStub(cluster.channel(asked))->Create(&call, create, &created).ok());
    REQUIRE(created.namespace_().partitions(0).node_id() == 1);
  }
  v1::OperationResult Ask(const v1::Operation& operation) {
    grpc::ClientContext call;
    cluster.Prepare(&call);
    v1::ExecuteRequest request;
    request.set_namespace_("q");
    *request.add_operations() = operation;
    v1::ExecuteResponse response;
    const auto status =
        v1::Data::NewStub(cluster.channel(asked))->Execute(&call, request, &response);
    INFO(status.error_message());
    REQUIRE(status.ok());
    REQUIRE(response.results_size() == 1);
    return response.results(0);
  }
  StatusCode Code(const v1::Operation& operation) {
    return static_cast<StatusCode>(Ask(operation).status().code());
  }
  std::string Items(const v1::Operation& operation) {
    std::string text;
    const v1::OperationResult result = Ask(operation);
    for (const v1::Item& item : result.items()) {
      text += std::to_string(item.id()) + "=" + item.value().substr(0, 10) + "/" +
              std::to_string(item.priority()) + "*" + std::to_string(item.deliveries()) + " ";
    }
    return text;
  }

  TestCluster cluster;
  const std::size_t asked;
};

TEST_CASE("QueuesWorkOverGrpcFromAnyNode") {
  Fixture fixture(GENERATE(0u, 1u));
  CHECK(fixture.Code(Pop(1)) == StatusCode::kNotFound);
  CHECK(fixture.Ask(Push("a")).number() == 1);
  v1::Operation urgent = Push("b");
  urgent.set_priority(7);
  CHECK(fixture.Ask(urgent).number() == 2);
  CHECK(fixture.Ask(Push("")).number() == 3);
  CHECK(fixture.Items(Of(v1::OPERATION_KIND_PEEK)) == "1=a/0*0 ");
  const v1::OperationResult leased = fixture.Ask(Pop(2, 60'000));
  REQUIRE(leased.items_size() == 2);
  CHECK(leased.items(1).id() == 3);
  CHECK(leased.items(1).deliveries() == 1);
  v1::OperationResult length = fixture.Ask(Of(v1::OPERATION_KIND_QUEUE_LENGTH));
  CHECK(length.number() == 1);
  CHECK(length.leased() == 2);
  CHECK(fixture.Code(EndOf(v1::OPERATION_KIND_ACK, leased.items(0))) == StatusCode::kOk);
  CHECK(fixture.Code(EndOf(v1::OPERATION_KIND_ACK, leased.items(0))) == StatusCode::kNotFound);
  CHECK(fixture.Code(EndOf(v1::OPERATION_KIND_NACK, leased.items(1))) == StatusCode::kOk);
  CHECK(fixture.Items(Pop(9)) == "3=/0*1 2=b/7*0 ");
}

TEST_CASE("WhatAQueueCannotTakeOrGiveOverGrpcIsRefusedAndStays") {
  Fixture fixture(GENERATE(0u, 1u));
  CHECK(fixture.Ask(Push(std::string(1'048'576, 'm'))).number() == 1);
  CHECK(fixture.Ask(Push(std::string(1'048'577, 'x'))).number() == 2);
  for (int i = 0; i < 2; ++i) CHECK(fixture.Code(Push("s")) == StatusCode::kOk);
  CHECK(fixture.Code(Push("one too many")) == StatusCode::kResourceExhausted);
  CHECK(fixture.Ask(Pop(9)).items(0).value() == std::string(1'048'576, 'm'));
  CHECK(fixture.Code(Pop(9)) == StatusCode::kOutOfRange);
  CHECK(fixture.Ask(Of(v1::OPERATION_KIND_QUEUE_LENGTH)).number() == 3);
}

TEST_CASE("OperationsOnQueuesWithWhatTheyDoNotTakeAreRefused") {
  Fixture fixture(0);
  std::vector<v1::Operation> wrong = {Of(v1::OPERATION_KIND_PEEK), Push("a"), Pop(1)};
  wrong[0].set_lease_ms(1);
  wrong[1].set_key("k");
  wrong[2].set_key("k");
  wrong.push_back(Of(static_cast<v1::OperationKind>(49)));
  for (const v1::Operation& operation : wrong) {
    grpc::ClientContext call;
    fixture.cluster.Prepare(&call);
    v1::ExecuteRequest request;
    request.set_namespace_("q");
    *request.add_operations() = operation;
    v1::ExecuteResponse response;
    CHECK(v1::Data::NewStub(fixture.cluster.channel(0))
              ->Execute(&call, request, &response)
              .error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  }
}

}  // namespace
}  // namespace tidepool::testing
