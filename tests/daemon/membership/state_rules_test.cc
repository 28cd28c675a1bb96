#include "daemon/membership/state_rules.h"

#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <string>

#include "tests/daemon/membership/example_state.h"

namespace tidepool::daemon {
namespace {

// Returns `before` with a partition of namespace 8 that `change` has changed.
ClusterState After(const ClusterState& before,
                   const std::function<void(placement::PartitionPlace*)>& change) {
  ClusterState next = before;
  next.map.epoch = Epoch(before.map.epoch.value() + 1);
  auto space = std::make_shared<placement::Namespace>(*before.map.namespaces.at(NamespaceId(8)));
  change(&space->partitions[1]);
  space->changed = next.map.epoch;
  next.map.namespaces[space->id] = space;
  return next;
}

TEST_CASE("AGrantByTheNextTermKeepsAllRules") {
  const ClusterState before = ExampleState(7);
  const ClusterState next = After(before, [](placement::PartitionPlace* place) {
    place->term = Term(place->term.value() + 1);
    place->core = CoreId(3);
  });
  CHECK(BrokenRule(before, next) == "");
}

TEST_CASE("AnEpochMustBeTheNextOne") {
  const ClusterState before = ExampleState(7);
  CHECK(BrokenRule(before, ExampleState(7)) == "epochs rise by 1");
  CHECK(BrokenRule(before, ExampleState(9)) == "epochs rise by 1");
  CHECK(BrokenRule(before, ExampleState(6)) == "epochs rise by 1");
}

TEST_CASE("ATermNeverFalls") {
  const ClusterState before = ExampleState(7);
  const ClusterState next = After(before, [](placement::PartitionPlace* place) {
    place->term = Term(place->term.value() - 1);
  });
  CHECK(BrokenRule(before, next) == "terms never fall");
}

TEST_CASE("TwoGrantsOfAPartitionHaveTwoTerms") {
  const ClusterState before = ExampleState(7);
  const ClusterState other_core =
      After(before, [](placement::PartitionPlace* place) { place->core = CoreId(3); });
  CHECK(BrokenRule(before, other_core) == "a new owner has a greater term");
  const ClusterState other_node =
      After(before, [](placement::PartitionPlace* place) { place->node = NodeId(1); });
  CHECK(BrokenRule(before, other_node) == "a new owner has a greater term");
}

TEST_CASE("AChangedNamespaceHasTheEpochOfTheChange") {
  const ClusterState before = ExampleState(7);
  ClusterState next = After(before, [](placement::PartitionPlace*) {});
  auto stale = std::make_shared<placement::Namespace>(*next.map.namespaces.at(NamespaceId(8)));
  stale->changed = Epoch(7);
  next.map.namespaces[NamespaceId(8)] = stale;
  CHECK(BrokenRule(before, next) == "a changed namespace has the epoch of the change");
}

TEST_CASE("AnIdOfANamespaceIsGivenOnce") {
  const ClusterState before = ExampleState(7);  // Its next id is 9.
  ClusterState next = After(before, [](placement::PartitionPlace*) {});
  auto again = std::make_shared<placement::Namespace>(*next.map.namespaces.at(NamespaceId(8)));
  again->id = NamespaceId(4);
  next.map.namespaces[again->id] = again;
  CHECK(BrokenRule(before, next) == "the id of a namespace is given once");
  next.map.namespaces.erase(NamespaceId(4));
  again->id = NamespaceId(9);
  next.map.namespaces[again->id] = again;
  CHECK(BrokenRule(before, next) == "the next id is unused");
  next.next_namespace = NamespaceId(10);
  CHECK(BrokenRule(before, next) == "");
  next.next_namespace = NamespaceId(8);
  CHECK(BrokenRule(before, next) == "ids of namespaces rise");
}

TEST_CASE("NodesKeepTheirPlaceTheirUuidAndNoOlderIncarnation") {
  const ClusterState before = ExampleState(7);
  ClusterState next = After(before, [](placement::PartitionPlace*) {});
  next.map.nodes[0].incarnation -= 1;
  CHECK(BrokenRule(before, next) == "incarnations never fall");
  next.map.nodes[0].incarnation += 2;
  CHECK(BrokenRule(before, next) == "");
  next.map.nodes[0].uuid = "another";
  CHECK(BrokenRule(before, next) == "a node keeps its UUID");
  next.map.nodes.clear();
  CHECK(BrokenRule(before, next) == "a node is never forgotten");
  next = After(before, [](placement::PartitionPlace*) {});
  next.nodes.clear();
  CHECK(BrokenRule(before, next) == "each node has a record");
  next = After(before, [](placement::PartitionPlace*) {});
  next.map.cluster_uuid = "another";
  CHECK(BrokenRule(before, next) == "a cluster keeps its UUID");
}

}  // namespace
}  // namespace tidepool::daemon
