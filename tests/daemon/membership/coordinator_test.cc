// Joining, heartbeats, nodes that come and go, and the coordinator's own restart.
#include "daemon/membership/coordinator.h"

#include <catch2/catch.hpp>

#include "proto/base/limits.h"
#include "tests/daemon/membership/coordinator_fixture.h"

namespace tidepool::daemon {
namespace {

using placement::NodeState;
using placement::PartitionState;

bool Says(const Status& status, const std::string& text) {
  return status.ToString().find(text) != std::string::npos;
}

TEST_CASE("TheClusterIsFormingUntilAllHaveJoined") {
  CoordinatorFixture cluster(3);
  cluster.Join(1);
  CHECK(cluster.Map()->forming());
  cluster.Join(2);
  CHECK(cluster.Map()->forming());
  CHECK(cluster.Map()->Find("default") == nullptr);
  cluster.Join(3);
  CHECK_FALSE(cluster.Map()->forming());
  const auto space = cluster.Map()->Find("default");
  REQUIRE(space != nullptr);
  CHECK(space->options.on_loss == "empty");
  CHECK(space->partitions.size() == 24);  // Four on each of six cores.
}

TEST_CASE("NodesGetIdsInTheOrderOfJoining") {
  CoordinatorFixture cluster(2);
  CHECK(cluster.coordinator->Join(cluster.RequestOf(7))->node_id() == 0);
  CHECK(cluster.coordinator->Join(cluster.RequestOf(4))->node_id() == 1);
  CHECK(cluster.Map()->nodes[1].uuid == cluster.UuidOf(4));
}

TEST_CASE("AStrangerIsRefusedByName") {
  CoordinatorFixture cluster(1);
  cluster.Join(1);
  const auto stranger = cluster.coordinator->Join(cluster.RequestOf(2));
  CHECK(stranger.code() == StatusCode::kFailedPrecondition);
  CHECK(Says(stranger.status(), cluster.UuidOf(2) + " on host2 is a stranger"));
  CHECK(cluster.Map()->nodes.size() == 1);
}

TEST_CASE("AJoinThatIsAskedAgainIsAnsweredAgain") {
  CoordinatorFixture cluster(1);
  cluster.Join(1);
  const Epoch epoch = cluster.Map()->epoch;
  const auto again = cluster.coordinator->Join(cluster.RequestOf(1));
  REQUIRE(again.ok());
  CHECK(again->node_id() == 0);
  CHECK(cluster.Map()->epoch == epoch);
}

TEST_CASE("OnlyAGreaterIncarnationComesBack") {
  CoordinatorFixture cluster(1);
  cluster.Join(1, 5);
  for (const std::uint64_t incarnation : {4ull, 5ull}) {
    v1::JoinRequest request = cluster.RequestOf(1, incarnation);
    request.set_pid(9999);  // Another process.
    const auto refused = cluster.coordinator->Join(request);
    CHECK(refused.code() == StatusCode::kFailedPrecondition);
    CHECK(Says(refused.status(), "has been seen with 5"));
  }
  cluster.Join(1, 6);
}

v1::JoinRequest MovedRequest(int what) {
  v1::JoinRequest moved = CoordinatorFixture::RequestOf(1, 2);
  if (what == 0) moved.set_host("elsewhere");
  if (what == 1) moved.set_directory_device(77);
  if (what == 2) moved.set_directory_inode(77);
  moved.set_directory("/copy");
  return moved;
}

TEST_CASE("ACopyOfTheFolderOfALiveNodeIsRefusedByName") {
  for (int what = 0; what < 3; ++what) {
    CoordinatorFixture cluster(1);
    cluster.Join(1, 1);
    // It may have crashed just now.
    CHECK(cluster.coordinator->Join(MovedRequest(what)).code() == StatusCode::kUnavailable);
    cluster.Pass(200, {0});
    const auto refused = cluster.coordinator->Join(MovedRequest(what));
    CHECK(refused.code() == StatusCode::kFailedPrecondition);
    CHECK(Says(refused.status(), "/copy"));
    CHECK(Says(refused.status(), "/data1"));
    CHECK(Says(refused.status(), "alive"));
    CHECK_FALSE(Says(refused.status(), "remove"));
  }
}

TEST_CASE("AMovedFolderIsAdmittedOnceTheNodeIsDown") {
  for (int what = 0; what < 3; ++what) {
    CoordinatorFixture cluster(2);
    cluster.Join(1, 1);
    cluster.Join(2, 1);
    CHECK(cluster.coordinator->Join(MovedRequest(what)).code() == StatusCode::kUnavailable);
    cluster.Pass(1200, {1});
    const auto moved = cluster.coordinator->Join(MovedRequest(what));
    INFO(moved.status().ToString());
    REQUIRE(moved.ok());
    CHECK(moved->node_id() == 0);
  }
}

v1::JoinRequest Marked(std::uint64_t incarnation, const std::string& mark,
                       const std::string& before) {
  v1::JoinRequest request = CoordinatorFixture::RequestOf(1, incarnation);
  request.set_mark(mark);
  request.set_mark_before(before);
  return request;
}

TEST_CASE("AnOlderCopyIsToldByItsMark") {
  CoordinatorFixture cluster(2);
  cluster.Join(2, 1);
  REQUIRE(cluster.coordinator->Join(Marked(1, "m1", "")).ok());
  REQUIRE(cluster.coordinator->Join(Marked(2, "m2", "m1")).ok());
  // The answer was lost, so the folder knows its mark only as the next mark.
  REQUIRE(cluster.coordinator->Join(Marked(3, "m2", "m1")).ok());
  // A copy from before, which was started often.
  v1::JoinRequest older = Marked(9, "m2'", "m1");
  const auto refused = cluster.coordinator->Join(older);
  CHECK(refused.code() == StatusCode::kFailedPrecondition);
  CHECK(Says(refused.status(), "older copy"));
  CHECK(Says(refused.status(), "--adopt"));
  cluster.Pass(1200, {0});
  older.set_adopt(true);
  REQUIRE(cluster.coordinator->Join(older).ok());
  // The mark outlives the coordinator.
  cluster.Open();
  CHECK(cluster.coordinator->Join(Marked(10, "m3", "m2")).code() ==
        StatusCode::kFailedPrecondition);
  CHECK(cluster.coordinator->Join(Marked(10, "m3", "m2'")).ok());
}

TEST_CASE("AnotherClusterOrVersionIsRefused") {
  CoordinatorFixture cluster(2);
  cluster.Join(1);
  v1::JoinRequest request = cluster.RequestOf(2);
  request.set_cluster_uuid(cluster.UuidOf(99));
  CHECK(cluster.coordinator->Join(request).code() == StatusCode::kFailedPrecondition);
  request = cluster.RequestOf(2);
  request.set_version("2");
  const auto refused = cluster.coordinator->Join(request);
  CHECK(refused.code() == StatusCode::kFailedPrecondition);
  CHECK(Says(refused.status(), "version 2, the coordinator 1"));
}

TEST_CASE("MalformedRequestsToJoinAreRefused") {
  CoordinatorFixture cluster(2);
  const auto refused = [&](auto damage) {
    v1::JoinRequest request = cluster.RequestOf(1);
    damage(&request);
    return cluster.coordinator->Join(request).code() == StatusCode::kInvalidArgument;
  };
  CHECK(refused([](auto* r) { r->set_uuid("x"); }));
  CHECK(refused([](auto* r) { r->set_incarnation(0); }));
  CHECK(refused([](auto* r) { r->set_cores(0); }));
  CHECK(refused([](auto* r) { r->set_cores(65); }));
  CHECK(refused([](auto* r) { r->clear_control_address(); }));
  CHECK(refused([](auto* r) { r->set_host(std::string(300, 'h')); }));
}

TEST_CASE("ASilentNodeIsDownAfterItsLeaseAndItsPartitionsWithIt") {
  CoordinatorFixture cluster(2);
  cluster.Join(1);
  cluster.Join(2);
  cluster.Create("data");
  cluster.Pass(900, {0});
  CHECK(cluster.StateOf(1) == NodeState::kUp);
  cluster.Pass(300, {0});
  CHECK(cluster.StateOf(1) == NodeState::kDown);
  CHECK(cluster.StateOf(0) == NodeState::kUp);
  CHECK(cluster.Count("data", 1, PartitionState::kDown) == 8);
  CHECK(cluster.Count("data", 0, PartitionState::kActive) == 8);
}

TEST_CASE("ASilentNodeOfWhichTheStoreHasWordIsUp") {
  CoordinatorFixture cluster(3);
  for (const int daemon : {1, 2, 3}) cluster.Join(daemon);
  cluster.store.alive.emplace(cluster.UuidOf(2), true);
  cluster.Pass(1200, {0});
  CHECK(cluster.StateOf(1) == NodeState::kUp);
  CHECK(cluster.StateOf(2) == NodeState::kDown);
  // While the store says nothing about it, no node can be called down.
  cluster.store.alive.insert_or_assign(
      cluster.UuidOf(2), Status(StatusCode::kUnavailable, "the store does not answer"));
  cluster.Pass(1200, {0});
  CHECK(cluster.StateOf(1) == NodeState::kUp);
  cluster.store.alive.insert_or_assign(cluster.UuidOf(2), false);
  cluster.Pass(200, {0});
  CHECK(cluster.StateOf(1) == NodeState::kDown);
}

TEST_CASE("NobodyIsHeardWhileASaveMayHaveReplacedTheState") {
  CoordinatorFixture cluster(2);
  cluster.Join(1);
  cluster.Join(2);
  REQUIRE(cluster.Heartbeat(1).ok());
  cluster.store.reloads = true;
  CHECK(cluster.Heartbeat(1) == StatusCode::kUnavailable);
}

TEST_CASE("ADaemonWithAnotherKindOfStoreIsRefused") {
  CoordinatorFixture cluster(2);
  cluster.Join(1);
  v1::JoinRequest request = cluster.RequestOf(2);
  request.set_store("etcd");
  const auto refused = cluster.coordinator->Join(request);
  CHECK(refused.code() == StatusCode::kFailedPrecondition);
  CHECK(Says(refused.status(), "--store etcd"));
}

TEST_CASE("ANodeThatWasOnlySilentGoesOnWithItsDataUnderTheSameTerms") {
  CoordinatorFixture cluster(2);
  cluster.Join(1);
  cluster.Join(2);
  const auto before = cluster.Create("data")->partitions;
  cluster.Pass(2000, {0});
  REQUIRE(cluster.StateOf(1) == NodeState::kDown);
  REQUIRE(cluster.Heartbeat(1).ok());
  CHECK(cluster.StateOf(1) == NodeState::kUp);
  CHECK(cluster.Map()->Find("data")->partitions == before);
}

TEST_CASE("ADeathThatTheStoreHearsOfIsKnownBeforeTheLeaseEnds") {
  CoordinatorFixture cluster(2);
  cluster.store.hears_of_deaths = true;
  cluster.Join(1);
  cluster.Join(2);
  auto& alive = cluster.store.alive;
  const std::string uuid = CoordinatorFixture::UuidOf(2);
  alive.insert_or_assign(uuid, Result<bool>(true));
  cluster.Pass(5 * CoordinatorFixture::kLeaseMs, {0});
  CHECK(cluster.StateOf(1) == NodeState::kUp);
  // Nothing is known while the store does not answer.
  alive.insert_or_assign(uuid, Result<bool>(Status(StatusCode::kUnavailable, "no answer")));
  cluster.Pass(500, {0});
  CHECK(cluster.StateOf(1) == NodeState::kUp);
  alive.insert_or_assign(uuid, Result<bool>(false));
  cluster.Pass(CoordinatorFixture::kHeartbeatMs, {0});
  CHECK(cluster.StateOf(1) == NodeState::kDown);
}

TEST_CASE("ASilentNodeHasTwoHeartbeatsBeforeTheStoreIsAsked") {
  CoordinatorFixture cluster(2);
  cluster.store.hears_of_deaths = true;
  cluster.Join(1);
  cluster.Join(2);
  cluster.store.alive.insert_or_assign(CoordinatorFixture::UuidOf(2), Result<bool>(false));
  cluster.Pass(2 * CoordinatorFixture::kHeartbeatMs, {0});
  CHECK(cluster.StateOf(1) == NodeState::kUp);
  cluster.Pass(CoordinatorFixture::kHeartbeatMs, {0});
  CHECK(cluster.StateOf(1) == NodeState::kDown);
}

TEST_CASE("ACoordinatorThatSleptBlamesNobody") {
  CoordinatorFixture cluster(2);
  cluster.Join(1);
  cluster.Join(2);
  cluster.Pass(200, {0, 1});
  cluster.clock.AdvanceNs(60'000'000'000);  // Stopped for a minute: no heartbeat could be heard.
  cluster.coordinator->Tick();
  CHECK(cluster.StateOf(1) == NodeState::kUp);
  cluster.Pass(1500, {0});
  CHECK(cluster.StateOf(1) == NodeState::kDown);
}

TEST_CASE("ARestartedNodeGetsNewTermsAndItsDataIsLostUntilAccepted") {
  CoordinatorFixture cluster(2);
  cluster.Join(1);
  cluster.Join(2);
  const auto before = cluster.Create("data")->partitions;
  cluster.Join(2, 2);
  CHECK(cluster.Count("data", 1, PartitionState::kLost) == 8);
  CHECK(cluster.Count("data", 0, PartitionState::kActive) == 8);
  const auto after = cluster.Map()->Find("data")->partitions;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const bool is_its = before[i].node == NodeId(1);
    CHECK(after[i].term.value() == before[i].term.value() + (is_its ? 1 : 0));
  }
  const auto accepted = cluster.coordinator->AcceptLoss("data");
  REQUIRE(accepted.ok());
  CHECK(accepted->partitions_accepted == 8);
  CHECK(cluster.Count("data", 1, PartitionState::kActive) == 8);
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i].node != NodeId(1)) continue;
    CHECK(cluster.Map()->Find("data")->partitions[i].term.value() == before[i].term.value() + 2);
  }
  CHECK(cluster.coordinator->AcceptLoss("data")->partitions_accepted == 0);
}

