// Grants of partitions to other nodes: of all grants that replace a term, at most one is given.
#include <catch2/catch.hpp>

#include "tests/daemon/membership/coordinator_fixture.h"

namespace tidepool::daemon {
namespace {

using placement::PartitionState;

// Two nodes and a namespace; partition 0 is of node 0.
struct Fixture : CoordinatorFixture {
  Fixture() : CoordinatorFixture(2) {
    Join(1);
    Join(2);
    space = Create("q")->id;
    REQUIRE(Place().node == NodeId(0));
  }
  placement::PartitionPlace Place() { return *Map()->Find(PartitionId(space, 0)); }
  v1::GrantPartitionRequest RequestFor(std::uint32_t target, std::uint32_t term = 1,
                                       std::uint32_t core = 1) const {
    v1::GrantPartitionRequest request;
    request.set_namespace_id(space.value());
    request.set_term(term);
    request.set_source_node(0);
    request.set_target_node(target);
    request.set_target_incarnation(1);
    request.set_core(core);
    return request;
  }
  v1::GrantPartitionResponse Ask(const v1::GrantPartitionRequest& request) {
    const auto answer = coordinator->GrantPartition(request);
    REQUIRE(answer.ok());
    return *answer;
  }

  NamespaceId space;
};

TEST_CASE("AGrantedPartitionIsTheTargetsUnderTheNextTermAndDurable") {
  Fixture cluster;
  const Epoch before = cluster.Map()->epoch;
  const auto answer = cluster.Ask(cluster.RequestFor(1));
  CHECK(answer.granted());
  CHECK(answer.epoch() == before.value() + 1);
  cluster.Open();
  CHECK(cluster.Place() ==
        placement::PartitionPlace{NodeId(1), CoreId(1), Term(2), PartitionState::kActive});
}

TEST_CASE("AGrantThatIsAskedForAgainIsGivenOnce") {
  Fixture cluster;
  REQUIRE(cluster.Ask(cluster.RequestFor(1)).granted());
  const Epoch epoch = cluster.Map()->epoch;
  const int saves = cluster.store.saves;
  CHECK(cluster.Ask(cluster.RequestFor(1)).granted());
  CHECK(cluster.store.saves == saves);
  CHECK(cluster.Map()->epoch == epoch);
  cluster.Open();
  CHECK(cluster.Ask(cluster.RequestFor(1)).granted());
}

TEST_CASE("OfOwnerAndTargetWhoAskForTheSameTermTheFirstHasIt") {
  Fixture cluster;
  SECTION("The owner") {
    REQUIRE(cluster.Ask(cluster.RequestFor(0, 1, 0)).granted());
    const auto late = cluster.Ask(cluster.RequestFor(1));
    CHECK_FALSE(late.granted());
    CHECK(late.superseded());
    CHECK(cluster.Place().node == NodeId(0));
    CHECK(cluster.Place().term == Term(2));
  }
  SECTION("The target") {
    REQUIRE(cluster.Ask(cluster.RequestFor(1)).granted());
    const auto late = cluster.Ask(cluster.RequestFor(0, 1, 0));
    CHECK_FALSE(late.granted());
    CHECK(late.superseded());
    CHECK(cluster.Place().node == NodeId(1));
  }
}

TEST_CASE("ATargetThatIsNotTheProcessOfTheMapGetsNothing") {
  Fixture cluster;
  auto request = cluster.RequestFor(1);
  request.set_target_incarnation(2);
  CHECK_FALSE(cluster.Ask(request).granted());
  CHECK_FALSE(cluster.Ask(cluster.RequestFor(1, 1, 7)).granted());
  CHECK_FALSE(cluster.Ask(cluster.RequestFor(9)).granted());
  cluster.Pass(2000, {0});
  const auto down = cluster.Ask(cluster.RequestFor(1));
  CHECK_FALSE(down.granted());
  CHECK_FALSE(down.superseded());
  CHECK(cluster.Place().term == Term(1));
}

TEST_CASE("ATargetWithTheWholeImageGetsThePartitionOfADeadOwner") {
  Fixture cluster;
  cluster.Pass(2000, {1});
  REQUIRE(cluster.Place().state == PartitionState::kDown);
  CHECK(cluster.Ask(cluster.RequestFor(1)).granted());
  CHECK(cluster.Place().state == PartitionState::kActive);
}

TEST_CASE("AnOwnerThatCameBackWithoutDataIsNotReplacedByAnOldImage") {
  Fixture cluster;
  cluster.Join(1, 2);
  REQUIRE(cluster.Place().state == PartitionState::kLost);
  CHECK(cluster.Ask(cluster.RequestFor(1)).superseded());
  auto request = cluster.RequestFor(1, 2);
  CHECK(cluster.Ask(request).superseded());  // Lost is not to be given on.
}

TEST_CASE("APartitionOfADroppedNamespaceIsGrantedToNobody") {
  Fixture cluster;
  REQUIRE(cluster.coordinator->DropNamespace("q").ok());
  CHECK(cluster.Ask(cluster.RequestFor(1)).superseded());
  auto request = cluster.RequestFor(1);
  request.set_partition(4'000'000'000u);
  CHECK(cluster.Ask(request).superseded());
}

TEST_CASE("AGrantThatCannotBeMadeDurableIsNone") {
  Fixture cluster;
  cluster.store.fails = true;
  const auto answer = cluster.Ask(cluster.RequestFor(1));
  CHECK_FALSE(answer.granted());
  CHECK_FALSE(answer.superseded());
  CHECK(cluster.Place().node == NodeId(0));
  cluster.store.fails = false;
  cluster.Open();
  CHECK(cluster.Place().term == Term(1));
  CHECK(cluster.Ask(cluster.RequestFor(1)).granted());
}

}  // namespace
}  // namespace tidepool::daemon
