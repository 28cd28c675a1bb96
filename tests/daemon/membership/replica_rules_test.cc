// Copies of namespaces with replicas: who gets them, and who takes over.
#include "daemon/membership/replica_rules.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "daemon/membership/entry_change.h"
#include "tests/daemon/membership/coordinator_fixture.h"

namespace tidepool::daemon {
namespace {

using placement::CopyPlace;
using placement::NodeState;
using placement::PartitionPlace;
using placement::PartitionState;
using What = v1::EntryStep::What;

placement::NamespaceOptions Doubled(std::uint32_t partitions = 6) {
  placement::NamespaceOptions options;
  options.replicas = 2;
  options.partitions = partitions;
  return options;
}

// Three nodes whose store hears of deaths, and a namespace with two copies of each partition.
struct Fixture : CoordinatorFixture {
  Fixture() : CoordinatorFixture(3) {
    store.hears_of_deaths = true;
    for (int node = 1; node <= 3; ++node) {
      store.alive.insert_or_assign(UuidOf(node), true);
      Join(node);
    }
    space = Create("copied", Doubled())->id;
  }
  std::vector<PartitionPlace> Places() { return Map()->Find(space)->partitions; }
  PartitionPlace Place(std::uint32_t index = 0) { return Places().at(index); }

  StatusCode Ask(What what, std::uint32_t index, const CopyPlace& copy, std::uint64_t version) {
    v1::ChangePartitionRequest request;
    request.set_namespace_id(space.value());
    request.set_partition(index);
    request.set_term(Place(index).term.value());
    request.set_version(version);
    v1::EntryStep* const step = request.add_steps();
    step->set_what(what);
    step->set_node_id(copy.node.value());
    step->set_incarnation(copy.incarnation);
    const auto answer = coordinator->ChangePartition(request);
    REQUIRE(answer.ok());
    return static_cast<StatusCode>(answer->code());
  }
  StatusCode Ask(What what, std::uint32_t index) {
    return Ask(what, index, Place(index).copies.at(0), Place(index).version);
  }
  void AdmitAll() {
    for (std::uint32_t i = 0; i < Places().size(); ++i) {
      if (!Place(i).copies.empty() && !Place(i).copies[0].in_sync) {
        REQUIRE(Ask(v1::EntryStep::WHAT_ADMIT, i) == StatusCode::kOk);
      }
    }
  }
  void Suspect(std::uint32_t node, std::uint64_t incarnation = 1) {
    v1::ChangePartitionRequest request;
    v1::EntryStep* const step = request.add_steps();
    step->set_what(v1::EntryStep::WHAT_SUSPECT);
    step->set_node_id(node);
    step->set_incarnation(incarnation);
    REQUIRE(coordinator->ChangePartition(request).ok());
  }
  void Dies(std::uint32_t node) {
    store.alive.insert_or_assign(UuidOf(static_cast<int>(node) + 1), false);
    Suspect(node);
  }