TEST_CASE("LostDataStaysLostWhenTheNodeRestartsAgain") {
  CoordinatorFixture cluster(1);
  cluster.Join(1);
  cluster.Create("data");
  cluster.Join(1, 2);
  cluster.Join(1, 3);
  CHECK(cluster.Count("data", 0, PartitionState::kLost) == 8);
  cluster.Pass(2000, {});
  REQUIRE(cluster.Heartbeat(0, 3).ok());
  CHECK(cluster.Count("data", 0, PartitionState::kLost) == 8);
}

TEST_CASE("ANamespaceThatMayLoseItsDataComesBackEmpty") {
  CoordinatorFixture cluster(1);
  cluster.Join(1);
  placement::NamespaceOptions options;
  options.on_loss = "empty";
  cluster.Create("cache", options);
  cluster.Join(1, 2);
  CHECK(cluster.Count("cache", 0, PartitionState::kActive) == 8);
  CHECK(cluster.Count("default", 0, PartitionState::kActive) == 8);
}

TEST_CASE("LossIsAcceptedOnlyWhereTheOwnerIsUp") {
  CoordinatorFixture cluster(2);
  cluster.Join(1);
  cluster.Join(2);
  cluster.Create("data");
  cluster.Join(2, 2);
  cluster.Pass(2000, {0});
  REQUIRE(cluster.StateOf(1) == NodeState::kDown);
  CHECK(cluster.coordinator->AcceptLoss("data")->partitions_accepted == 0);
  REQUIRE(cluster.Heartbeat(1, 2).ok());
  CHECK(cluster.coordinator->AcceptLoss("data")->partitions_accepted == 8);
}

