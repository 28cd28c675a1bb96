// HashMap and HashSet against a real daemon: operations, batches, iteration, and types that differ.
#include "tidepool/hash_map.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "proto/base/bytes.h"
#include "proto/placement/owner.h"
#include "tests/client/sdk_fixture.h"
#include "tidepool/v1/common.pb.h"

namespace tidepool::testing {
namespace {

struct Particle {
  double x[3];
  double v[3];

  friend bool operator==(const Particle&, const Particle&) = default;
};
struct CellKey {
  std::uint32_t cell;
  std::uint32_t index;

  friend auto operator<=>(const CellKey&, const CellKey&) = default;
};
struct ByCell {
  static constexpr std::string_view kName = "cell";
  static std::uint32_t Tag(const CellKey& key) { return key.cell; }
};
struct ByFolder {
  static constexpr std::string_view kName = "folder";
  static std::string_view Tag(std::string_view path) { return path.substr(0, path.find('/')); }
};

bool Says(const Status& status, std::string_view text) {
  return status.ToString().find(text) != std::string::npos;
}

TEST_CASE("AMapOfStructs") {
  Client client = ConnectTo(Cluster());
  const auto map = Open<HashMap<std::string, Particle>>(client, "structs");
  const Particle p7{{7, 0, 0}, {0, 0, 1}};
  CHECK(map.Get("p7").code() == StatusCode::kNotFound);
  const auto made = map.Put("p7", p7, {.condition = PutCondition::kIfAbsent});
  REQUIRE(made.ok());
  CHECK(map.Get("p7").value() == p7);
  const auto versioned = map.GetVersioned(std::string_view("p7"));
  REQUIRE(versioned.ok());
  CHECK(versioned->value == p7);
  CHECK(versioned->version == *made);
  CHECK(map.Contains("p7").value_or(false));
  CHECK(map.Length().value_or(0) == 1);
  Particle moved = p7;
  moved.x[0] = 8;
  CHECK(map.CompareAndSwap("p7", moved, p7).code() == StatusCode::kFailedPrecondition);
  CHECK(map.CompareAndSwap("p7", p7, moved).ok());
  CHECK(map.Put("p7", p7, {.condition = PutCondition::kIfVersion, .if_version = *made}).code() ==
        StatusCode::kFailedPrecondition);
  CHECK(map.Take("p7").value() == moved);
  CHECK(map.Delete("p7").code() == StatusCode::kNotFound);
  REQUIRE(map.Put("p8", p7, {.ttl = std::chrono::seconds(1'000)}).ok());
  CHECK(map.Ttl("p8").value_or(std::chrono::milliseconds(0)) > std::chrono::seconds(900));
  CHECK(map.Expire("p8", kForEver).ok());
  CHECK(map.Ttl("p8").value_or(std::chrono::milliseconds(0)) == kForEver);
}

TEST_CASE("FuturesAreTyped") {
  Client client = ConnectTo(Cluster());
  const auto map = Open<HashMap<int, std::vector<double>>>(client, "futures");
  std::vector<double> numbers{1, 2, 3};
  Future<Version> put = map.PutAsync(5, numbers);
  numbers.assign(3, 0);  // It was copied.
  Future<std::vector<double>> get = map.GetAsync(5);
  Future<Versioned<std::vector<double>>> versioned = map.GetVersionedAsync(5);
  Future<bool> contains = map.ContainsAsync(6);
  const auto version = put.Wait();
  REQUIRE(version.ok());
  CHECK(get.Wait().value() == std::vector<double>{1, 2, 3});
  const auto read = versioned.Wait();
  REQUIRE(read.ok());
  CHECK(read->version == *version);
  CHECK(read->value.size() == 3);
  CHECK_FALSE(contains.Wait().value_or(true));
  std::atomic<int> size{-1};
  map.TakeAsync(5).Then([&size](Result<std::vector<double>> taken) {
    size = taken.ok() ? static_cast<int>(taken->size()) : -2;
  });
  // It runs on the thread that makes progress: this thread.
  CHECK(WaitUntil([&] { return !map.Contains(5).value_or(true) && size == 3; }));
  CHECK(map.DeleteAsync(5).Wait().code() == StatusCode::kNotFound);
  CHECK(map.LengthAsync().Wait().value_or(9) == 0);
}

TEST_CASE("CountersOfBothKinds") {
  Client client = ConnectTo(Cluster());
  const auto integers = Open<HashMap<std::string, std::int64_t>>(client, "integers");
  REQUIRE(integers.Put("visits", 40).ok());
  CHECK(integers.FetchAdd("visits", 2).value_or(0) == 40);
  CHECK(integers.Get("visits").value_or(0) == 42);
  CHECK(integers.FetchOrAsync("visits", 1).Wait().value_or(0) == 42);
  CHECK(integers.FetchMax("visits", 50).value_or(0) == 43);
  CHECK(integers.FetchXor("visits", 50).value_or(0) == 50);
  CHECK(integers.FetchAnd("visits", 0).value_or(1) == 0);
  CHECK(integers.FetchMinAsync("visits", -3).Wait().value_or(1) == 0);
  CHECK(integers.bytes().Get("visits")->AsI64() == -3);
  const auto doubles = Open<HashMap<std::string, double>>(client, "doubles");
  CHECK(doubles.FetchAdd("energy", 0.5).value_or(1) == 0);
  CHECK(doubles.FetchAddAsync("energy", 1).Wait().value_or(0) == 0.5);
  CHECK(doubles.FetchMin("energy", 1).value_or(0) == 1.5);
  CHECK(doubles.FetchMax("energy", 9).value_or(0) == 1);
  CHECK(doubles.Get("energy").value_or(0) == 9);
  CHECK(doubles.bytes().Get("energy")->kind == ValueKind::kF64);
}

TEST_CASE("AllSignedNumbersOfEightBytesAreCounters") {
  Client client = ConnectTo(Cluster());
  REQUIRE(Open<HashMap<int, long long>>(client, "long-long").Put(1, 5).ok());
  const auto map = Open<HashMap<int, std::int64_t>>(client, "long-long");
  CHECK(map.FetchAdd(1, 2).value_or(0) == 5);
  REQUIRE(map.MultiPut(std::map<int, std::int64_t>{{2, 6}}).AllOk());
  CHECK(map.FetchAdd(2, 1).value_or(0) == 6);
}

TEST_CASE("TextIsAppended") {
  Client client = ConnectTo(Cluster());
  const auto map = Open<HashMap<std::uint64_t, std::string>>(client, "text");
  CHECK(map.Append(1, "ab").value_or(0) == 2);
  CHECK(map.AppendAsync(1, "c").Wait().value_or(0) == 3);
  CHECK(map.Get(1).value() == "abc");
}

TEST_CASE("BatchesTakeContainersOfManyKinds") {
  Client client = ConnectTo(Cluster());
  const auto map = Open<HashMap<std::string, Particle>>(client, "batches");
  std::map<std::string, Particle> records;
  for (int i = 0; i < 500; ++i) records["p" + std::to_string(i)] = {{i * 0.5, 0, 0}, {}};
  CHECK(map.MultiPut(records).AllOk());
  std::vector<std::string> names;
  for (const auto& [name, particle] : records) names.push_back(name);
  names.push_back("absent");
  const ValueBatch<Particle> read = map.MultiGet(names);
  REQUIRE(read.size() == 501);
  CHECK(read.ok_count() == 500);
  CHECK(read.FirstFailure().ok());
  for (std::size_t i = 0; i < 500; ++i) REQUIRE(read.value(i).value() == records[names[i]]);
  CHECK(read.version(3) != 0);
  CHECK(read.value(500).code() == StatusCode::kNotFound);
  const char* const few[] = {"p3", "p4"};
  CHECK(map.MultiGetAsync(few).Wait().value().value(1)->x[0] == 2);
  const std::vector<std::pair<std::string_view, Particle>> pairs{{"p3", {}}, {"p4", {}}};
  CHECK(map.MultiPutAsync(pairs).Wait()->AllOk());
  CHECK(map.Get("p4")->x[0] == 0);
  CHECK(map.MultiDelete(std::vector<std::string_view>{"p3", "p4", "absent"}).ok_count() == 2);
  CHECK(map.MultiDeleteAsync(names).Wait()->ok_count() == 498);
  CHECK(map.Length().value_or(1) == 0);
}

TEST_CASE("KeysAndValuesOfManyParts") {
  using Key = std::tuple<std::string, std::int32_t, std::optional<std::string>>;
  using Value = std::pair<std::string, std::vector<std::string>>;
  Client client = ConnectTo(Cluster());
  const auto map = Open<HashMap<Key, Value>>(client, "parts");
  std::map<Key, Value> records;
  for (int i = 0; i < 100; ++i) {
    const std::string name = std::to_string(i);
    records[{name, i % 7, i % 2 == 0 ? std::optional<std::string>(name) : std::nullopt}] = {
        name, std::vector<std::string>(static_cast<std::size_t>(i % 5), name)};
  }
  REQUIRE(map.MultiPut(records).AllOk());
  CHECK(map.Get({"8", 1, "8"}).value() == records.at({"8", 1, "8"}));
  CHECK(map.Get({"8", 1, std::nullopt}).code() == StatusCode::kNotFound);
  std::map<Key, Value> seen;
  auto it = map.NewIterator({.page_records_max = 10});
  while (it.Next()) {
    CHECK(it.version() != 0);
    CHECK(seen.emplace(it.key(), it.value()).second);
  }
  CHECK(it.status().ok());
  CHECK(seen == records);
  std::size_t count = 0;
  for (auto keys = map.NewIterator({.keys_only = true}); keys.Next();) {
    count += records.count(keys.key());
  }
  CHECK(count == 100);
}

TEST_CASE("LargeValuesComeWholeAlsoInIterations") {
  Client client = ConnectTo(Cluster());
  const auto map = Open<HashMap<std::int32_t, std::vector<std::int32_t>>>(client, "large");
  std::vector<std::int32_t> large(200'000);
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<std::int32_t>(i * i);
  REQUIRE(map.Put(1, large).ok());
  CHECK(map.Get(1).value() == large);
  auto it = map.NewIterator();
  REQUIRE(it.Next());
  CHECK(it.key() == 1);
  CHECK(it.value() == large);
}

TEST_CASE("ElementsAreReadIntoMemoryOfTheCallers") {
  Client client = ConnectTo(Cluster());
  const auto rows = Open<HashMap<std::string, std::vector<double>>>(client, "rows");
  REQUIRE(rows.Put("row", {1.5, 2.5, 3.5}).ok());
  std::vector<double> memory(5, -1);
  const auto got = rows.GetInto("row", memory);
  REQUIRE(got.ok());
  CHECK(got->data() == memory.data());
  CHECK(got->size() == 3);
  CHECK(memory == std::vector<double>{1.5, 2.5, 3.5, -1, -1});
  CHECK(rows.GetInto("row", std::span(memory).first(2)).code() == StatusCode::kOutOfRange);
  CHECK(rows.GetInto("none", memory).code() == StatusCode::kNotFound);
  REQUIRE(rows.bytes().Put("odd", "seven b").ok());
  CHECK(rows.GetInto("odd", memory).code() == StatusCode::kFailedPrecondition);

  const auto texts = Open<HashMap<std::string, std::string>>(client, "texts_into");
  REQUIRE(texts.Put("greeting", "hello").ok());
  std::string room(8, '.');
  REQUIRE(texts.GetInto("greeting", room).ok());
  CHECK(room == "hello...");
}

TEST_CASE("ProtobufMessagesAreValues") {
  Client client = ConnectTo(Cluster());
  const auto map = Open<HashMap<std::string, v1::StatusDetails>>(client, "messages");
  v1::StatusDetails details;
  details.set_code(5);
  details.set_what("gone");
  REQUIRE(map.Put("k", details).ok());
  const auto back = map.Get("k");
  REQUIRE(back.ok());
  CHECK(back->what() == "gone");
}

TEST_CASE("APlacementKeepsKeysOfOneTagTogether") {
  Client client = ConnectTo(Cluster());
  const auto map = Open<HashMap<CellKey, int, ByCell>>(client, "cells");
  CHECK(map.KeyType() == "placed<cell,raw<tidepool::testing::CellKey,8>>");
  std::map<CellKey, int> records;
  for (std::uint32_t cell = 0; cell < 20; ++cell) {
    for (std::uint32_t i = 0; i < 10; ++i) records[{cell, i}] = static_cast<int>(cell * 100 + i);
  }
  REQUIRE(map.MultiPut(records).AllOk());
  CHECK(map.Get({3, 4}).value_or(0) == 304);
  std::map<CellKey, int> seen;
  for (auto it = map.NewIterator(); it.Next();) seen[it.key()] = it.value();
  CHECK(seen == records);
  // All keys of a cell are in a single partition, and the cells use several partitions.
  std::map<std::string, std::set<std::uint32_t>> partitions;
  std::set<std::uint32_t> all;
  for (auto it = map.bytes().NewIterator(); it.Next();) {
    const std::string_view key = it.record().key;
    const auto partition = placement::PartitionIndexOf(AsBytes(key), map.space().partitions());
    partitions[std::string(key.substr(0, key.find('}')))].insert(partition);
    all.insert(partition);
  }
  CHECK(partitions.size() == 20);
  for (const auto& [tag, of_tag] : partitions) CHECK(of_tag.size() == 1);
  CHECK(all.size() > 1);
}

TEST_CASE("ATagMayBeAnyText") {
  Client client = ConnectTo(Cluster());
  const auto map = Open<HashMap<std::string, int, ByFolder>>(client, "folders");
  const std::vector<std::string> paths{"a}b/x", "a}b/y", "{%/x", "/x", "", "plain"};
  for (std::size_t i = 0; i < paths.size(); ++i) {
    REQUIRE(map.Put(paths[i], static_cast<int>(i)).ok());
  }
  for (std::size_t i = 0; i < paths.size(); ++i) {
    CHECK(map.Get(paths[i]).value_or(-1) == static_cast<int>(i));
  }
  std::set<std::string> seen;
  for (auto it = map.NewIterator(); it.Next();) seen.insert(it.key());
  CHECK(seen == std::set<std::string>(paths.begin(), paths.end()));
  const auto partition_of = [&map](std::string_view key) {
    return placement::PartitionIndexOf(AsBytes(key), map.space().partitions());
  };
  CHECK(partition_of("{a%7Db}a}b/x") == partition_of("{a%7Db}a}b/y"));
  CHECK(map.bytes().Contains("{a%7Db}a}b/x").value_or(false));
  // Keys of the empty tag share a partition too: "{}" would be no tag.
  std::set<std::uint32_t> of_root;
  for (int i = 0; i < 20; ++i) REQUIRE(map.Put("/" + std::to_string(i), i).ok());
  for (auto it = map.bytes().NewIterator({.keys_only = true}); it.Next();) {
    const std::string_view key = it.record().key;
    if (key.find("}/") != std::string_view::npos) of_root.insert(partition_of(key));
  }
  CHECK(of_root.size() == 1);
}

TEST_CASE("ASetTellsWhatIsNew") {
  Client client = ConnectTo(Cluster());
  const auto set = Open<HashSet<std::string>>(client, "set");
  CHECK(set.Insert("a").value_or(false));
  CHECK_FALSE(set.Insert("a").value_or(true));
  CHECK(set.InsertAsync("b").Wait().value_or(false));
  CHECK_FALSE(set.InsertAsync("b").Wait().value_or(true));
  CHECK(set.Contains("a").value_or(false));
  CHECK_FALSE(set.ContainsAsync("c").Wait().value_or(true));
  CHECK(set.Length().value_or(0) == 2);
  CHECK(set.Erase("a").value_or(false));
  CHECK_FALSE(set.Erase("a").value_or(true));
  const std::vector<std::string> keys{"b", "c", "d"};
  const BatchResult inserted = set.MultiInsert(keys);
  CHECK(inserted.code(0) == StatusCode::kAlreadyExists);
  CHECK(inserted.code(2) == StatusCode::kOk);
  std::set<std::string> seen;
  auto it = set.NewIterator();
  while (it.Next()) seen.insert(it.key());
  CHECK(it.status().ok());
  CHECK(seen == std::set<std::string>{"b", "c", "d"});
  CHECK(set.MultiErase(std::vector<std::string>{"b", "x"}).code(1) == StatusCode::kNotFound);
  CHECK(set.MultiEraseAsync(keys).Wait()->ok_count() == 2);
  CHECK(set.MultiInsertAsync(keys).Wait()->AllOk());
  CHECK(set.Length().value_or(0) == 3);
}

TEST_CASE("OfAllInsertersOfAKeyOneIsToldThatItIsNew") {
  Client client = ConnectTo(Cluster());
  const auto set = Open<HashSet<std::pair<int, std::string>>>(client, "race");
  constexpr int kThreads = 4;
  constexpr int kKeys = 300;
  std::atomic<int> told_new{0};
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kKeys; ++i) {
        const auto is_new = set.Insert({i, "key"});
        failures += !is_new.ok();
        told_new += is_new.value_or(false);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(failures == 0);
  CHECK(told_new == kKeys);
}

TEST_CASE("ANamespaceOfOtherTypesIsRefusedByBothNames") {
  using Particles = HashMap<std::string, Particle>;
  using Numbers = HashMap<std::string, double>;
  Client client = ConnectTo(Cluster());
  const auto particles = Open<Particles>(client, "typed");
  const auto check = [](const Status& status) {
    INFO(status.ToString());
    CHECK(status.code() == StatusCode::kFailedPrecondition);
    CHECK(Says(status, "'typed'"));
    CHECK(Says(status, "'raw<tidepool::testing::Particle,48>'"));
    CHECK(Says(status, "'f64'"));
    CHECK_FALSE(Says(status, "keys"));
  };
  check(client.OpenOrCreate<Numbers>("typed").status());
  check(client.Create<Numbers>("typed").status());
  check(client.Open<Numbers>("typed").status());
  const Status set = client.Open<HashSet<std::int32_t>>("typed").status();
  CHECK(set.code() == StatusCode::kFailedPrecondition);
  CHECK(Says(set, "keys are 'string', not 'i32'"));
  CHECK(Says(set, "not 'unit'"));
  CHECK(client.Open<HashMap<std::string, Particle, ByFolder>>("typed").code() ==
        StatusCode::kFailedPrecondition);
  // Another client, the same types.
  Client other = ConnectTo(Cluster());
  REQUIRE(particles.Put("p", Particle{{1, 2, 3}, {}}).ok());
  CHECK(Open<Particles>(other, "typed").Get("p")->x[1] == 2);
  CHECK(other.Open<Particles>("typed").ok());
}

TEST_CASE("BytesFitEveryNamespaceAndAnUntypedOneFitsAllTypes") {
  Client client = ConnectTo(Cluster());
  const auto typed = Open<HashMap<std::int32_t, std::int64_t>>(client, "numbers");
  REQUIRE(typed.Put(5, 50).ok());
  const auto bytes = Open<BytesMap>(client, "numbers");
  CHECK(bytes.Get(std::string("\5\0\0\0", 4))->AsI64() == 50);
  CHECK(client.Open<BytesMap>("numbers").ok());
  Open<BytesMap>(client, "untyped");
  CHECK(client.Open<HashMap<std::string, Particle>>("untyped").ok());
  CHECK(client.OpenOrCreate<HashSet<std::string>>("untyped").ok());
  const auto list = client.List();
  REQUIRE(list.ok());
  std::map<std::string, std::string> types;
  for (const auto& info : *list) {
    types[info.name] = info.options.key_type + "/" + info.options.value_type;
  }
  CHECK(types["numbers"] == "i32/i64");
  CHECK(types["untyped"] == "/");
  CHECK(types["default"] == "/");
}

TEST_CASE("AForeignRecordIsReportedAndNotGuessed") {
  Client client = ConnectTo(Cluster());
  const auto map = Open<HashMap<std::string, Particle>>(client, "foreign");
  REQUIRE(map.bytes().Put("p", "seven b").ok());
  const Status status = map.Get("p").status();
  CHECK(status.code() == StatusCode::kFailedPrecondition);
  CHECK(Says(status, "7 bytes"));
  CHECK(map.GetAsync("p").Wait().code() == StatusCode::kFailedPrecondition);
  const auto batch = map.MultiGet(std::vector<std::string>{"p"});
  CHECK(batch.code(0) == StatusCode::kOk);
  CHECK(batch.value(0).code() == StatusCode::kFailedPrecondition);
  auto it = map.NewIterator();
  CHECK_FALSE(it.Next());
  CHECK(it.status().code() == StatusCode::kFailedPrecondition);
  CHECK_FALSE(it.Next());
}

TEST_CASE("ADroppedNamespaceIsNoAnswerOfASet") {
  Client client = ConnectTo(Cluster());
  const auto set = Open<HashSet<int>>(client, "dropped");
  REQUIRE(set.Insert(1).ok());
  REQUIRE(client.Drop("dropped").ok());
  for (const Status& status :
       {set.Erase(1).status(), set.Contains(1).status(), set.Insert(2).status()}) {
    CHECK(status.code() == StatusCode::kNotFound);
    CHECK(Says(status, "dropped"));
  }
}

TEST_CASE("KvctlShowsTheTypes") {
  Client client = ConnectTo(Cluster());
  Open<HashMap<std::string, Particle>>(client, "shown");
  const TemporaryFolder folder;
  Process kvctl({ProgramPath("kvctl"), "--cluster", Cluster().file(), "--json", "namespace",
                 "describe", "shown"},
                {}, folder.path() + "/kvctl");
  CHECK(kvctl.Wait() == 0);
  const std::string output = kvctl.Output();
  INFO(output << kvctl.Errors());
  CHECK(output.find("\"key_type\":\"string\"") != std::string::npos);
  CHECK(output.find("\"value_type\":\"raw<tidepool::testing::Particle,48>\"") != std::string::npos);
}

}  // namespace
}  // namespace tidepool::testing
