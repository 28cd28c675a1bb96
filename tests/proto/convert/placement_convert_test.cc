#include "proto/convert/placement_convert.h"

#include <catch2/catch.hpp>
#include <random>

namespace tidepool::convert {
namespace {

placement::PlacementMap Example() {
  placement::PlacementMap map;
  map.epoch = Epoch(9);
  map.cluster_uuid = "3f2b8c1e-9d4a-4c6f-8a51-0d7e6b2c9f10";
  map.nodes_expected = 2;
  map.nodes.push_back(
      {NodeId(0), "u0", 3, "127.0.0.1:1", "h", placement::NodeState::kUp, 2, 5, "0.1.0", 77});
  auto space = std::make_shared<placement::Namespace>();
  space->id = NamespaceId(4);
  space->name = "n";
  space->kind = placement::Kind::kHash;
  space->options.ttl_ms = 12;
  space->options.key_type = "string";
  space->options.expected_items = 77;
  space->options.false_positive_rate = 0.125;
  space->options.capacity = 88;
  space->options.home = "3";
  space->options.value_type = "raw<Particle,48>";
  space->changed = Epoch(8);
  space->partitions = {{NodeId(0), CoreId(1), Term(6), placement::PartitionState::kLost}};
  map.namespaces.emplace(space->id, space);
  map.dropped.emplace(NamespaceId(2), Epoch(7));
  return map;
}

TEST_CASE("AMapSurvivesTheWayThereAndBack") {
  const placement::PlacementMap map = Example();
  v1::PlacementMap message;
  ToProto(placement::DeltaSince(map, Epoch(0)), &message);
  const auto delta = FromProto(message);
  REQUIRE(delta.ok());
  const auto& back = delta->changes;
  CHECK(back.epoch == map.epoch);
  CHECK(back.cluster_uuid == map.cluster_uuid);
  REQUIRE(back.nodes.size() == 1);
  CHECK(back.nodes[0].incarnation == 3);
  CHECK(back.nodes[0].cores == 2);
  CHECK(back.nodes[0].pid == 77);
  const auto space = back.Find("n");
  REQUIRE(space != nullptr);
  CHECK(space->options == map.Find("n")->options);
  CHECK(space->partitions == map.Find("n")->partitions);
  CHECK(back.dropped.contains(NamespaceId(2)));
}

TEST_CASE("RangesSurviveTheWayThereAndBack") {
  placement::PlacementMap map = Example();
  auto space = std::make_shared<placement::Namespace>(*map.Find("n"));
  space->kind = placement::Kind::kOrdered;
  space->options.split_keys = {"m", "\xff"};
  space->options.split = "manual";
  space->partitions.resize(3, space->partitions.front());
  space->ranges = std::make_shared<const placement::Ranges>(
      *placement::Ranges::Create({"", "\xff", std::string("m\0", 2)}));
  map.namespaces[space->id] = space;
  v1::PlacementMap message;
  ToProto(placement::DeltaSince(map, Epoch(0)), &message);
  const auto delta = FromProto(message);
  REQUIRE(delta.ok());
  const auto back = delta->changes.Find("n");
  CHECK(back->options == space->options);
  REQUIRE(back->ranges != nullptr);
  CHECK(back->ranges->order() == std::vector<std::uint32_t>{0, 2, 1});
  CHECK(back->ranges->BeginOf(2) == std::string("m\0", 2));
  // Ranges that do not hold all keys once are no ranges.
  message.mutable_namespaces(0)->mutable_partitions(1)->set_begin("");
  CHECK(FromProto(message).status() == StatusCode::kInvalidArgument);
  message.mutable_namespaces(0)->mutable_partitions(1)->set_begin("m");
  message.mutable_namespaces(0)->mutable_partitions(2)->set_begin("m");
  CHECK(FromProto(message).status() == StatusCode::kInvalidArgument);
}

TEST_CASE("EmptyOptionsAreTheDefaults") {
  const auto options = FromProto(v1::NamespaceOptions());
  REQUIRE(options.ok());
  CHECK(*options == placement::NamespaceOptions());
}

TEST_CASE("MalformedMapsAreRefused") {
  v1::PlacementMap good;
  ToProto(placement::DeltaSince(Example(), Epoch(0)), &good);
  const auto refused = [&good](auto damage) {
    v1::PlacementMap message = good;
    damage(&message);
    return FromProto(message).code() == StatusCode::kInvalidArgument;
  };
  CHECK(refused([](auto* m) { m->mutable_nodes(0)->set_node_id(1); }));
  CHECK(refused([](auto* m) { m->mutable_nodes(0)->set_state(v1::NODE_STATE_UNSPECIFIED); }));
  CHECK(refused([](auto* m) { m->mutable_namespaces(0)->clear_partitions(); }));
  CHECK(refused([](auto* m) { m->mutable_namespaces(0)->set_kind(v1::KIND_UNSPECIFIED); }));
  CHECK(refused([](auto* m) { m->mutable_namespaces(0)->set_namespace_id(1u << 20); }));
  CHECK(
      refused([](auto* m) { m->mutable_namespaces(0)->mutable_partitions(0)->set_node_id(5000); }));
  CHECK(refused([](auto* m) { m->mutable_namespaces(0)->mutable_partitions(0)->set_core(64); }));
  CHECK(refused(
      [](auto* m) { m->mutable_namespaces(0)->mutable_partitions(0)->set_term(1u << 20); }));
}

TEST_CASE("AnyBytesGiveAMapOrAStatus") {
  const auto seed = std::random_device()();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  v1::PlacementMap message;
  ToProto(placement::DeltaSince(Example(), Epoch(0)), &message);
  const std::string good = message.SerializeAsString();
  int accepted = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = good;
    bytes[random() % bytes.size()] = static_cast<char>(random());
    v1::PlacementMap parsed;
    if (!parsed.ParseFromString(bytes)) continue;
    const auto delta = FromProto(parsed);
    if (!delta.ok()) continue;
    ++accepted;
    for (const auto& [id, space] : delta->changes.namespaces) REQUIRE(!space->partitions.empty());
  }
  CHECK(accepted > 0);
}

}  // namespace
}  // namespace tidepool::convert