TEST_CASE("WhoLeftHoldingNothingLosesNothing") {
  CoordinatorFixture cluster(2);
  cluster.Join(1);
  cluster.Join(2);
  const auto empty = cluster.Create("empty");
  cluster.Create("full");
  REQUIRE(cluster.Leave(1, 1, {empty->id.value()}).ok());
  CHECK(cluster.StateOf(1) == NodeState::kLeft);
  CHECK(cluster.Count("empty", 1, PartitionState::kDown) == 8);
  cluster.Join(2, 2);
  CHECK(cluster.Count("empty", 1, PartitionState::kActive) == 8);
  CHECK(cluster.Count("full", 1, PartitionState::kLost) == 8);
  // It counted for a single restart only.
  cluster.Join(2, 3);
  CHECK(cluster.Count("empty", 1, PartitionState::kLost) == 8);
}

TEST_CASE("WhoLeftIsNotHeardAnyMore") {
  CoordinatorFixture cluster(2);
  cluster.Join(1);
  cluster.Join(2);
  REQUIRE(cluster.Leave(1).ok());
  REQUIRE(cluster.Leave(1).ok());  // Said again.
  CHECK(cluster.Heartbeat(1) == StatusCode::kFailedPrecondition);
  CHECK(cluster.StateOf(1) == NodeState::kLeft);
}