  NamespaceId space;
};

TEST_CASE("EveryPartitionGetsAJoiningCopyOnAnotherHostAndTheyAreSpread") {
  Fixture fixture;
  std::map<NodeId, int> held;
  for (const PartitionPlace& place : fixture.Places()) {
    REQUIRE(place.copies.size() == 1);
    CHECK(place.copies[0].node != place.node);
    CHECK_FALSE(place.copies[0].in_sync);
    CHECK(place.copies[0].since == place.version);
    ++held[place.node];
    ++held[place.copies[0].node];
  }
  for (const auto& [node, count] : held) CHECK(count == 4);
  CHECK(held.size() == 3);
}

TEST_CASE("ACopyOnTheSameHostIsTakenOnlyIfThereIsNoOther") {
  CoordinatorFixture fixture(3);
  fixture.store.hears_of_deaths = true;
  for (int node = 1; node <= 3; ++node) {
    auto request = CoordinatorFixture::RequestOf(node);
    request.set_host(node == 3 ? "apart" : "together");
    REQUIRE(fixture.coordinator->Join(request).ok());
  }
  const auto made = fixture.Create("copied", Doubled());
  for (const PartitionPlace& place : made->partitions) {
    CHECK(place.copies.empty());  // As it was made.
  }
  const auto map = fixture.Map();
  for (const PartitionPlace& place : map->Find("copied")->partitions) {
    REQUIRE(place.copies.size() == 1);
    const bool is_apart = place.node == NodeId(2);
    CHECK((place.copies[0].node == NodeId(2)) != is_apart);
  }
}

TEST_CASE("AnOwnerThatIsGoneIsReplacedByItsInSyncCopyInOneSave") {
  Fixture fixture;
  fixture.AdmitAll();
  const std::vector<PartitionPlace> before = fixture.Places();
  const int saves = fixture.store.saves;
  fixture.Dies(1);
  CHECK(fixture.store.saves == saves + 1);
  CHECK(fixture.StateOf(1) == NodeState::kDown);
  REQUIRE(fixture.store.dead_of_last.size() == 1);
  CHECK(fixture.store.dead_of_last[0] == DeadProcess{CoordinatorFixture::UuidOf(2), 1});
  for (std::uint32_t i = 0; i < before.size(); ++i) {
    const PartitionPlace place = fixture.Place(i);
    CHECK(place.state == PartitionState::kActive);
    if (before[i].node == NodeId(1)) {
      CHECK(place.node == before[i].copies[0].node);
      CHECK(place.core == before[i].copies[0].core);
      CHECK(place.term.value() == before[i].term.value() + 1);
      CHECK(place.data_from == before[i].data_from);
    } else {
      CHECK(place.node == before[i].node);
      CHECK(place.term == before[i].term);
    }
    // The third node fills up what is missing.
    REQUIRE(place.copies.size() == 1);
    CHECK(place.copies[0].node != NodeId(1));
    CHECK(place.copies[0].node != place.node);
  }
}

TEST_CASE("AnOwnerThatRegistersBeforeTheSaveIsNotReplaced") {
  Fixture fixture;
  fixture.AdmitAll();
  const std::vector<PartitionPlace> before = fixture.Places();
  fixture.store.registers_meanwhile.insert(CoordinatorFixture::UuidOf(2));
  fixture.Dies(1);
  CHECK(fixture.StateOf(1) == NodeState::kUp);
  CHECK(fixture.Places() == before);
  // Its heartbeat lets it serve on, and the next look finds it alive.
  fixture.store.alive.insert_or_assign(CoordinatorFixture::UuidOf(2), true);
  CHECK(fixture.Heartbeat(1).ok());
  fixture.Suspect(1);
  CHECK(fixture.Places() == before);
}

TEST_CASE("AnOwnerThatLivesIsNotReplacedBySuspicion") {
  Fixture fixture;
  fixture.AdmitAll();
  const Epoch epoch = fixture.Map()->epoch;
  fixture.Suspect(1);
  fixture.Suspect(7);
  fixture.Suspect(1, 9);
  CHECK(fixture.Map()->epoch == epoch);
}

TEST_CASE("AJoiningCopyNeverTakesOver") {
  Fixture fixture;
  std::vector<PartitionPlace> before = fixture.Places();
  fixture.Dies(1);
  for (std::uint32_t i = 0; i < before.size(); ++i) {
    if (before[i].node != NodeId(1)) continue;
    CHECK(fixture.Place(i).node == NodeId(1));
    CHECK(fixture.Place(i).state == PartitionState::kDown);
  }
  // The same process comes back with what it has.
  fixture.store.alive.insert_or_assign(CoordinatorFixture::UuidOf(2), true);
  CHECK(fixture.Heartbeat(1).ok());
  for (std::uint32_t i = 0; i < before.size(); ++i) {
    CHECK(fixture.Place(i).state == PartitionState::kActive);
    CHECK(fixture.Place(i).node == before[i].node);
    CHECK(fixture.Place(i).term == before[i].term);
  }
}

TEST_CASE("ARestartedOwnerFindsItsSuccessor") {
  Fixture fixture;
  fixture.AdmitAll();
  const std::vector<PartitionPlace> before = fixture.Places();
  fixture.Join(2, 2);  // Quicker than anybody noticed its end.
  for (std::uint32_t i = 0; i < before.size(); ++i) {
    const bool was_its = before[i].node == NodeId(1);
    CHECK(fixture.Place(i).node == (was_its ? before[i].copies[0].node : before[i].node));
    CHECK(fixture.Place(i).state == PartitionState::kActive);
    // No copy of its earlier process counts.
    for (const CopyPlace& copy : fixture.Place(i).copies) {
      CHECK((copy.node != NodeId(1) || (copy.incarnation == 2 && !copy.in_sync)));
    }
  }
}

TEST_CASE("AnOwnerThatLeavesHandsOverToItsCopy") {
  Fixture fixture;
  fixture.AdmitAll();
  const std::vector<PartitionPlace> before = fixture.Places();
  REQUIRE(fixture.Leave(1).ok());
  CHECK(fixture.store.dead_of_last.empty());  // It said so itself.
  for (std::uint32_t i = 0; i < before.size(); ++i) {
    CHECK(fixture.Place(i).node != NodeId(1));
    CHECK(fixture.Place(i).state == PartitionState::kActive);
  }
}

TEST_CASE("WhereOwnerAndCopyAreDownTheFirstThatComesBackServes") {
  Fixture fixture;
  fixture.AdmitAll();
  const std::vector<PartitionPlace> before = fixture.Places();
  // All but the coordinator's node, at once.
  for (int node = 1; node <= 3; ++node) {
    fixture.store.alive.insert_or_assign(CoordinatorFixture::UuidOf(node), false);
  }
  fixture.Pass(CoordinatorFixture::kLeaseMs + 200, {});
  for (const PartitionPlace& place : fixture.Places()) CHECK(place.state == PartitionState::kDown);
  fixture.store.alive.insert_or_assign(CoordinatorFixture::UuidOf(2), true);
  CHECK(fixture.Heartbeat(1).ok());
  for (std::uint32_t i = 0; i < before.size(); ++i) {
    const bool is_copy = before[i].copies[0].node == NodeId(1);
    const bool is_owner = before[i].node == NodeId(1);
    CHECK((fixture.Place(i).state == PartitionState::kActive) == (is_copy || is_owner));
    if (is_copy) CHECK(fixture.Place(i).node == NodeId(1));
    if (!is_copy) CHECK(fixture.Place(i).node == before[i].node);
  }
}

TEST_CASE("WithoutALivingCopyARestartedOwnerHasLostIt") {
  Fixture fixture;
  fixture.AdmitAll();
  const std::vector<PartitionPlace> before = fixture.Places();
  for (int node = 2; node <= 3; ++node) {
    fixture.store.alive.insert_or_assign(CoordinatorFixture::UuidOf(node), false);
  }
  fixture.Pass(CoordinatorFixture::kLeaseMs + 200, {0});
  fixture.Join(2, 2);
  fixture.Join(3, 2);
  bool some_lost = false;
  for (std::uint32_t i = 0; i < before.size(); ++i) {
    const bool both = before[i].node != NodeId(0) && before[i].copies[0].node != NodeId(0);
    CHECK((fixture.Place(i).state == PartitionState::kLost) == both);
    if (both) CHECK(fixture.Place(i).data_from == fixture.Place(i).term);
    some_lost = some_lost || both;
  }
  CHECK(some_lost);
}

TEST_CASE("ADroppedCopyIsReplacedAfterAPause") {
  Fixture fixture;
  fixture.AdmitAll();
  REQUIRE(fixture.Ask(v1::EntryStep::WHAT_DROP, 0) == StatusCode::kOk);
  CHECK(fixture.Place(0).copies.empty());
  fixture.Pass(9'000, {0, 1, 2});
  CHECK(fixture.Place(0).copies.empty());
  fixture.Pass(1'500, {0, 1, 2});
  REQUIRE(fixture.Place(0).copies.size() == 1);
  CHECK_FALSE(fixture.Place(0).copies[0].in_sync);
}

TEST_CASE("ARequestForAnEarlierCopyOfTheSameProcessIsRefused") {
  Fixture fixture;
  const PartitionPlace before = fixture.Place(0);
  const CopyPlace copy = before.copies[0];
  // Its node was down for a moment: the copy was dropped, and named again.
  fixture.store.alive.insert_or_assign(CoordinatorFixture::UuidOf(copy.node.value() + 1), false);
  fixture.Suspect(copy.node.value());
  CHECK(fixture.Ask(v1::EntryStep::WHAT_ADMIT, 0, copy, before.version) == StatusCode::kAborted);
  CHECK_FALSE(fixture.Place(0).copies.at(0).in_sync);
  CHECK(fixture.Place(0).copies.at(0).since > copy.since);
}

TEST_CASE("ACoordinatorThatComesBackShowsTheSameEntries") {
  Fixture fixture;
  fixture.AdmitAll();
  const std::vector<PartitionPlace> before = fixture.Places();
  fixture.Open();
  CHECK(fixture.Places() == before);
}

TEST_CASE("ReplicasAreRefusedByNameWhereTheyCannotBe") {
  CoordinatorFixture fixture(2);
  fixture.Join(1);
  fixture.Join(2);
  const auto create = [&](const placement::NamespaceOptions& options,
                          placement::Kind kind = placement::Kind::kHash) {
    return fixture.coordinator->CreateNamespace("n", kind, options, Deadline::AfterMs(0)).code();
  };
  CHECK(create(Doubled()) == StatusCode::kFailedPrecondition);  // No etcd.
  fixture.store.hears_of_deaths = true;
  placement::NamespaceOptions options = Doubled();
  options.home = "1";
  CHECK(create(options) == StatusCode::kInvalidArgument);
  options = Doubled();
  options.replicas = 3;
  CHECK(create(options) == StatusCode::kUnimplemented);
  options.replicas = 4;
  CHECK(create(options) == StatusCode::kInvalidArgument);
  options = Doubled(0);
  CHECK(create(options, placement::Kind::kOrdered) == StatusCode::kUnimplemented);
  options = Doubled();
  options.prefilter = "admit";
  CHECK(create(options) == StatusCode::kUnimplemented);
  CoordinatorFixture alone(1);
  alone.store.hears_of_deaths = true;
  alone.Join(1);
  CHECK(alone.coordinator
            ->CreateNamespace("n", placement::Kind::kHash, Doubled(), Deadline::AfterMs(0))
            .code() == StatusCode::kFailedPrecondition);
  CHECK(create(Doubled()) == StatusCode::kOk);
}

// Whatever happens: one owner per term, no copy beside its owner's node, only in-sync copies of the
// same process take over.
TEST_CASE("NoSequenceOfEventsMakesAnOwnerOfACopyThatWasNotInSync") {
  std::mt19937 random(20261128);
  for (int history = 0; history < 60; ++history) {
    Fixture fixture;
    std::map<int, std::uint64_t> incarnations = {{1, 1}, {2, 1}, {3, 1}};
    for (int step = 0; step < 60; ++step) {
      const std::vector<PartitionPlace> before = fixture.Places();
      const int node = 1 + static_cast<int>(random() % 3);
      const std::uint32_t id = static_cast<std::uint32_t>(node - 1);
      const std::uint32_t index = random() % 6;
      const unsigned event = random() % 6;
      // The request of an owner that is gone meanwhile: its copy is admitted, and takes over.
      const bool admits = event == 5;
      switch (event) {
        case 0:
          fixture.store.alive.insert_or_assign(CoordinatorFixture::UuidOf(node), false);
          fixture.Suspect(id, incarnations[node]);
          break;
        case 1:
          fixture.store.alive.insert_or_assign(CoordinatorFixture::UuidOf(node), true);
          (void)fixture.Heartbeat(id, incarnations[node]);
          break;
        case 2:
          fixture.store.alive.insert_or_assign(CoordinatorFixture::UuidOf(node), true);
          fixture.Join(node, ++incarnations[node]);
          break;
        case 3:
          fixture.clock.AdvanceNs(11'000'000'000);
          fixture.coordinator->Tick();
          break;
        case 4:
          if (!before[index].copies.empty()) (void)fixture.Ask(v1::EntryStep::WHAT_DROP, index);
          break;
        default:
          if (!before[index].copies.empty()) (void)fixture.Ask(v1::EntryStep::WHAT_ADMIT, index);
          break;
      }
      for (std::uint32_t i = 0; i < before.size(); ++i) {
        const PartitionPlace now = fixture.Place(i);
        CHECK(now.term >= before[i].term);
        for (const CopyPlace& copy : now.copies) CHECK(copy.node != now.node);
        if (now.node == before[i].node) continue;
        CHECK(now.term.value() == before[i].term.value() + 1);
        CHECK(std::any_of(before[i].copies.begin(), before[i].copies.end(), [&](const auto& copy) {
          return (copy.in_sync || (admits && i == index)) && copy.node == now.node &&
                 copy.core == now.core;
        }));
        CHECK(now.data_from < now.term);
      }
    }
  }
}

}  // namespace
}  // namespace tidepool::daemon
