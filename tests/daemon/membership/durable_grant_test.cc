// A node's durable namespaces, and the partitions that the coordinator grants again.
#include <catch2/catch.hpp>
#include <utility>
#include <vector>

#include "tests/daemon/membership/coordinator_fixture.h"

namespace tidepool::daemon {
namespace {

using placement::PartitionState;

bool Says(const Status& status, const std::string& text) {
  return status.ToString().find(text) != std::string::npos;
}

// A node with a device, and a durable namespace of two partitions beside a volatile namespace.
struct Fixture : CoordinatorFixture {
  Fixture() {
    REQUIRE(coordinator->Join(RequestWith(1)).ok());
    placement::NamespaceOptions options;
    options.partitions = 2;
    options.durability = "async";
    space = Create("d", options)->id;
    Create("v");
  }
  v1::JoinRequest RequestWith(std::uint64_t incarnation) {
    v1::JoinRequest request = RequestOf(1, incarnation);
    request.set_nvm(true);
    return request;
  }
  // The node comes back and brings these partitions of "d" {index, term}.
  Status Return(std::uint64_t incarnation,
                const std::vector<std::pair<std::uint32_t, std::uint32_t>>& kept,
                bool complete = true) {
    v1::JoinRequest request = RequestWith(incarnation);
    request.set_kept_complete(complete);
    request.set_kept_cluster_uuid(coordinator->cluster_uuid());
    for (const auto& [index, term] : kept) {
      auto* entry = request.add_kept();
      entry->set_namespace_id(space.value());
      entry->set_index(index);
      entry->set_term(term);
      entry->set_last_version(100 + index);
    }
    return coordinator->Join(request).status();
  }
  placement::PartitionPlace Place(std::uint32_t index) {
    return *Map()->Find(PartitionId(space, index));
  }