TEST_CASE("ADeposedProcessIsToldSo") {
  CoordinatorFixture cluster(1);
  cluster.Join(1, 1);
  cluster.Join(1, 2);
  const Status deposed = cluster.Heartbeat(0, 1);
  CHECK(deposed == StatusCode::kFailedPrecondition);
  CHECK(Says(deposed, "started again"));
  CHECK(cluster.Leave(0, 1) == StatusCode::kFailedPrecondition);
  CHECK(cluster.StateOf(0) == NodeState::kUp);
  CHECK(cluster.Heartbeat(5) == StatusCode::kNotFound);
}

TEST_CASE("ANodeWithFewerCoresKeepsItsPartitionsOnThoseItHas") {
  CoordinatorFixture cluster(1);
  cluster.Join(1, 1, 4);
  cluster.Create("data");
  cluster.Join(1, 2, 1);
  const auto space = cluster.Map()->Find("data");
  for (const auto& place : space->partitions) {
    CHECK(place.core == CoreId(0));
  }
}

TEST_CASE("ANodeThatWasGrantedTooOftenIsRefused") {
  CoordinatorFixture cluster(1);
  cluster.Join(1);
  auto state = **cluster.store.Load();
  auto space = std::make_shared<placement::Namespace>(*state.map.Find("default"));
  space->partitions[0].term = Term(limits::kTermMax);
  state.map.namespaces[space->id] = space;
  REQUIRE(cluster.store.Save(state, state.map.epoch).ok());
  cluster.Open();
  CHECK(cluster.coordinator->Join(cluster.RequestOf(1, 2)).code() ==
        StatusCode::kResourceExhausted);
}

