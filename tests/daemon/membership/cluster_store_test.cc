// Common behaviour of all stores: the file of an embedded coordinator, and etcd.
#include "daemon/membership/cluster_store.h"

#include <catch2/catch.hpp>

#include "daemon/membership/embedded_store.h"
#include "tests/daemon/membership/etcd_place.h"
#include "tests/daemon/membership/example_state.h"

namespace tidepool::daemon {
namespace {

// A place where later stores find the data of earlier stores.
class EmbeddedPlace {
 public:
  std::unique_ptr<ClusterStore> Open() { return std::make_unique<EmbeddedStore>(folder_.path()); }

 private:
  testing::TemporaryFolder folder_;
};

class WholeEtcdPlace : public EtcdPlace {};

// Stores like a large state, with parts of a few bytes.
class PartedEtcdPlace : public EtcdPlace {
 public:
  std::unique_ptr<ClusterStore> Open() { return EtcdPlace::Open(/*part_bytes=*/100); }
};

TEMPLATE_TEST_CASE("AnEmptyPlaceHoldsNoState", "[store]", EmbeddedPlace, WholeEtcdPlace) {
  TestType place;
  const auto loaded = place.Open()->Load();
  REQUIRE(loaded.ok());
  CHECK_FALSE(loaded->has_value());
}

TEMPLATE_TEST_CASE("AStateIsLoadedAsItWasSaved", "[store]", EmbeddedPlace, WholeEtcdPlace,
                   PartedEtcdPlace) {
  TestType place;
  const ClusterState state = ExampleState(6);
  const Status saved = place.Open()->Save(state, Epoch(0));
  INFO(saved.ToString());
  REQUIRE(saved.ok());
  auto loaded = place.Open()->Load();
  INFO(loaded.status().ToString());
  REQUIRE(loaded.ok());
  REQUIRE(loaded->has_value());
  const ClusterState& back = **loaded;
  CHECK(EncodeState(back) == EncodeState(state));
  CHECK(back.nodes == state.nodes);
  CHECK(back.map.Find("name")->options == state.map.Find("name")->options);
  CHECK(back.map.Find("name")->partitions == state.map.Find("name")->partitions);
  CHECK(back.map.nodes[0].state == placement::NodeState::kDown);
  CHECK(back.map.drops_known_since == Epoch(6));
}

TEMPLATE_TEST_CASE("ASaveOnTopOfAnotherEpochIsRefused", "[store]", EmbeddedPlace, WholeEtcdPlace,
                   PartedEtcdPlace) {
  TestType place;
  const auto store = place.Open();
  REQUIRE(store->Save(ExampleState(1), Epoch(0)).ok());
  CHECK(store->Save(ExampleState(2), Epoch(0)) == StatusCode::kAborted);
  CHECK((*store->Load())->map.epoch == Epoch(1));
  CHECK(store->Save(ExampleState(2), Epoch(1)).ok());
  CHECK((*store->Load())->map.epoch == Epoch(2));
}

TEMPLATE_TEST_CASE("ARetiredStateIsGone", "[store]", EmbeddedPlace, WholeEtcdPlace,
                   PartedEtcdPlace) {
  TestType place;
  const auto store = place.Open();
  REQUIRE(store->Save(ExampleState(5), Epoch(0)).ok());
  REQUIRE(store->Retire().ok());
  CHECK_FALSE(store->Load()->has_value());
  CHECK(store->Save(ExampleState(1), Epoch(0)).ok());
}

}  // namespace
}  // namespace tidepool::daemon
