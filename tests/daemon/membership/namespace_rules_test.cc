// Creating, dropping and placing namespaces.
#include "daemon/membership/namespace_rules.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "proto/base/limits.h"
#include "tests/daemon/membership/coordinator_fixture.h"

namespace tidepool::daemon {
namespace {

using placement::Kind;
using placement::NamespaceOptions;

bool Says(const Status& status, const std::string& text) {
  return status.ToString().find(text) != std::string::npos;
}

Status CreateStatus(CoordinatorFixture* cluster, const std::string& name, Kind kind,
                    NamespaceOptions options = {}) {
  return cluster->coordinator->CreateNamespace(name, kind, options, Deadline::AfterMs(0)).status();
}

TEST_CASE("CreatingWithEqualOptionsIsASuccess") {
  CoordinatorFixture cluster;
  cluster.Join(1);
  NamespaceOptions options;
  options.ttl_ms = 7;
  const auto first = cluster.Create("x", options);
  const Epoch epoch = cluster.Map()->epoch;
  const auto again =
      cluster.coordinator->CreateNamespace("x", Kind::kHash, options, Deadline::AfterMs(0));
  REQUIRE(again.ok());
  CHECK_FALSE(again->created);
  CHECK(again->space->id == first->id);
  CHECK(cluster.Map()->epoch == epoch);
  // 0 partitions means: as many as there are.
  options.partitions = 8;
  CHECK(CreateStatus(&cluster, "x", Kind::kHash, options).ok());
}

TEST_CASE("ManyRanksThatCreateAtOnceGetOneNamespace") {
  CoordinatorFixture cluster;
  cluster.Join(1);
  std::vector<NamespaceId> ids(50);
  std::vector<std::thread> ranks;
  for (auto& id : ids) {
    ranks.emplace_back([&cluster, &id] {
      const auto made =
          cluster.coordinator->CreateNamespace("x", Kind::kHash, {}, Deadline::AfterMs(1000));
      if (made.ok()) id = made->space->id;
    });
  }
  for (auto& rank : ranks) rank.join();
  for (const NamespaceId id : ids) CHECK(id == cluster.Map()->Find("x")->id);
}

TEST_CASE("EveryDifferenceIsNamed") {
  CoordinatorFixture cluster;
  cluster.Join(1);
  cluster.Create("x");
  NamespaceOptions options;
  options.partitions = 3;
  options.ttl_ms = 5;
  options.on_loss = "empty";
  const Status refused = CreateStatus(&cluster, "x", Kind::kHash, options);
  CHECK(refused == StatusCode::kAlreadyExists);
  CHECK(Says(refused, "partitions is 8, not 3"));
  CHECK(Says(refused, "ttl_ms is 0, not 5"));
  CHECK(Says(refused, "on_loss is error, not empty"));
  CHECK_FALSE(Says(refused, "durability"));
}

TEST_CASE("OtherTypesThanTheNamespacesAreRefusedByBothNames") {
  CoordinatorFixture cluster;
  cluster.Join(1);
  NamespaceOptions options;
  options.key_type = "string";
  options.value_type = "raw<Particle,48>";
  cluster.Create("x", options);
  CHECK(CreateStatus(&cluster, "x", Kind::kHash, options).ok());
  options.value_type = "raw<Particle,56>";
  const Status values = CreateStatus(&cluster, "x", Kind::kHash, options);
  CHECK(values == StatusCode::kFailedPrecondition);
  CHECK(Says(values, "values are 'raw<Particle,48>', not 'raw<Particle,56>'"));
  CHECK_FALSE(Says(values, "keys"));
  options.key_type = "u64";
  const Status both = CreateStatus(&cluster, "x", Kind::kHash, options);
  CHECK(Says(both, "keys are 'string', not 'u64'"));
  CHECK(Says(both, "values are 'raw<Particle,48>'"));
}

TEST_CASE("AnotherKindIsNamedBeforeOtherTypes") {
  placement::Namespace existing;
  existing.name = "x";
  existing.options.key_type = "u64";
  NamespaceOptions wanted;
  wanted.key_type = "ordered<u64>";
  CHECK(CheckEqual(existing, Kind::kHash, wanted) == StatusCode::kFailedPrecondition);
  const Status refused = CheckEqual(existing, Kind::kOrdered, wanted);
  CHECK(refused == StatusCode::kAlreadyExists);
  CHECK(Says(refused, "kind is hash, not ordered"));
}

TEST_CASE("WhoNamesNoTypesAndWhatHasNoTypesFitsAll") {
  CoordinatorFixture cluster;
  cluster.Join(1);
  NamespaceOptions typed;
  typed.key_type = "string";
  typed.value_type = "u64";
  cluster.Create("typed", typed);
  CHECK(CreateStatus(&cluster, "typed", Kind::kHash).ok());
  cluster.Create("untyped");
  CHECK(CreateStatus(&cluster, "untyped", Kind::kHash, typed).ok());
  CHECK(cluster.Map()->Find("untyped")->options.key_type.empty());
  typed.value_type.clear();
  CHECK(CreateStatus(&cluster, "typed", Kind::kHash, typed).ok());
}

TEST_CASE("ATypesNameIsShortAndPrintable") {
  CoordinatorFixture cluster;
  cluster.Join(1);
  for (const std::string& name :
       {std::string("a\nb"), std::string("\xc3\xa4"), std::string(1025, 'x')}) {
    NamespaceOptions options;
    options.key_type = name;
    CHECK(CreateStatus(&cluster, "x", Kind::kHash, options) == StatusCode::kInvalidArgument);
    std::swap(options.key_type, options.value_type);
    CHECK(CreateStatus(&cluster, "x", Kind::kHash, options) == StatusCode::kInvalidArgument);
  }
  CHECK(cluster.Map()->Find("x") == nullptr);
}

TEST_CASE("OrderedNamespacesOfOneRangeLieOnOneCoreEach") {
  CoordinatorFixture cluster;
  cluster.Join(1);
  NamespaceOptions options;
  CHECK(CreateStatus(&cluster, "x", Kind::kOrdered, options).ok());
  options.partitions = 1;
  CHECK(CreateStatus(&cluster, "x", Kind::kOrdered, options).ok());
  CHECK(CreateStatus(&cluster, "y", Kind::kOrdered, options).ok());
  REQUIRE(cluster.Map()->Find("x")->partitions.size() == 1);
  CHECK(cluster.Map()->Find("x")->options.partitions == 1);
  CHECK(cluster.Map()->Find("x")->partitions[0].core !=
        cluster.Map()->Find("y")->partitions[0].core);
}

TEST_CASE("AnOrderedNamespaceBeginsWithTheRangesThatItsSplitKeysMake") {
  CoordinatorFixture cluster;
  cluster.Join(1);
  NamespaceOptions options;
  options.split_keys = {"t", "g", std::string("n\0", 2)};
  CHECK(CreateStatus(&cluster, "x", Kind::kOrdered, options).ok());
  const auto space = cluster.Map()->Find("x");
  REQUIRE(space->partitions.size() == 4);
  CHECK(space->options.partitions == 4);
  REQUIRE(space->ranges != nullptr);
  CHECK(space->ranges->order() == std::vector<std::uint32_t>{0, 1, 2, 3});
  CHECK(space->ranges->BeginOf(0).empty());
  CHECK(space->ranges->BeginOf(2) == std::string("n\0", 2));
  CHECK(space->partitions[0].core != space->partitions[1].core);
  // Again, in another order; or without any, as whoever does not care about them asks.
  std::swap(options.split_keys[0], options.split_keys[1]);
  CHECK(CreateStatus(&cluster, "x", Kind::kOrdered, options).ok());
  CHECK(CreateStatus(&cluster, "x", Kind::kOrdered, {}).ok());
  options.split_keys.pop_back();
  CHECK(Says(CreateStatus(&cluster, "x", Kind::kOrdered, options), "other split keys"));
  CHECK(Says(CreateStatus(&cluster, "x", Kind::kOrdered, {.split = "manual"}), "split is auto"));

  const auto refuses = [&](Kind kind, const NamespaceOptions& wanted, const char* why) {
    const Status status = CreateStatus(&cluster, "z", kind, wanted);
    CHECK(status == StatusCode::kInvalidArgument);
    CHECK(Says(status, why));
  };
  refuses(Kind::kOrdered, {.partitions = 2}, "2 partitions and 0 split keys");
  refuses(Kind::kOrdered, {.split_keys = {"a", "a"}}, "twice");
  refuses(Kind::kOrdered, {.split_keys = {""}}, "empty");
  refuses(Kind::kOrdered, {.split_keys = {std::string(2000, 'x')}}, "2000 bytes");
  refuses(Kind::kOrdered, {.split = "never"}, "split cannot be 'never'");
  refuses(Kind::kHash, {.split_keys = {"a"}}, "kind 'ordered'");
  refuses(Kind::kQueue, {.split = "manual"}, "kind 'ordered'");
}

TEST_CASE("ASplitGivesBothPartsTheNextTermOnceOnly") {
  CoordinatorFixture cluster;
  cluster.Join(1);
  CHECK(CreateStatus(&cluster, "x", Kind::kOrdered, {}).ok());
  const auto before = cluster.Map()->Find("x");
  const placement::PartitionPlace place = before->partitions[0];
  RangeSplit split{before->id, 0, place.term, place.node, "m", 1, CoreId(1)};
  const auto epoch = cluster.coordinator->SplitPartition(split);
  REQUIRE(epoch.ok());
  const auto after = cluster.Map()->Find("x");
  REQUIRE(after->partitions.size() == 2);
  CHECK(after->changed == *epoch);
  CHECK(after->partitions[0].term.value() == place.term.value() + 1);
  CHECK(after->partitions[1].term.value() == place.term.value() + 1);
  CHECK(after->partitions[1].core == CoreId(1));
  CHECK(after->IndexOf(AsBytes(std::string_view("lzz"))) == 0);
  CHECK(after->IndexOf(AsBytes(std::string_view("m"))) == 1);
  // The answer was lost: asked again, nothing changes.
  CHECK(cluster.coordinator->SplitPartition(split).value() == *epoch);
  CHECK(cluster.Map()->Find("x")->partitions.size() == 2);
  // By an old map.
  split.key = "g";
  CHECK(cluster.coordinator->SplitPartition(split).code() == StatusCode::kFailedPrecondition);
  // A number that another split has taken; a key of the other range.
  split.term = Term(place.term.value() + 1);
  CHECK(cluster.coordinator->SplitPartition(split).code() == StatusCode::kAborted);
  split.new_partition = 2;
  split.key = "n";
  CHECK(cluster.coordinator->SplitPartition(split).code() == StatusCode::kInvalidArgument);
  split.key = "m";
  CHECK(cluster.coordinator->SplitPartition(split).code() == StatusCode::kInvalidArgument);
  split.key = "g";
  REQUIRE(cluster.coordinator->SplitPartition(split).ok());
  CHECK(cluster.Map()->Find("x")->ranges->order() == std::vector<std::uint32_t>{0, 2, 1});
  split.space = NamespaceId(999);
  CHECK(cluster.coordinator->SplitPartition(split).code() == StatusCode::kNotFound);
  // Queues and hash namespaces have no ranges.
  CHECK(CreateStatus(&cluster, "h", Kind::kHash, {}).ok());
  const auto hash = cluster.Map()->Find("h");
  split.space = hash->id;
  CHECK(cluster.coordinator->SplitPartition(split).code() == StatusCode::kInvalidArgument);
}

TEST_CASE("AQueueHasOnePartitionAndABoundOfItsOwn") {
  CoordinatorFixture cluster;
  cluster.Join(1);
  for (const Kind kind : {Kind::kQueue, Kind::kPriority}) {
    const std::string name(placement::KindName(kind));
    NamespaceOptions options;
    options.capacity = 10;
    options.value_type = "string";
    CHECK(CreateStatus(&cluster, name, kind, options).ok());
    CHECK(CreateStatus(&cluster, name, kind, options).ok());
    CHECK(cluster.Map()->Find(name)->partitions.size() == 1);
    CHECK(cluster.Map()->Find(name)->options.capacity == 10);
    options.capacity = 11;
    CHECK(Says(CreateStatus(&cluster, name, kind, options), "capacity is 10, not 11"));
    options.key_type = "string";
    CHECK(CreateStatus(&cluster, "x", kind, options) == StatusCode::kInvalidArgument);
  }
  NamespaceOptions bounded;
  bounded.capacity = 10;
  CHECK(CreateStatus(&cluster, "x", Kind::kHash, bounded) == StatusCode::kInvalidArgument);
  CHECK(cluster.Map()->Find("x") == nullptr);
}

TEST_CASE("TheLanesOfAQueueAreItsPartitionsAndAPriorityQueueHasNone") {
  CoordinatorFixture cluster(2);
  cluster.Join(1);
  cluster.Join(2);
  NamespaceOptions options;
  options.partitions = 4;
  options.capacity = 4;
  CHECK(CreateStatus(&cluster, "q", Kind::kQueue, options).ok());
  std::set<std::pair<NodeId, CoreId>> cores;
  const auto space = cluster.Map()->Find("q");
  for (const auto& place : space->partitions) {
    cores.insert({place.node, place.core});
  }
  CHECK(cores.size() == 4);
  options.partitions = 5;  // A lane would be without capacity.
  CHECK(Says(CreateStatus(&cluster, "x", Kind::kQueue, options), "lanes"));
  CHECK(Says(CreateStatus(&cluster, "x", Kind::kPriority, options), "lanes"));
  options.capacity = 0;
  options.partitions = limits::kLanesMax + 1;
  CHECK(Says(CreateStatus(&cluster, "x", Kind::kQueue, options), "lanes"));
}

TEST_CASE("AHomeGetsAllPartitionsAndDoesNotMatterToLaterOnes") {
  CoordinatorFixture cluster(2);
  cluster.Join(1);
  cluster.Join(2);
  NamespaceOptions options;
  for (const std::uint16_t node : {1, 0}) {
    options.home = std::to_string(node);
    const std::string name = "home" + options.home;
    CHECK(CreateStatus(&cluster, name, Kind::kHash, options).ok());
    const auto space = cluster.Map()->Find(name);
    CHECK(space->options.home.empty());
    for (const auto& place : space->partitions) CHECK(place.node == NodeId(node));
    CHECK(CreateStatus(&cluster, "home1", Kind::kHash, options).ok());
  }
  for (const char* wrong : {"2", "x", "-1", "01", "local"}) {
    options.home = wrong;
    CHECK(CreateStatus(&cluster, "x", Kind::kQueue, options) == StatusCode::kInvalidArgument);
  }
}

TEST_CASE("WhatIsNotInThisVersionIsRefusedAndNotAccepted") {
  CoordinatorFixture cluster;
  cluster.Join(1);
  const Status array = CreateStatus(&cluster, "x", Kind::kArray);
  CHECK(array == StatusCode::kUnimplemented);
  CHECK(Says(array, "array"));
  const auto refused = [&](auto change) {
    NamespaceOptions options;
    change(&options);
    return CreateStatus(&cluster, "x", Kind::kHash, options).code();
  };
  CHECK(refused([](auto* o) { o->durability = "sync"; }) == StatusCode::kFailedPrecondition);
  CHECK(refused([](auto* o) { o->durability = "async"; }) == StatusCode::kFailedPrecondition);
  CHECK(refused([](auto* o) { o->replicas = 2; }) == StatusCode::kFailedPrecondition);
  CHECK(refused([](auto* o) { o->prefilter = "bloom"; }) == StatusCode::kInvalidArgument);
  CHECK(refused([](auto* o) { o->durability = "eternal"; }) == StatusCode::kInvalidArgument);
  CHECK(refused([](auto* o) { o->on_loss = "cry"; }) == StatusCode::kInvalidArgument);
  CHECK(refused([](auto* o) { o->partitions = 4097; }) == StatusCode::kInvalidArgument);
  CHECK(refused([](auto* o) { o->memory_share_percent = 101; }) == StatusCode::kInvalidArgument);
  CHECK(refused([](auto* o) { o->ttl_ms = UINT64_MAX; }) == StatusCode::kInvalidArgument);
  CHECK(CreateStatus(&cluster, "x", Kind::kUnspecified) == StatusCode::kInvalidArgument);
  CHECK(CreateStatus(&cluster, "a b", Kind::kHash) == StatusCode::kInvalidArgument);
  CHECK(cluster.Map()->Find("x") == nullptr);
}

TEST_CASE("APrefilterIsOfKindsWithRecordsAndMayHaveASize") {
  CoordinatorFixture cluster;
  cluster.Join(1);
  const auto created = [&](const char* name, Kind kind, const char* prefilter,
                           std::uint64_t expected_items, double rate) {
    NamespaceOptions options;
    options.prefilter = prefilter;
    options.expected_items = expected_items;
    options.false_positive_rate = rate;
    return CreateStatus(&cluster, name, kind, options).code();
  };
  CHECK(created("a", Kind::kHash, "absent", 0, 0.01) == StatusCode::kOk);
  CHECK(created("a", Kind::kHash, "absent", 0, 0.01) == StatusCode::kOk);
  CHECK(created("a", Kind::kHash, "admit", 0, 0.01) == StatusCode::kAlreadyExists);
  CHECK(created("a", Kind::kHash, "absent", 10, 0.01) == StatusCode::kAlreadyExists);
  CHECK(created("b", Kind::kOrdered, "admit", 1'000'000, 0.001) == StatusCode::kOk);
  CHECK(created("c", Kind::kQueue, "none", 10, 0.01) == StatusCode::kInvalidArgument);
  CHECK(created("c", Kind::kHash, "absent", 10, 0.9) == StatusCode::kInvalidArgument);
  CHECK(created("c", Kind::kHash, "absent", ~0ull, 0.01) == StatusCode::kInvalidArgument);
  CHECK(created("c", Kind::kBloom, "absent", 10, 0.01) == StatusCode::kInvalidArgument);
}

TEST_CASE("AFilterNeedsItsSizeAndTakesNoOptionOfRecords") {
  CoordinatorFixture cluster;
  cluster.Join(1);
  const auto created = [&](auto change) {
    NamespaceOptions options;
    options.expected_items = 1000;
    change(&options);
    return CreateStatus(&cluster, "filter", Kind::kBloom, options);
  };
  CHECK(created([](auto* o) { o->expected_items = 0; }) == StatusCode::kInvalidArgument);
  CHECK(created([](auto* o) { o->false_positive_rate = 0.7; }) == StatusCode::kInvalidArgument);
  CHECK(created([](auto* o) { o->false_positive_rate = NAN; }) == StatusCode::kInvalidArgument);
  CHECK(created([](auto* o) { o->expected_items = UINT64_MAX; }) == StatusCode::kInvalidArgument);
  CHECK(created([](auto* o) { o->ttl_ms = 5; }) == StatusCode::kInvalidArgument);
  CHECK(created([](auto* o) { o->memory_share_percent = 5; }) == StatusCode::kInvalidArgument);
  CHECK(created([](auto* o) { o->durability = "sync"; }) == StatusCode::kInvalidArgument);
  // There is no device.
  CHECK(created([](auto* o) { o->durability = "async"; }) == StatusCode::kFailedPrecondition);
  CHECK(cluster.Map()->Find("filter") == nullptr);
  CHECK(created([](auto*) {}).ok());
  CHECK(created([](auto*) {}).ok());
  const Status other = created([](auto* o) { o->expected_items = 2000; });
  CHECK(other == StatusCode::kAlreadyExists);
  CHECK(Says(other, "expected_items is 1000, not 2000"));
  CHECK(Says(created([](auto* o) { o->false_positive_rate = 0.1; }), "false_positive_rate"));
  cluster.Open();
  CHECK(cluster.Map()->Find("filter")->options.expected_items == 1000);
  CHECK(cluster.Map()->Find("filter")->options.false_positive_rate == 0.01);
}

TEST_CASE("WhatOnlyFiltersHaveIsRefusedForOthers") {
  CoordinatorFixture cluster;
  cluster.Join(1);
  NamespaceOptions options;
  options.false_positive_rate = 0.1;
  CHECK(CreateStatus(&cluster, "x", Kind::kHash, options) == StatusCode::kInvalidArgument);
  options = {};
  options.expected_items = 1000;
  CHECK(CreateStatus(&cluster, "x", Kind::kQueue, options) == StatusCode::kInvalidArgument);
  CHECK(CreateStatus(&cluster, "x", Kind::kHash, options).ok());  // Its index is made ahead.
}

TEST_CASE("CreatingWaitsForTheClusterToForm") {
  CoordinatorFixture cluster(2);
  cluster.Join(1);
  const Status early = CreateStatus(&cluster, "x", Kind::kHash);
  CHECK(early == StatusCode::kUnavailable);
  CHECK(Says(early, "1 of 2 nodes"));
  std::thread last([&] { (void)cluster.coordinator->Join(cluster.RequestOf(2)).ok(); });
  const auto made =
      cluster.coordinator->CreateNamespace("x", Kind::kHash, {}, Deadline::AfterMs(30'000));
  last.join();
  CHECK(made.ok());
}

TEST_CASE("ADroppedNameComesBackUnderAnotherId") {
  CoordinatorFixture cluster;
  cluster.Join(1);
  const auto first = cluster.Create("x");
  REQUIRE(cluster.coordinator->DropNamespace("x").ok());
  CHECK(cluster.Map()->Find("x") == nullptr);
  CHECK(cluster.Map()->dropped.contains(first->id));
  CHECK(cluster.Create("x")->id != first->id);
  CHECK(cluster.coordinator->DropNamespace("y").code() == StatusCode::kNotFound);
  CHECK(cluster.coordinator->DropNamespace("default").code() == StatusCode::kFailedPrecondition);
  CHECK(cluster.coordinator->AcceptLoss("y").code() == StatusCode::kNotFound);
}

TEST_CASE("IdsRunOutWithAWordAndNotAround") {
  CoordinatorFixture cluster;
  cluster.Join(1);
  auto state = **cluster.store.Load();
  state.next_namespace = NamespaceId(limits::kNamespacesMax);
  REQUIRE(cluster.store.Save(state, state.map.epoch).ok());
  cluster.Open();
  cluster.Join(1, 2);
  CHECK(cluster.Create("last")->id.value() == limits::kNamespacesMax);
  CHECK(CreateStatus(&cluster, "more", Kind::kHash) == StatusCode::kResourceExhausted);
  cluster.Open();  // And the state with all ids given can be read.
}

TEST_CASE("PartitionsSpreadEvenlyOverNodesFirst") {
  std::vector<placement::Node> nodes(3);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    nodes[i].id = NodeId(static_cast<std::uint16_t>(i));
    nodes[i].cores = i == 2 ? 1 : 2;
  }
  const auto places = SpreadPartitions(nodes, 0);
  CHECK(places.size() == 20);
  std::map<std::pair<int, int>, int> counts;
  for (const auto& place : places) ++counts[{place.node.value(), place.core.value()}];
  CHECK(counts.size() == 5);
  for (const auto& [core, count] : counts) CHECK(count == 4);
  const auto few = SpreadPartitions(nodes, 3);
  REQUIRE(few.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) CHECK(few[i].node.value() == i);
  nodes[1].state = placement::NodeState::kDown;
  for (const auto& place : SpreadPartitions(nodes, 0)) CHECK(place.node != NodeId(1));
  for (auto& node : nodes) node.state = placement::NodeState::kLeft;
  CHECK(SpreadPartitions(nodes, 5).empty());
}

TEST_CASE("ALargeClusterHasNoMorePartitionsThanANamespaceMayHave") {
  std::vector<placement::Node> nodes(1000);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    nodes[i].id = NodeId(static_cast<std::uint16_t>(i));
    nodes[i].cores = 4;
  }
  CHECK(SpreadPartitions(nodes, 0).size() == limits::kPartitionsPerNamespaceMax);
}

}  // namespace
}  // namespace tidepool::daemon