TEST_CASE("WhatCannotBeSavedDidNotHappen") {
  CoordinatorFixture cluster(2);
  cluster.Join(1);
  cluster.Join(2);
  const auto map = cluster.Map();
  cluster.store.fails = true;
  CHECK(cluster.coordinator->CreateNamespace("x", placement::Kind::kHash, {}, Deadline::AfterMs(0))
            .code() == StatusCode::kResourceExhausted);
  CHECK(cluster.coordinator->Join(cluster.RequestOf(2, 2)).code() ==
        StatusCode::kResourceExhausted);
  cluster.Pass(2000, {0});
  CHECK(cluster.Map() == map);
  cluster.store.fails = false;
  cluster.Pass(2000, {0});
  CHECK(cluster.StateOf(1) == NodeState::kDown);
}

TEST_CASE("ARestartedCoordinatorGoesOnWhereItWas") {
  CoordinatorFixture cluster(2);
  cluster.Join(1);
  cluster.Join(2);
  const auto data = cluster.Create("data");
  cluster.Create("dropped");
  const auto dropped = cluster.coordinator->DropNamespace("dropped");
  REQUIRE(dropped.ok());
  const std::string uuid = cluster.coordinator->cluster_uuid();
  cluster.Open();
  CHECK(cluster.coordinator->cluster_uuid() == uuid);
  CHECK(cluster.Map()->epoch == *dropped);
  CHECK(cluster.Map()->Find("data")->partitions == data->partitions);
  // The other node never noticed; the coordinator's own gets new terms.
  REQUIRE(cluster.Heartbeat(1).ok());
  cluster.Join(1, 2);
  CHECK(cluster.Map()->epoch > *dropped);
  CHECK(cluster.Count("data", 1, PartitionState::kActive) == 8);
  CHECK(cluster.Count("data", 0, PartitionState::kLost) == 8);
  // Ids are never given twice.
  CHECK(cluster.Create("later")->id.value() == data->id.value() + 2);
}

TEST_CASE("ARestartedCoordinatorGivesItsNodesTimeToBeHeard") {
  CoordinatorFixture cluster(2);
  cluster.Join(1);
  cluster.Join(2);
  cluster.clock.AdvanceNs(3'600'000'000'000);
  cluster.Open();
  cluster.coordinator->Tick();
  CHECK(cluster.StateOf(1) == NodeState::kUp);
  cluster.Join(1, 2);
  for (int i = 0; i < 15; ++i) {
    cluster.clock.AdvanceNs(100'000'000);
    REQUIRE(cluster.Heartbeat(0, 2).ok());
    cluster.coordinator->Tick();
  }
  CHECK(cluster.StateOf(1) == NodeState::kDown);
}

TEST_CASE("AStateOfAnotherNumberOfNodesIsRefused") {
  CoordinatorFixture cluster(2);
  cluster.Join(1);
  const auto opened = Coordinator::Open(&cluster.store, {3, true, 1000, 100}, cluster.clock);
  CHECK(opened.code() == StatusCode::kFailedPrecondition);
  CHECK(Says(opened.status(), "--nodes 2"));
  CHECK(Coordinator::Open(&cluster.store, {1, false, 1000, 100}, cluster.clock).ok());
}

TEST_CASE("HeartbeatsCarryTheMapToWhoLacksIt") {
  CoordinatorFixture cluster(1);
  cluster.Join(1);
  v1::HeartbeatRequest request;
  request.set_incarnation(1);
  request.set_known_epoch(cluster.Map()->epoch.value());
  CHECK_FALSE(cluster.coordinator->Heartbeat(request)->has_map());
  cluster.Create("new");
  const auto answer = cluster.coordinator->Heartbeat(request);
  REQUIRE(answer->has_map());
  CHECK(answer->map().since_epoch() == request.known_epoch());
  REQUIRE(answer->map().namespaces_size() == 1);
  CHECK(answer->map().namespaces(0).name() == "new");
}

}  // namespace
}  // namespace tidepool::daemon
