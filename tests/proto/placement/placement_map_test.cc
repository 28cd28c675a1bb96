#include "proto/placement/placement_map.h"

#include <catch2/catch.hpp>
#include <random>

#include "proto/placement/owner.h"

namespace tidepool::placement {
namespace {

std::shared_ptr<const Namespace> MakeNamespace(std::uint32_t id, std::uint64_t changed) {
  auto space = std::make_shared<Namespace>();
  space->id = NamespaceId(id);
  space->name = "space" + std::to_string(id);
  space->changed = Epoch(changed);
  space->partitions = {
      {NodeId(0), CoreId(0), Term(static_cast<std::uint32_t>(changed)), PartitionState::kActive}};
  return space;
}

bool Same(const PlacementMap& a, const PlacementMap& b) {
  if (a.epoch != b.epoch || a.namespaces.size() != b.namespaces.size()) return false;
  for (const auto& [id, space] : a.namespaces) {
    const auto other = b.Find(id);
    if (other == nullptr || other->partitions != space->partitions) return false;
  }
  return true;
}

TEST_CASE("DeltasBringAHolderThroughAnyHistory") {
  const auto seed = std::random_device()();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  PlacementMap map;
  std::uint32_t next_id = 1;
  PlacementMapPtr holder;
  for (std::uint64_t epoch = 1; epoch < 3000; ++epoch) {
    map.epoch = Epoch(epoch);
    if (map.namespaces.empty() || random() % 2 == 0) {
      map.namespaces[NamespaceId(next_id)] = MakeNamespace(next_id, epoch);
      ++next_id;
    } else {
      auto chosen = map.namespaces.begin();
      std::advance(chosen, random() % map.namespaces.size());
      const NamespaceId id = chosen->first;
      if (random() % 3 == 0) {
        chosen->second = MakeNamespace(id.value(), epoch);
      } else {
        map.namespaces.erase(chosen);
        map.dropped[id] = map.epoch;
        ForgetOldDrops(&map);
      }
    }
    if (random() % 20 != 0) continue;
    const Epoch known = holder == nullptr ? Epoch(0) : holder->epoch;
    holder = Apply(holder, DeltaSince(map, known));
    REQUIRE(holder != nullptr);
    REQUIRE(Same(*holder, map));
  }
}

TEST_CASE("AHolderFromBeforeTheForgottenDropsGetsACompleteMap") {
  PlacementMap map;
  map.epoch = Epoch(1);
  for (std::uint32_t id = 1; id <= kDropsKept + 10; ++id) {
    map.namespaces[NamespaceId(id)] = MakeNamespace(id, 1);
  }
  const PlacementMapPtr old = Apply(nullptr, DeltaSince(map, Epoch(0)));
  for (std::uint32_t id = 1; id <= kDropsKept + 10; ++id) {
    map.epoch = Epoch(map.epoch.value() + 1);
    map.namespaces.erase(NamespaceId(id));
    map.dropped[NamespaceId(id)] = map.epoch;
    ForgetOldDrops(&map);
  }
  CHECK(map.dropped.size() == kDropsKept);
  const PlacementDelta delta = DeltaSince(map, old->epoch);
  CHECK(delta.since == Epoch(0));
  CHECK(Apply(old, delta)->namespaces.empty());
  // A later epoch still gets a short delta.
  CHECK(DeltaSince(map, Epoch(map.epoch.value() - 1)).since == Epoch(map.epoch.value() - 1));
}

TEST_CASE("ADeltaThatStartsLaterThanTheHolderIsRefused") {
  PlacementMap map;
  map.epoch = Epoch(5);
  const PlacementMapPtr holder = Apply(nullptr, DeltaSince(map, Epoch(0)));
  map.epoch = Epoch(9);
  CHECK(Apply(holder, DeltaSince(map, Epoch(7))) == nullptr);
  CHECK(Apply(nullptr, DeltaSince(map, Epoch(7))) == nullptr);
}

TEST_CASE("AnOlderDeltaChangesNothing") {
  PlacementMap map;
  map.epoch = Epoch(5);
  const PlacementMapPtr holder = Apply(nullptr, DeltaSince(map, Epoch(0)));
  map.epoch = Epoch(4);
  CHECK(Apply(holder, DeltaSince(map, Epoch(0))) == holder);
}

TEST_CASE("LookUpsOfWhatIsNotThereGiveNull") {
  PlacementMap map;
  map.namespaces[NamespaceId(3)] = MakeNamespace(3, 1);
  CHECK(map.Find(NamespaceId(4)) == nullptr);
  CHECK(map.Find("space4") == nullptr);
  CHECK(map.Find("space3")->id == NamespaceId(3));
  CHECK(map.Find(PartitionId(NamespaceId(3), 1)) == nullptr);
  CHECK(map.Find(PartitionId(NamespaceId(3), 0)) != nullptr);
  CHECK(map.FindNode(NodeId(0)) == nullptr);
}

TEST_CASE("NamesFollowTheRule") {
  for (const char* good : {"a", "A-z_0.9/x", "default"}) CHECK(CheckNamespaceName(good).ok());
  CHECK(CheckNamespaceName(std::string(200, 'x')).ok());
  for (const char* bad : {"", "a b", "\xc3\xa4", "a\n", "x:y", "*"}) {
    CHECK(CheckNamespaceName(bad) == StatusCode::kInvalidArgument);
  }
  CHECK(CheckNamespaceName(std::string(201, 'x')) == StatusCode::kInvalidArgument);
}

TEST_CASE("KeysSpreadEvenlyOverAnyNumberOfPartitions") {
  for (const std::uint32_t partitions : {1u, 3u, 12u, 4096u}) {
    std::vector<int> counts(partitions);
    const int keys = 100 * static_cast<int>(partitions);
    for (int i = 0; i < keys; ++i) {
      const std::string key = "key" + std::to_string(i);
      const std::uint32_t index = PartitionIndexOf(AsBytes(key), partitions);
      REQUIRE(index < partitions);
      ++counts[index];
    }
    const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
    INFO(partitions << " partitions: " << *least << " to " << *most);
    // Expected are 100, minus five standard deviations.
    CHECK(*least > 50);
    CHECK(*most < 150);
  }
}

TEST_CASE("KeysWithOneTagShareAPartition") {
  for (int i = 0; i < 100; ++i) {
    const std::string key = "{user7}" + std::to_string(i);
    CHECK(PartitionIndexOf(AsBytes(key), 4096) ==
          PartitionIndexOf(AsBytes(std::string_view("{user7}")), 4096));
  }
}

}  // namespace
}  // namespace tidepool::placement
