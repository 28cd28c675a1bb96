// Ordered namespaces of several ranges through the SDK: every operation, wherever its keys lie.
#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/client/api/ordered_fixture.h"

namespace tidepool::testing {
namespace {

// Two nodes of two cores, and ranges that the random keys of the fixture meet: some are empty.
struct Ranges {
  explicit Ranges(std::string_view name = "ranges")
      : cluster({.nodes = 2, .cores = 2}),
        client((cluster.WaitReady(), ConnectTo(cluster))),
        map(Open<BytesOrderedMap>(client, name, {.split_keys = SplitKeys()})) {}

  static std::vector<std::string> SplitKeys() {
    return {"a", "ab", std::string("b\0", 2), "c", "\x7f", "\x80\xff", "\xff"};
  }
  TestCluster cluster;
  Client client;
  BytesOrderedMap map;
};

TEST_CASE("RandomOperationsOnSeveralRangesAgreeWithAMap", "[kinds]") {
  Random random("RandomOperationsOnSeveralRangesAgreeWithAMap");
  Ranges ranges;
  CHECK(ranges.map.space().partitions() == 8);
  CHECK(ranges.client.List().value().back().options.split_keys == Ranges::SplitKeys());
  Model model;
  RandomSteps(ranges.map, 5000, random, &model);
  CHECK(Walk(ranges.map, {}) == Records(model.begin(), model.end()));
  CHECK(ranges.map.Length().value() == model.size());
  CHECK(ranges.map.LengthAsync().Wait().value() == model.size());
}

TEST_CASE("IterationAndItsCursorGoOverAllRanges", "[kinds]") {
  Ranges ranges;
  Random random("IterationAndItsCursorGoOverAllRanges");
  Model model;
  while (model.size() < 300) model[RandomKey(random)] = "v";
  PutAll(ranges.map, model);
  Records seen;
  Cursor cursor;
  while (!cursor.at_end) {
    const Result<Page> page = ranges.map.Iterate(cursor, {.page_records_max = 7});
    REQUIRE(page.ok());
    for (const Record& record : page->records()) seen.emplace_back(record.key, record.value);
    cursor = page->next();
  }
  CHECK(seen == Records(model.begin(), model.end()));
  // Node by node: each record once, and on the node that has it.
  Model by_node;
  for (std::uint32_t node = 0; node < 2; ++node) {
    Iterator walk = ranges.map.NewIterator({.node = node});
    while (walk.Next()) {
      CHECK(ranges.map.space().OwnerOf(walk.record().key) == node);
      CHECK(by_node.emplace(walk.record().key, walk.record().value).second);
    }
    CHECK(walk.status().ok());
    CHECK(by_node.size() > 0);
  }
  CHECK(by_node == model);
}

TEST_CASE("BatchesBuffersAndWaitsFindTheirRanges", "[kinds]") {
  Ranges ranges;
  const BytesOrderedMap& map = ranges.map;
  Random random("BatchesBuffersAndWaitsFindTheirRanges");
  Model model;
  {
    BufferedBytesMap buffered = map.Buffered();
    for (int i = 0; i < 5000; ++i) {
      const std::string key = RandomKey(random);
      buffered.Put(key, std::to_string(i));
      model[key] = std::to_string(i);
    }
    REQUIRE(buffered.Flush().ok());
  }
  CHECK(Walk(map, {}) == Records(model.begin(), model.end()));
  std::vector<std::string> keys;
  for (const auto& [key, value] : model) keys.push_back(key);
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  const BatchResult got = map.MultiGet(views);
  REQUIRE(got.AllOk());
  CHECK(map.MultiDelete(views).AllOk());
  CHECK(map.Length().value() == 0);

  Future<Value> waits = map.WaitForKeyAsync("zz", {.timeout = std::chrono::seconds(30)});
  REQUIRE(map.Put("zz", "there").ok());
  CHECK(waits.Wait().value().bytes == "there");
  const std::string large(3u << 20, 'x');
  for (const char* key : {"0", "aa", "b", "zz"}) REQUIRE(map.Put(key, large).ok());
  for (const char* key : {"0", "aa", "b", "zz"}) CHECK(map.Get(key).value().bytes == large);
}

TEST_CASE("AChainsKeysLieInOneRange", "[kinds]") {
  Ranges ranges;
  Chain inside;
  inside.Put("c1", "x");
  inside.Put("c2", "y");
  CHECK(ranges.map.Execute(inside).value().status().ok());
  Chain across;
  across.Put("c3", "x");
  across.Put("a3", "y");
  const auto refused = ranges.map.Execute(across);
  CHECK(refused.code() == StatusCode::kFailedPrecondition);
  CHECK(refused.status().ToString().find("different ranges") != std::string::npos);
  CHECK(ranges.map.Get("c3").code() == StatusCode::kNotFound);
}

}  // namespace
}  // namespace tidepool::testing
