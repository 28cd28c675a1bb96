// Nodes that form a cluster, die, stop, come back, and nodes that may not join.
#include <grpcpp/channel.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <set>

#include "proto/cluster_file/job_token.h"
#include "proto/convert/grpc_status.h"
#include "tests/integration/harness.h"
#include "tidepool/v1/cluster.pb.h"
#include "tidepool/v1/data.grpc.pb.h"
#include "tidepool/v1/namespaces.grpc.pb.h"

namespace tidepool::testing {
namespace {

Status Put(TestCluster* cluster, std::size_t index, const std::string& space,
           const std::string& key) {
  grpc::ClientContext call;
  cluster->Prepare(&call);
  v1::PutRequest request;
  request.set_namespace_(space);
  request.set_key(key);
  request.set_value("value of " + key);
  v1::PutResponse response;
  return convert::FromGrpc(
      v1::Data::NewStub(cluster->channel(index))->Put(&call, request, &response), "kvd");
}

Status Get(TestCluster* cluster, std::size_t index, const std::string& space,
           const std::string& key) {
  grpc::ClientContext call;
  cluster->Prepare(&call, 5000);
  v1::GetRequest request;
  request.set_namespace_(space);
  request.set_key(key);
  v1::GetResponse response;
  return convert::FromGrpc(
      v1::Data::NewStub(cluster->channel(index))->Get(&call, request, &response), "kvd");
}

v1::LocateResponse Locate(TestCluster* cluster, std::size_t index, const std::string& space,
                          const std::string& key) {
  grpc::ClientContext call;
  cluster->Prepare(&call);
  v1::LocateRequest request;
  request.set_namespace_(space);
  request.set_key(key);
  v1::LocateResponse response;
  const grpc::Status located =
      v1::Data::NewStub(cluster->channel(index))->Locate(&call, request, &response);
  INFO(located.error_message());
  REQUIRE(located.ok());
  return response;
}

// A key of `space` that lives on node `node_id`.
std::string KeyOn(TestCluster* cluster, std::size_t index, const std::string& space,
                  std::uint32_t node_id) {
  for (int i = 0; i < 10'000; ++i) {
    const std::string key = "key" + std::to_string(i);
    if (Locate(cluster, index, space, key).node_id() == node_id) return key;
  }
  FAIL("no key on node " << node_id);
  return {};
}

// Some daemon that is neither of these.
std::size_t OtherThan(const TestCluster& cluster, std::set<std::size_t> not_these) {
  for (std::size_t i = 0; i < cluster.size(); ++i) {
    if (!not_these.contains(i)) return i;
  }
  FAIL("no other daemon");
  return 0;
}

std::vector<std::string> KvdArguments(const TestCluster& cluster, const std::string& data_folder,
                                      std::vector<std::string> more) {
  std::vector<std::string> arguments = {ProgramPath("kvd"), "--cluster=" + cluster.file(),
                                        "--data-dir=" + data_folder, "--memory=64MiB",
                                        "--join-timeout-ms=5000"};
  arguments.insert(arguments.end(), cluster.store_flags().begin(), cluster.store_flags().end());
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::vector<std::string> JoinArguments(const TestCluster& cluster, const std::string& address) {
  std::vector<std::string> arguments = {ProgramPath("kvd"), "--join=" + address, "--memory=64MiB",
                                        "--data-dir=" + cluster.folder() + "/other"};
  arguments.insert(arguments.end(), cluster.store_flags().begin(), cluster.store_flags().end());
  return arguments;
}

TEST_CASE("ThreeNodesFormOneClusterThatAllShowAlike") {
  TestCluster cluster({.nodes = 3});
  std::set<std::uint32_t> ids;
  for (std::size_t i = 0; i < 3; ++i) {
    ids.insert(cluster.node_id(i));
    const v1::StatusResponse status = cluster.StatusFrom(i);
    CHECK_FALSE(status.forming());
    CHECK(status.nodes_expected() == 3);
    REQUIRE(status.nodes_size() == 3);
    for (const auto& node : status.nodes()) {
      CHECK(node.node().state() == v1::NODE_STATE_UP);
      CHECK(node.error().empty());
      CHECK(node.status().cores_size() == 1);
      CHECK(node.status().memory().limit_bytes() > 0);
    }
    REQUIRE(status.namespaces_size() == 1);
    CHECK(status.namespaces(0).name() == "default");
    CHECK(status.namespaces(0).partitions() == 12);
  }
  CHECK(ids == std::set<std::uint32_t>{0, 1, 2});
  CHECK(WaitUntil([&] { return cluster.ReadFile().nodes.size() == 3; }));
}

TEST_CASE("WhatOneNodeCreatesIsThereOnEveryOther") {
  TestCluster cluster({.nodes = 3});
  const std::size_t first = cluster.coordinator_index();
  const std::size_t other = OtherThan(cluster, {first});
  const std::size_t third = OtherThan(cluster, {first, other});
  REQUIRE(cluster.CreateHash(other, "made").ok());
  for (int i = 0; i < 30; ++i) {
    REQUIRE(Put(&cluster, other, "made", "k" + std::to_string(i)).ok());
    REQUIRE(Get(&cluster, third, "made", "k" + std::to_string(i)).ok());
  }
}

TEST_CASE("AKilledNodeIsDownAndWhatItHeldIsLostUntilAccepted") {
  TestCluster cluster({.nodes = 3});
  const std::size_t first = cluster.coordinator_index();
  const std::size_t victim = OtherThan(cluster, {first});
  const std::size_t asked = OtherThan(cluster, {first, victim});
  REQUIRE(cluster.CreateHash(asked, "data").ok());
  const std::string there = KeyOn(&cluster, asked, "data", cluster.node_id(victim));
  const std::string here = KeyOn(&cluster, asked, "data", cluster.node_id(asked));
  REQUIRE(Put(&cluster, asked, "data", there).ok());
  REQUIRE(Put(&cluster, asked, "data", here).ok());
  const std::uint32_t term = Locate(&cluster, asked, "data", there).term();

  cluster.Kill(victim);
  REQUIRE(cluster.WaitForNodeState(victim, v1::NODE_STATE_DOWN));
  REQUIRE(cluster.WaitForNodeState(victim, v1::NODE_STATE_DOWN, asked));
  const Status down = Get(&cluster, asked, "data", there);
  INFO(down.ToString());
  CHECK(down == StatusCode::kUnavailable);
  CHECK(down.what().find("node " + std::to_string(cluster.node_id(victim))) != std::string::npos);
  CHECK(Get(&cluster, asked, "data", here).ok());

  cluster.Start(victim);
  cluster.WaitReady();
  REQUIRE(cluster.WaitForNodeState(victim, v1::NODE_STATE_UP, asked));
  CHECK(WaitUntil([&] { return Get(&cluster, asked, "data", there) == StatusCode::kDataLoss; }));
  CHECK(Put(&cluster, asked, "data", there) == StatusCode::kDataLoss);
  CHECK(Get(&cluster, asked, "data", here).ok());
  CHECK(Locate(&cluster, asked, "data", there).term() > term);

  grpc::ClientContext call;
  cluster.Prepare(&call);
  v1::AcceptLossRequest request;
  request.set_name("data");
  v1::AcceptLossResponse response;
  REQUIRE(
      v1::Namespaces::NewStub(cluster.channel(asked))->AcceptLoss(&call, request, &response).ok());
  CHECK(response.partitions_accepted() == 4);
  CHECK(Get(&cluster, asked, "data", there) == StatusCode::kNotFound);
  CHECK(Put(&cluster, asked, "data", there).ok());
  CHECK(Get(&cluster, asked, "data", here).ok());
}

TEST_CASE("ASuspendedNodeHangsNobodyAndGoesOnWithItsData") {
  TestCluster cluster({.nodes = 3});
  const std::size_t first = cluster.coordinator_index();
  const std::size_t victim = OtherThan(cluster, {first});
  const std::size_t asked = OtherThan(cluster, {first, victim});
  REQUIRE(cluster.CreateHash(asked, "data").ok());
  const std::string there = KeyOn(&cluster, asked, "data", cluster.node_id(victim));
  REQUIRE(Put(&cluster, asked, "data", there).ok());
  cluster.Suspend(victim);
  // Before it is known to be down: its part of the status is missing, the answer comes all the
  // same.
  const v1::StatusResponse status = cluster.StatusFrom(asked);
  const auto& entry = status.nodes(static_cast<int>(cluster.node_id(victim)));
  CHECK_FALSE(entry.has_status());
  CHECK_FALSE(entry.error().empty());
  REQUIRE(cluster.WaitForNodeState(victim, v1::NODE_STATE_DOWN, asked));
  CHECK(Get(&cluster, asked, "data", there) == StatusCode::kUnavailable);
  cluster.Resume(victim);
  REQUIRE(cluster.WaitForNodeState(victim, v1::NODE_STATE_UP, asked));
  CHECK(WaitUntil([&] { return Get(&cluster, asked, "data", there).ok(); }));
}

TEST_CASE("ABatchWaitsForAStoppedOwnerOnceAndItsOtherKeysAreServed") {
  // The stop of the node stays unnoticed during the test.
  TestCluster cluster({.nodes = 3, .lease_ms = 120'000});
  const std::size_t asked = cluster.coordinator_index();
  const std::size_t stopped = OtherThan(cluster, {asked});
  REQUIRE(cluster.CreateHash(asked, "batch").ok());
  constexpr int kKeys = 60;
  const auto execute = [&](v1::OperationKind kind, std::uint64_t timeout_ms) {
    grpc::ClientContext call;
    cluster.Prepare(&call, timeout_ms);
    v1::ExecuteRequest request;
    request.set_namespace_("batch");
    for (int i = 0; i < kKeys; ++i) {
      auto* operation = request.add_operations();
      operation->set_kind(kind);
      operation->set_key("key" + std::to_string(i));
      if (kind == v1::OPERATION_KIND_PUT) operation->set_value("v");
    }
    v1::ExecuteResponse response;
    const grpc::Status status =
        v1::Data::NewStub(cluster.channel(asked))->Execute(&call, request, &response);
    INFO(status.error_message());
    REQUIRE(status.ok());
    REQUIRE(response.results_size() == kKeys);
    return response;
  };
  const auto put = execute(v1::OPERATION_KIND_PUT, kPatienceMs);
  for (const auto& result : put.results()) REQUIRE(result.status().code() == 0);
  std::vector<bool> lost;
  for (int i = 0; i < kKeys; ++i) {
    lost.push_back(Locate(&cluster, asked, "batch", "key" + std::to_string(i)).node_id() ==
                   cluster.node_id(stopped));
  }
  CHECK(std::count(lost.begin(), lost.end(), true) > 4);
  cluster.Suspend(stopped);
  for (const auto kind : {v1::OPERATION_KIND_GET, v1::OPERATION_KIND_PUT}) {
    // The answer has to be here before the deadline, or the whole call fails.
    const auto response = execute(kind, 4'000);
    const auto expected =
        kind == v1::OPERATION_KIND_GET ? StatusCode::kDeadlineExceeded : StatusCode::kUnknown;
    for (int i = 0; i < kKeys; ++i) {
      const auto& status = response.results(i).status();
      INFO("key" << i << ": " << status.message());
      CHECK(status.code() == (lost[i] ? static_cast<std::uint32_t>(expected) : 0));
      if (!lost[i]) continue;
      CHECK(status.message().find("node " + std::to_string(cluster.node_id(stopped))) !=
            std::string::npos);
    }
  }
  cluster.Resume(stopped);
  const auto again = execute(v1::OPERATION_KIND_GET, kPatienceMs);
  for (const auto& result : again.results()) CHECK(result.status().code() == 0);
}

TEST_CASE("DataIsServedWithoutTheCoordinatorWhichComesBackWithItsState", "[embedded]") {
  TestCluster cluster({.nodes = 3});
  const std::size_t first = cluster.coordinator_index();
  const std::size_t asked = OtherThan(cluster, {first});
  REQUIRE(cluster.CreateHash(asked, "data").ok());
  const std::string here = KeyOn(&cluster, asked, "data", cluster.node_id(asked));
  const std::string there = KeyOn(&cluster, asked, "data", 0);
  REQUIRE(Put(&cluster, asked, "data", here).ok());
  REQUIRE(Put(&cluster, asked, "data", there).ok());
  const std::string uuid = cluster.ReadFile().cluster_uuid;
  const std::uint32_t term = Locate(&cluster, asked, "data", there).term();

  cluster.Kill(first);
  const Status refused = cluster.CreateHash(asked, "later", 3000);
  INFO(refused.ToString());
  CHECK(refused == StatusCode::kUnavailable);
  // Longer than a lease: the node extends its own.
  const Deadline longer = Deadline::AfterMs(2500);
  CHECK(WaitUntil([&] {
    REQUIRE(Get(&cluster, asked, "data", here).ok());
    return longer.Passed();
  }));

  cluster.Start(first);
  cluster.WaitReady();
  CHECK(cluster.node_id(first) == 0);
  CHECK(cluster.ReadFile().cluster_uuid == uuid);
  CHECK(WaitUntil([&] { return cluster.CreateHash(asked, "later").ok(); }));
  CHECK(WaitUntil([&] { return Get(&cluster, asked, "data", there) == StatusCode::kDataLoss; }));
  CHECK(Locate(&cluster, asked, "data", there).term() > term);
  CHECK(Get(&cluster, asked, "data", here).ok());
}

TEST_CASE("ACoordinatorThatIsStoppedIsSaidToBeSilent", "[embedded]") {
  TestCluster cluster({.nodes = 3});
  const std::size_t first = cluster.coordinator_index();
  const std::size_t asked = OtherThan(cluster, {first});
  REQUIRE(cluster.CreateHash(asked, "data").ok());
  const std::string there = KeyOn(&cluster, asked, "data", 0);
  REQUIRE(Put(&cluster, asked, "data", there).ok());
  CHECK(cluster.StatusFrom(asked).namespaces(0).partitions_silent() == 0);
  cluster.Suspend(first);
  // Far before the call's own deadline, once two leases have passed.
  Status refused;
  CHECK(WaitUntil([&] {
    refused = Get(&cluster, asked, "data", there);
    return refused == StatusCode::kUnavailable;
  }));
  INFO(refused.ToString());
  CHECK(refused.ToString().find("the coordinator, node 0") != std::string::npos);
  const Status unmade = cluster.CreateHash(asked, "later");
  INFO(unmade.ToString());
  CHECK(unmade == StatusCode::kUnavailable);
  CHECK(unmade.ToString().find("has not answered for") != std::string::npos);
  const v1::StatusResponse status = cluster.StatusFrom(asked);
  CHECK_FALSE(status.nodes(0).has_status());
  std::uint32_t silent = 0;
  for (const auto& space : status.namespaces()) silent += space.partitions_silent();
  CHECK(silent > 0);
  cluster.Resume(first);
  CHECK(WaitUntil([&] { return Get(&cluster, asked, "data", there).ok(); }));
}

TEST_CASE("AStrangerIsRefusedByName") {
  TestCluster cluster({.nodes = 1});
  Process by_file(KvdArguments(cluster, cluster.folder() + "/other", {}), {},
                  cluster.folder() + "/by-file");
  CHECK(by_file.Wait() == 1);
  CHECK(by_file.Errors().find(cluster.file()) != std::string::npos);
  CHECK(by_file.Errors().find("is live") != std::string::npos);
  Process by_address(JoinArguments(cluster, cluster.address(0)),
                     {"TIDEPOOL_TOKEN=" + cluster.token()}, cluster.folder() + "/by-address");
  CHECK(by_address.Wait() == 1);
  INFO(by_address.Errors());
  CHECK(by_address.Errors().find("is a stranger") != std::string::npos);
  CHECK(cluster.StatusFrom(0).nodes_size() == 1);
}

TEST_CASE("AWrongTokenJoinsNothing") {
  TestCluster cluster({.nodes = 2, .start = false});
  cluster.Start(0);
  REQUIRE(WaitUntil([&] { return std::filesystem::exists(cluster.file()); }));
  const std::string address = cluster.ReadFile().nodes[0].control_address;
  Process wrong(JoinArguments(cluster, address), {"TIDEPOOL_TOKEN=" + cluster_file::MakeToken()},
                cluster.folder() + "/wrong");
  CHECK(wrong.Wait() == 1);
  CHECK(wrong.Errors().find("UNAUTHENTICATED") != std::string::npos);
  // With the right token, by address alone, the cluster forms.
  Process right(JoinArguments(cluster, address), {"TIDEPOOL_TOKEN=" + cluster.token()},
                cluster.folder() + "/right");
  CHECK(WaitUntil([&] { return right.Output().find("kvd ready: node 1 of 2") == 0; }));
  right.Signal(SIGTERM);
  CHECK(right.Wait() == 0);
}

TEST_CASE("ACopyOfANodesFolderIsRefusedByName") {
  TestCluster cluster({.nodes = 1});
  const std::string copy = cluster.folder() + "/copy";
  std::filesystem::copy(cluster.data_folder(0), copy);
  Process clone({ProgramPath("kvd"), "--cluster=" + cluster.folder() + "/other.json",
                 "--data-dir=" + copy, "--memory=64MiB"},
                {}, cluster.folder() + "/clone");
  CHECK(clone.Wait() == 1);
  CHECK(clone.Errors().find("is a copy of that of node") != std::string::npos);
  Process twin({ProgramPath("kvd"), "--cluster=" + cluster.folder() + "/other.json",
                "--data-dir=" + cluster.data_folder(0), "--memory=64MiB"},
               {}, cluster.folder() + "/twin");
  CHECK(twin.Wait() == 1);
  CHECK(twin.Errors().find("another daemon runs in the data folder") != std::string::npos);
}

TEST_CASE("ANodeThatLeftInGoodOrderIsShownSoAndComesBack") {
  TestCluster cluster({.nodes = 2});
  const std::size_t first = cluster.coordinator_index();
  const std::size_t other = OtherThan(cluster, {first});
  REQUIRE(cluster.CreateHash(first, "empty").ok());
  CHECK(cluster.Terminate(other) == 0);
  REQUIRE(cluster.WaitForNodeState(other, v1::NODE_STATE_LEFT, first));
  CHECK(std::filesystem::exists(cluster.file()));
  cluster.Start(other);
  cluster.WaitReady();
  REQUIRE(cluster.WaitForNodeState(other, v1::NODE_STATE_UP, first));
  // It held no records, so none are lost.
  const v1::StatusResponse status = cluster.StatusFrom(first);
  for (const auto& space : status.namespaces()) {
    CHECK(space.partitions_lost() == 0);
    CHECK(space.partitions_down() == 0);
  }
}

}  // namespace
}  // namespace tidepool::testing
