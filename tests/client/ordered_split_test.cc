// Ranges of ordered namespaces that are split during use: a client, step by step.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/client/api/ordered_fixture.h"
#include "tests/client/split_fixture.h"

namespace tidepool::testing {
namespace {

using std::chrono::seconds;

struct Fixture {
  explicit Fixture(TestClusterOptions options = {.cores = 3, .memory = "192MiB"})
      : cluster(std::move(options)),
        client((cluster.WaitReady(), ConnectTo(cluster))),
        map(Open<BytesOrderedMap>(client, "split", {.split = SplitMode::kManual})) {}
  TestCluster cluster;
  Client client;
  BytesOrderedMap map;
};

std::string Key(int i) { return "k" + std::to_string(100'000 + i); }

Model Many(int count, std::size_t value_bytes = 20) {
  Model model;
  for (int i = 0; i < count; ++i) model[Key(i)] = Key(i) + std::string(value_bytes, 'v');
  return model;
}

TEST_CASE("RandomOperationsAndSplitsAgreeWithAMap", "[kinds]") {
  Random random("RandomOperationsAndSplitsAgreeWithAMap");
  Fixture fixture;
  Model model;
  int splits = 0;
  for (int round = 0; round < 40; ++round) {
    RandomSteps(fixture.map, 100, random, &model);
    std::optional<std::string> key;
    if (random.OneIn(2)) key = RandomKey(random);
    // A range cannot be split at its begin, or if it has a single key.
    const Status split = Split(fixture.cluster, "split", key);
    INFO(split.ToString());
    REQUIRE((split.ok() || split.code() == StatusCode::kFailedPrecondition));
    splits += split.ok() ? 1 : 0;
  }
  CHECK(splits > 5);
  CHECK(RangesOf(fixture.cluster, "split") == splits + 1);
  RandomSteps(fixture.map, 500, random, &model);
  CHECK(Walk(fixture.map, {}) == Records(model.begin(), model.end()));
  CHECK(fixture.map.Length().value() == model.size());
}

TEST_CASE("ASplitKeepsVersionsAndTheyGrowOn", "[kinds]") {
  Fixture fixture;
  std::vector<Version> before;
  for (int i = 0; i < 100; ++i) before.push_back(fixture.map.Put(Key(i), "v").value());
  REQUIRE(Split(fixture.cluster, "split", Key(50)).ok());
  for (int i = 0; i < 100; ++i) {
    const auto got = fixture.map.Get(Key(i));
    REQUIRE(got.ok());
    CHECK(got->version == before[static_cast<std::size_t>(i)]);
    // A later version may replace a value that was read before the split.
    const auto put = fixture.map.Put(
        Key(i), "w", {.condition = PutCondition::kIfVersion, .if_version = got->version});
    REQUIRE(put.ok());
    CHECK(*put > before.back());
  }
}

TEST_CASE("CountsFollowTheRecords", "[kinds]") {
  Fixture fixture;
  const Model model = Many(20'000);
  PutAll(fixture.map, model);
  for (int i = 0; i < 4; ++i) {
    REQUIRE(WaitUntil([&] { return Split(fixture.cluster, "split", std::nullopt).ok(); }));
    // At once, while moved-out records are still being removed.
    CHECK(fixture.map.Length().value() == model.size());
    CHECK(fixture.map.CountRange({}).value() == model.size());
    CHECK(Walk(fixture.map, {}, {.reverse = true}) == Records(model.rbegin(), model.rend()));
  }
  const auto described = Described(fixture.cluster, "split");
  REQUIRE(described.partitions_size() == 5);
  CHECK(WaitUntil([&] { return Described(fixture.cluster, "split").records() == model.size(); }));
  std::vector<std::uint32_t> cores;
  for (const auto& entry : described.partitions()) cores.push_back(entry.partition().core());
  std::sort(cores.begin(), cores.end());
  cores.erase(std::unique(cores.begin(), cores.end()), cores.end());
  CHECK(cores.size() >= 2);
}

TEST_CASE("ScansAndCursorsGoOnAcrossSplits", "[kinds]") {
  Fixture fixture;
  const Model model = Many(4'000);
  PutAll(fixture.map, model);
  Records seen;
  KeyRange range;
  for (int page_number = 0;; ++page_number) {
    const auto page = fixture.map.Scan(range, {.limit = 150});
    REQUIRE(page.ok());
    for (const Record& record : page->records()) seen.emplace_back(record.key, record.value);
    if (!page->rest().has_value()) break;
    range = *page->rest();
    // Behind, at and before the place where it goes on.
    if (page_number % 5 == 0) {
      (void)Split(fixture.cluster, "split", Key((page_number * 997) % 4'000));
      (void)Split(fixture.cluster, "split", range.begin + "a");
    }
  }
  CHECK(seen == Records(model.begin(), model.end()));
  CHECK(RangesOf(fixture.cluster, "split") > 5);
  seen.clear();
  int splits = 0;
  Cursor cursor;
  while (!cursor.at_end) {
    const auto page = fixture.map.Iterate(cursor, {.page_records_max = 300});
    REQUIRE(page.ok());
    for (const Record& record : page->records()) seen.emplace_back(record.key, record.value);
    cursor = page->next();
    // Pages end with ranges. Without the substr each split would be followed by a split a letter
    // further.
    const std::string key = cursor.key.substr(0, Key(0).size()) + "b";
    splits += Split(fixture.cluster, "split", key).ok() ? 1 : 0;
  }
  CHECK(splits > 5);
  CHECK(seen == Records(model.begin(), model.end()));
}

TEST_CASE("RecordsThatExpireDoSoAfterASplit", "[kinds]") {
  Fixture fixture;
  for (int i = 0; i < 200; ++i) {
    const bool stays = i % 2 == 0;
    REQUIRE(
        fixture.map.Put(Key(i), "v", {.ttl = std::chrono::milliseconds(stays ? 600'000 : 1'500)})
            .ok());
  }
  REQUIRE(Split(fixture.cluster, "split", Key(100)).ok());
  CHECK(WaitUntil([&] { return fixture.map.CountRange({}).value() == 100; }));
  for (auto scan = fixture.map.NewScan(); scan.Next();) {
    CHECK(scan.record().expires_at.has_value());
  }
  CHECK(fixture.map.Get(Key(150)).ok());
  CHECK(fixture.map.Get(Key(151)).code() == StatusCode::kNotFound);
}

TEST_CASE("LargeValuesMoveToo", "[kinds]") {
  Fixture fixture;
  Model model = Many(50);
  for (int i = 0; i < 50; i += 7) {
    model[Key(i)] = std::string(900'000 + 400'000u * static_cast<std::size_t>(i % 5),
                                static_cast<char>('a' + i % 26));
  }
  PutAll(fixture.map, model);
  REQUIRE(Split(fixture.cluster, "split", Key(20)).ok());
  REQUIRE(Split(fixture.cluster, "split", Key(35)).ok());
  CHECK(Walk(fixture.map, {}) == Records(model.begin(), model.end()));
}

TEST_CASE("WaitsEndWhereTheirKeysHaveGone", "[kinds]") {
  Fixture fixture;
  PutAll(fixture.map, Many(100));
  std::vector<Future<Value>> waits;
  for (int i = 0; i < 20; ++i) {
    waits.push_back(fixture.map.WaitForKeyAsync(Key(i * 5) + "new", {.timeout = seconds(50)}));
  }
  (void)fixture.map.Get(Key(0));  // Moves the client on, so that the waits are under way.
  REQUIRE(Split(fixture.cluster, "split", Key(50)).ok());
  Client other = ConnectTo(fixture.cluster);
  const auto map = *other.Open<BytesOrderedMap>("split");
  for (int i = 0; i < 20; ++i) REQUIRE(map.Put(Key(i * 5) + "new", "there").ok());
  for (Future<Value>& wait : waits) CHECK(wait.Wait().value().bytes == "there");
}

TEST_CASE("BuffersThatWereFilledBeforeASplitAreTakenApart", "[kinds]") {
  Fixture fixture;
  Model model;
  BufferedBytesMap buffered =
      fixture.map.Buffered({.age_max = std::chrono::milliseconds(0), .buffers_in_flight = 8});
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 500; ++i) {
      const std::string key = Key((i * 37 + round) % 2'000);
      buffered.Put(key, std::to_string(round));
      model[key] = std::to_string(round);
    }
    const std::string key = Key(100 * round + 50);
    REQUIRE(Split(fixture.cluster, "split", key).ok());
  }
  const Status flushed = buffered.Flush();
  INFO(flushed.ToString());
  REQUIRE(flushed.ok());
  CHECK(Walk(fixture.map, {}) == Records(model.begin(), model.end()));
}

TEST_CASE("WhatCannotBeSplitIsRefused", "[kinds]") {
  Fixture fixture;
  PutAll(fixture.map, Many(10));
  CHECK(Split(fixture.cluster, "default", std::nullopt).code() == StatusCode::kInvalidArgument);
  CHECK(Split(fixture.cluster, "nowhere", std::nullopt).code() == StatusCode::kNotFound);
  CHECK(Split(fixture.cluster, "split", "").code() == StatusCode::kFailedPrecondition);
  CHECK(Split(fixture.cluster, "split", std::string(2'000, 'x')).code() ==
        StatusCode::kInvalidArgument);
  REQUIRE(Split(fixture.cluster, "split", Key(5)).ok());
  CHECK(Split(fixture.cluster, "split", Key(5)).code() == StatusCode::kFailedPrecondition);
  const auto admits =
      Open<BytesOrderedMap>(fixture.client, "admits", {.prefilter = Prefilter::kAdmit});
  REQUIRE(admits.Put("k", "v").ok());
  CHECK(Split(fixture.cluster, "admits", "j").code() == StatusCode::kFailedPrecondition);
  CHECK(RangesOf(fixture.cluster, "split") == 2);
}

TEST_CASE("RangesThatGrowAreSplitByThemselves", "[kinds]") {
  Fixture fixture(
      {.cores = 2, .memory = "192MiB", .flags = {"--split-records=2000", "--split-check-ms=50"}});
  const auto grows = Open<BytesOrderedMap>(fixture.client, "grows");
  const Model model = Many(20'000);
  PutAll(grows, model);
  CHECK(WaitUntil([&] {
    const auto described = Described(fixture.cluster, "grows");
    return described.records() == model.size() &&
           std::all_of(described.partitions().begin(), described.partitions().end(),
                       [](const auto& entry) { return entry.records() < 2'000; });
  }));
  CHECK(RangesOf(fixture.cluster, "grows") > 10);
  CHECK(Walk(grows, {}) == Records(model.begin(), model.end()));
  // A namespace that is only split by hand stays unchanged.
  PutAll(fixture.map, model);
  CHECK(RangesOf(fixture.cluster, "split") == 1);
}

TEST_CASE("ARangeThatKeepsItsCoreBusyIsSplit", "[kinds]") {
  Fixture fixture({.cores = 2,
                   .memory = "128MiB",
                   .flags = {"--split-operations=2000", "--split-check-ms=100"}});
  // A client that reads the daemon's memory keeps no core busy.
  ConnectOptions by_message;
  by_message.direct_read_bytes_max = 0;
  Client client = ConnectTo(fixture.cluster, by_message);
  const auto busy = Open<BytesOrderedMap>(client, "busy");
  const Model model = Many(2'000);
  PutAll(busy, model);
  std::vector<std::string_view> keys;
  for (const auto& [key, value] : model) keys.push_back(key);
  CHECK(WaitUntil([&] {
    for (int i = 0; i < 20; ++i) REQUIRE(busy.MultiGet(keys).AllOk());
    return RangesOf(fixture.cluster, "busy") > 1;
  }));
  CHECK(Walk(busy, {}) == Records(model.begin(), model.end()));
}

TEST_CASE("ACopyOfAPrefilterOutlivesSplits", "[kinds]") {
  Fixture fixture;
  const auto plain = Open<BytesOrderedMap>(
      fixture.client, "filtered",
      {.expected_items = 5'000, .prefilter = Prefilter::kAbsent, .split = SplitMode::kManual});
  const Model model = Many(1'000);
  PutAll(plain, model);
  const auto copied = WithPrefilter(plain);
  REQUIRE(copied.ok());
  const auto all_there = [&] {
    return std::all_of(model.begin(), model.end(),
                       [&](const auto& record) { return copied->Get(record.first).ok(); });
  };
  REQUIRE(Split(fixture.cluster, "filtered", Key(300)).ok());
  CHECK(all_there());
  REQUIRE(copied->Put("own", "v").ok());
  REQUIRE(Split(fixture.cluster, "filtered", Key(600)).ok());
  REQUIRE(copied->space().RefreshPrefilter().ok());
  CHECK(all_there());
  CHECK(copied->Get("own").ok());
  const std::uint64_t before = copied->space().prefilter_stats().answered;
  for (int i = 0; i < 1'000; ++i) CHECK_FALSE(copied->Contains(Key(i) + "absent").value());
  CHECK(copied->space().prefilter_stats().answered > before + 900);
}

TEST_CASE("ACopyThatFindsNoMemoryLeavesTheRangeAsItWas", "[kinds]") {
  Fixture fixture({.cores = 2, .memory = "64MiB"});
  Model model;
  // Until memory is nearly full.
  for (int i = 0; i < 60; ++i) {
    const std::string value(1u << 19, static_cast<char>('a' + i % 26));
    if (!fixture.map.Put(Key(i), value).ok()) break;
    model[Key(i)] = value;
  }
  const Status split = Split(fixture.cluster, "split", Key(1));
  INFO(split.ToString());
  CHECK(split.code() == StatusCode::kResourceExhausted);
  CHECK(RangesOf(fixture.cluster, "split") == 1);
  CHECK(Walk(fixture.map, {}) == Records(model.begin(), model.end()));
  CHECK(fixture.map.Delete(Key(0)).ok());
  model.erase(Key(0));
  CHECK(fixture.map.Length().value() == model.size());
}

// Both take an equal number for the new range, and one of them is faster.
TEST_CASE("RangesOfTwoNodesAreSplitAtTheSameTime", "[kinds]") {
  TestCluster cluster({.nodes = 2, .cores = 2, .memory = "256MiB"});
  cluster.WaitReady();
  Client client = ConnectTo(cluster);
  const auto map =
      Open<BytesOrderedMap>(client, "both", {.split_keys = {"m"}, .split = SplitMode::kManual});
  REQUIRE(Described(cluster, "both").namespace_().partitions(0).node_id() !=
          Described(cluster, "both").namespace_().partitions(1).node_id());
  const std::string value(4'000, 'v');
  // The copy of the first takes several times as long.
  std::vector<Future<Version>> puts;
  for (int i = 0; i < 8'000; ++i) puts.push_back(map.PutAsync("a" + Key(i), value));
  for (int i = 0; i < 2'000; ++i) puts.push_back(map.PutAsync("n" + Key(i), value));
  for (auto& put : puts) RequireOk(put.Wait().status());
  Status first;
  std::thread slower([&] { first = Split(cluster, "both", "a" + Key(100)); });
  const Status second = Split(cluster, "both", "n" + Key(100));
  // With the next map the number is known to be another node's.
  (void)Open<BytesMap>(client, "next");
  slower.join();
  RequireOk(second);
  RequireOk(first);
  CHECK(RangesOf(cluster, "both") == 4);
  CHECK(map.Length().value() == puts.size());
}

TEST_CASE("ASplitIsAskedForOnAnyNodeAndSurvivesItsCoordinatorsSilence", "[kinds]") {
  Fixture fixture({.nodes = 2, .cores = 2, .memory = "96MiB"});
  const Model model = Many(1'000);
  // On both nodes, so that at least a range is not the coordinator's.
  const auto map = Open<BytesOrderedMap>(fixture.client, "two",
                                         {.split_keys = {Key(500)}, .split = SplitMode::kManual});
  PutAll(map, model);
  for (std::size_t asked = 0; asked < 2; ++asked) {
    for (const int at : {250, 750}) {
      const std::string key = Key(at) + std::to_string(asked);
      const Status split = Split(fixture.cluster, "two", key, asked);
      INFO(split.ToString());
      CHECK(split.ok());
    }
  }
  CHECK(RangesOf(fixture.cluster, "two") == 6);
  CHECK(Walk(map, {}) == Records(model.begin(), model.end()));
  // The coordinator stands still: its own range does too, the other node's serves on unsplit, and
  // is split once the coordinator answers.
  const std::size_t coordinator = fixture.cluster.coordinator_index();
  const std::size_t other = 1 - coordinator;
  const auto described = Described(fixture.cluster, "two");
  std::string there;
  for (const auto& entry : described.partitions()) {
    if (entry.partition().node_id() == fixture.cluster.node_id(other)) {
      there = entry.partition().begin() + "x";
    }
  }
  fixture.cluster.Suspend(coordinator);
  const Status split = Split(fixture.cluster, "two", there, other, 1'000);
  CHECK_FALSE(split.ok());
  fixture.cluster.Resume(coordinator);
  CHECK(WaitUntil([&] { return RangesOf(fixture.cluster, "two") == 7; }));
  CHECK(Walk(map, {}) == Records(model.begin(), model.end()));
}

}  // namespace
}  // namespace tidepool::testing
