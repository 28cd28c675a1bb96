// Iteration over a node's records, and beside writers.
#include <atomic>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/client/sdk_fixture.h"

namespace tidepool::testing {
namespace {

void PutKeys(const BytesMap& map, const std::string& prefix, int count) {
  std::vector<std::string> keys;
  for (int i = 0; i < count; ++i) keys.push_back(prefix + std::to_string(i));
  std::vector<KeyValue> records;
  for (const std::string& key : keys) records.push_back({key, "v"});
  RequireOk(map.MultiPut(records).FirstFailure());
}

TEST_CASE("The records of all nodes are those of each together", "[iterate]") {
  TestCluster cluster({.nodes = 3});
  cluster.WaitReady();
  Client client = ConnectTo(cluster);
  const BytesMap map = Open<BytesMap>(client, "local", {.partitions = 16});
  constexpr int kKeys = 3'000;
  PutKeys(map, "key", kKeys);
  std::map<std::string, int> seen;
  for (const NodeInfo& node : client.Describe().nodes) {
    CHECK(node.local);
    int here = 0;
    auto it = map.NewIterator({.node = node.id});
    for (; it.Next(); ++here) {
      const std::string key(it.record().key);
      ++seen[key];
      REQUIRE(map.space().OwnerOf(key) == node.id);
    }
    RequireOk(it.status());
    CHECK(here > 0);
  }
  CHECK(seen.size() == kKeys);
  for (const auto& [key, times] : seen) REQUIRE(times == 1);
  auto nowhere = map.NewIterator({.node = 77});
  CHECK_FALSE(nowhere.Next());
  CHECK(nowhere.status().ok());
}

// The index splits and records move during the walk. Keys that stay are seen once, and other keys
// at most once per life.
TEST_CASE("Beside writers each key that stays is seen exactly once", "[iterate]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "iterate.writers", {.partitions = 2});
  constexpr int kStay = 2'000;
  PutKeys(map, "stay", kStay);
  std::atomic<bool> over{false};
  std::atomic<int> lives{0};
  std::thread writer([&] {
    Client other = ConnectTo(Cluster());
    const BytesMap theirs = Open<BytesMap>(other, "iterate.writers", {.partitions = 2});
    for (int round = 0; !over; ++round) {
      const std::string prefix = "brief" + std::to_string(round) + "-";
      PutKeys(theirs, prefix, 300);
      lives += 300;
      // Overwritten: another record under the same key.
      PutKeys(theirs, "stay", 200);
      for (int i = 0; i < 300; i += 2) (void)theirs.DeleteAsync(prefix + std::to_string(i));
      // The other half a round later: on a machine where walks are slow the daemon's memory would
      // fill otherwise.
      const std::string before = "brief" + std::to_string(round - 1) + "-";
      for (int i = 1; i < 300; i += 2) (void)theirs.DeleteAsync(before + std::to_string(i));
    }
  });
  const bool writes = WaitUntil([&] { return lives > 0; });
  for (int walk = 0; walk < 8; ++walk) {
    std::map<std::string, int> seen;
    auto it = map.NewIterator({.keys_only = true, .page_records_max = 100});
    while (it.Next()) ++seen[std::string(it.record().key)];
    RequireOk(it.status());
    for (int i = 0; i < kStay; ++i) REQUIRE(seen["stay" + std::to_string(i)] == 1);
    for (const auto& [key, times] : seen) REQUIRE(times == 1);
  }
  over = true;
  writer.join();
  CHECK(writes);
}

}  // namespace
}  // namespace tidepool::testing