  NamespaceId space;
};

TEST_CASE("WhatANodeHasKeptGoesOnUnderANewTerm") {
  Fixture cluster;
  CHECK(cluster.Place(0).data_from == Term(1));
  REQUIRE(cluster.Return(2, {{0, 1}, {1, 1}}).ok());
  for (const std::uint32_t index : {0u, 1u}) {
    CHECK(cluster.Place(index).state == PartitionState::kActive);
    CHECK(cluster.Place(index).term == Term(2));
    CHECK(cluster.Place(index).data_from == Term(1));
  }
  // Volatile data beside it is lost as always.
  CHECK(cluster.Count("v", 0, PartitionState::kActive) == 0);
  cluster.Open();
  CHECK(cluster.Place(0).data_from == Term(1));
}

TEST_CASE("WhatANodeHasNotKeptIsLostAlthoughItLeftInGoodOrderAndEmpty") {
  Fixture cluster;
  REQUIRE(cluster.Leave(0, 1, {cluster.space.value()}).ok());
  REQUIRE(cluster.Return(2, {{1, 1}}).ok());
  CHECK(cluster.Place(0).state == PartitionState::kLost);
  CHECK(cluster.Place(1).state == PartitionState::kActive);
}

TEST_CASE("AGrantThatWasNeverServedCostsNothing") {
  Fixture cluster;
  // Two starts that ended between the coordinator's answer and the first of their own.
  REQUIRE(cluster.Return(2, {{0, 1}, {1, 1}}).ok());
  REQUIRE(cluster.Return(3, {{0, 1}, {1, 1}}).ok());
  REQUIRE(cluster.Return(4, {{0, 1}, {1, 3}}).ok());
  CHECK(cluster.Place(0).state == PartitionState::kActive);
  CHECK(cluster.Place(0).term == Term(4));
  CHECK(cluster.Place(1).state == PartitionState::kActive);
}

TEST_CASE("WhatWasGivenUpDoesNotComeBack") {
  Fixture cluster;
  REQUIRE(cluster.Return(2, {}).ok());
  REQUIRE(cluster.Place(0).state == PartitionState::kLost);
  SECTION("while it is lost") {
    REQUIRE(cluster.Return(3, {{0, 1}}).ok());
    CHECK(cluster.Place(0).state == PartitionState::kLost);
  }
  SECTION("after its loss was accepted") {
    REQUIRE(cluster.coordinator->AcceptLoss("d").ok());
    REQUIRE(cluster.Place(0).state == PartitionState::kActive);
    CHECK(cluster.Place(0).data_from == Term(3));
    REQUIRE(cluster.Return(3, {{0, 1}, {1, 3}}).ok());
    CHECK(cluster.Place(0).state == PartitionState::kLost);
    CHECK(cluster.Place(1).state == PartitionState::kActive);
  }
}

TEST_CASE("WhereLossMeansEmptyWhatIsKeptGoesOnAndTheRestIsEmpty") {
  Fixture cluster;
  placement::NamespaceOptions options;
  options.partitions = 1;
  options.durability = "async";
  options.on_loss = "empty";
  cluster.space = cluster.Create("e", options)->id;
  REQUIRE(cluster.Return(2, {{0, 1}}).ok());
  CHECK(cluster.Place(0).data_from == Term(1));
  REQUIRE(cluster.Return(3, {}).ok());
  CHECK(cluster.Place(0).state == PartitionState::kActive);
  CHECK(cluster.Place(0).data_from == Term(3));
}

TEST_CASE("OfADroppedNamespaceNothingComesBack") {
  Fixture cluster;
  REQUIRE(cluster.coordinator->DropNamespace("d").ok());
  REQUIRE(cluster.Return(2, {{0, 1}}).ok());
  CHECK(cluster.Map()->Find(cluster.space) == nullptr);
  placement::NamespaceOptions options;
  options.durability = "async";
  CHECK(cluster.Create("d", options)->id != cluster.space);
}

TEST_CASE("WhatADurableNamespaceHasLostIsRememberedUntilItIsAccepted") {
  Fixture cluster;
  cluster.clock.AdvanceNs(5'000'000'000);
  REQUIRE(cluster.Return(2, {{0, 1}}, /*complete=*/false).ok());
  cluster.Open();
  auto losses = cluster.Map()->Find("d")->losses;
  REQUIRE(losses.size() == 2);
  // Partition 0 may miss its last changes, of partition 1 nothing is there.
  const std::uint64_t now_ms = cluster.clock.WallMs();
  CHECK(losses[0] == placement::PartitionLoss{0, Term(1), false, Lsn(100), now_ms});
  CHECK(losses[1] == placement::PartitionLoss{1, Term(1), true, Lsn(), now_ms});
  CHECK(cluster.Map()->Find("v")->losses.empty());
  // A second time: the data of the first return is surely there.
  REQUIRE(cluster.Return(3, {{0, 2}}, /*complete=*/false).ok());
  CHECK(cluster.Map()->Find("d")->losses[0].after == Lsn(100));
  const auto accepted = cluster.coordinator->AcceptLoss("d");
  REQUIRE(accepted.ok());
  CHECK(accepted->partitions_accepted == 2);
  CHECK(cluster.Map()->Find("d")->losses.empty());
  CHECK(cluster.Place(0).data_from == Term(1));
}

TEST_CASE("ANodeThatStoppedInGoodOrderHasLostNothing") {
  Fixture cluster;
  REQUIRE(cluster.Return(2, {{0, 1}, {1, 1}}, /*complete=*/true).ok());
  CHECK(cluster.Map()->Find("d")->losses.empty());
}

TEST_CASE("KeptPartitionsThatCannotBeAreNone") {
  Fixture cluster;
  v1::JoinRequest request = cluster.RequestWith(2);
  request.set_kept_cluster_uuid(cluster.coordinator->cluster_uuid());
  for (const std::uint32_t number : {0u, 4096u, ~0u}) {
    auto* kept = request.add_kept();
    kept->set_namespace_id(number);
    kept->set_index(number);
    kept->set_term(number);
  }
  REQUIRE(cluster.coordinator->Join(request).ok());
  CHECK(cluster.Place(0).state == PartitionState::kLost);
}

TEST_CASE("ANodeThatBringsDurableDataOfAnotherClusterIsRefused") {
  Fixture cluster;
  v1::JoinRequest request = cluster.RequestWith(2);
  request.set_kept_cluster_uuid(CoordinatorFixture::UuidOf(9));
  const Status refused = cluster.coordinator->Join(request).status();
  CHECK(refused == StatusCode::kFailedPrecondition);
  CHECK(Says(refused, CoordinatorFixture::UuidOf(9)));
  CHECK(cluster.Place(0).state == PartitionState::kActive);
}

TEST_CASE("ANodeWithDurableDataDoesNotComeBackWithoutItsDevice") {
  Fixture cluster;
  const Status refused = cluster.coordinator->Join(CoordinatorFixture::RequestOf(1, 2)).status();
  CHECK(refused == StatusCode::kFailedPrecondition);
  CHECK(Says(refused, "'d'"));
  CHECK(Says(refused, "--nvm-dir"));
  REQUIRE(cluster.coordinator->DropNamespace("d").ok());
  CHECK(cluster.coordinator->Join(CoordinatorFixture::RequestOf(1, 2)).ok());
}

TEST_CASE("ADurableNamespaceNeedsADeviceOnEachOfItsNodes") {
  CoordinatorFixture cluster(2);
  v1::JoinRequest with = CoordinatorFixture::RequestOf(1);
  with.set_nvm(true);
  REQUIRE(cluster.coordinator->Join(with).ok());
  cluster.Join(2);
  placement::NamespaceOptions options;
  options.durability = "async";
  const auto create = [&] {
    return cluster.coordinator
        ->CreateNamespace("d", placement::Kind::kHash, options, Deadline::AfterMs(0))
        .status();
  };
  const Status refused = create();
  CHECK(refused == StatusCode::kFailedPrecondition);
  CHECK(Says(refused, "node 1 (host2)"));
  CHECK_FALSE(Says(refused, "node 0"));
  // The coordinator remembers the nodes with a grant.
  cluster.Open();
  REQUIRE(cluster.Heartbeat(0).ok());
  options.home = "0";
  CHECK(create().ok());
}

TEST_CASE("AMediumIsThatOfAllDevicesOfAllNodes") {
  CoordinatorFixture cluster(2);
  const auto join = [&](int daemon, std::uint64_t incarnation, const char* medium) {
    v1::JoinRequest request = CoordinatorFixture::RequestOf(daemon, incarnation);
    request.set_nvm(*medium != 0);
    request.set_nvm_medium(medium);
    return cluster.coordinator->Join(request).status();
  };
  const auto create = [&](const char* name, const char* medium, const char* home = "") {
    placement::NamespaceOptions options;
    options.medium = medium;
    options.home = home;
    return cluster.coordinator
        ->CreateNamespace(name, placement::Kind::kHash, options, Deadline::AfterMs(0))
        .status();
  };
  REQUIRE(join(1, 1, "dax").ok());
  REQUIRE(join(2, 1, "mixed").ok());
  CHECK(create("d", "tape") == StatusCode::kInvalidArgument);
  CHECK(create("d", "file") == StatusCode::kFailedPrecondition);
  const Status refused = create("d", "dax");
  CHECK(refused == StatusCode::kFailedPrecondition);
  CHECK(Says(refused, "node 1 (host2)"));
  CHECK_FALSE(Says(refused, "node 0"));
  cluster.Open();
  REQUIRE(cluster.Heartbeat(0).ok());
  REQUIRE(create("d", "dax", "0").ok());
  CHECK(create("d", "any", "0") == StatusCode::kAlreadyExists);
  CHECK(create("any", "any").ok());
  // It may not come back with other devices.
  const Status changed = join(1, 2, "file");
  CHECK(changed == StatusCode::kFailedPrecondition);
  CHECK(Says(changed, "'d'"));
  CHECK(join(1, 2, "") == StatusCode::kFailedPrecondition);
  CHECK(join(1, 2, "dax").ok());
}

TEST_CASE("TheOptionsThatDurabilityDoesNotTakeAreRefused") {
  CoordinatorFixture cluster;
  v1::JoinRequest with = CoordinatorFixture::RequestOf(1);
  with.set_nvm(true);
  REQUIRE(cluster.coordinator->Join(with).ok());
  const auto create = [&](placement::Kind kind, auto change) {
    placement::NamespaceOptions options;
    options.durability = "async";
    change(&options);
    return cluster.coordinator->CreateNamespace("d", kind, options, Deadline::AfterMs(0)).status();
  };
  const auto filter = [&](const char* durability) {
    return create(placement::Kind::kBloom, [&](auto* o) {
      o->durability = durability;
      o->expected_items = 9;
    });
  };
  CHECK(filter("sync") == StatusCode::kInvalidArgument);
  CHECK(filter("async").ok());
  REQUIRE(cluster.coordinator->DropNamespace("d").ok());
  CHECK(create(placement::Kind::kHash, [](auto* o) { o->prefilter = "admit"; }) ==
        StatusCode::kInvalidArgument);
  CHECK(create(placement::Kind::kHash, [](auto* o) { o->prefilter = "absent"; }).ok());
}

}  // namespace
}  // namespace tidepool::daemon
