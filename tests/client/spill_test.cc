// Programs with more data than the daemon's memory: spilled records are read back for each reader,
// in order and exactly once.
#include <atomic>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/client/sdk_fixture.h"
#include "tests/client/spilling_cluster.h"

namespace tidepool::testing {
namespace {

using namespace std::chrono_literals;

std::string KeyOf(int i) { return "key" + std::to_string(i); }
// Returns 2,000 bytes that name their key and round.
std::string ValueOf(int i, int round) {
  std::string value = KeyOf(i) + "/" + std::to_string(round) + "/";
  value.resize(2'000, static_cast<char>('a' + (i + round) % 26));
  return value;
}

void PutAll(const BytesMap& map, int begin, int end, int round) {
  constexpr int kBatch = 500;
  for (int at = begin; at < end; at += kBatch) {
    std::vector<std::string> keys;
    std::vector<std::string> values;
    for (int i = at; i < std::min(at + kBatch, end); ++i) {
      keys.push_back(KeyOf(i));
      values.push_back(ValueOf(i, round));
    }
    std::vector<KeyValue> records;
    for (std::size_t i = 0; i < keys.size(); ++i) records.push_back({keys[i], values[i]});
    const auto put = map.MultiPut(records);
    RequireOk(put.FirstFailure());
  }
}

// 120 MB of values: twice the daemon's memory.
constexpr int kKeys = 60'000;

TEST_CASE("More than memory holds is put and read back", "[spill]") {
  SpillingCluster spilling;
  Client client = ConnectTo(*spilling);
  const BytesMap map = Open<BytesMap>(client, "spilled");
  PutAll(map, 0, kKeys, 0);
  CHECK(map.Length().value() == kKeys);

  SECTION("one by one, many at once, and by a walk") {
    std::mt19937 random(7);
    for (int i = 0; i < 2'000; ++i) {
      const int key = static_cast<int>(random() % kKeys);
      REQUIRE(map.Get(KeyOf(key)).value().bytes == ValueOf(key, 0));
    }
    for (int at = 0; at < kKeys; at += 1'000) {
      std::vector<std::string> keys;
      for (int i = at; i < at + 1'000; ++i) keys.push_back(KeyOf(i));
      const std::vector<std::string_view> views(keys.begin(), keys.end());
      const auto got = map.MultiGet(views);
      for (int i = 0; i < 1'000; ++i) {
        REQUIRE(got.value(static_cast<std::size_t>(i)) == ValueOf(at + i, 0));
      }
    }
    std::map<std::string, int> seen;
    auto it = map.NewIterator();
    while (it.Next()) ++seen[std::string(it.record().key)];
    RequireOk(it.status());
    CHECK(seen.size() == kKeys);
    for (const auto& [key, times] : seen) REQUIRE(times == 1);
  }
  SECTION("and absent keys are absent, deleted ones gone") {
    for (int i = 0; i < 1'000; ++i) REQUIRE(!map.Contains("no" + std::to_string(i)).value());
    for (int i = 0; i < kKeys; i += 50) RequireOk(map.Delete(KeyOf(i)));
    for (int i = 0; i < kKeys; i += 25) {
      REQUIRE(map.Contains(KeyOf(i)).value() == (i % 50 != 0));
    }
    CHECK(map.Length().value() == kKeys - kKeys / 50);
  }
  SECTION("and can be overwritten, taken, counted and appended to where it lies") {
    for (int i = 0; i < 2'000; ++i) RequireOk(map.Put(KeyOf(i), ValueOf(i, 1)).status());
    for (int i = 0; i < 2'000; ++i) REQUIRE(map.Get(KeyOf(i)).value().bytes == ValueOf(i, 1));
    for (int i = 2'000; i < 2'500; ++i) REQUIRE(map.Take(KeyOf(i)).value().bytes == ValueOf(i, 0));
    for (int i = 2'000; i < 2'500; ++i) REQUIRE(!map.Contains(KeyOf(i)).value());
    for (int i = 2'500; i < 3'000; ++i) RequireOk(map.Append(KeyOf(i), "+").status());
    for (int i = 2'500; i < 3'000; ++i)
      REQUIRE(map.Get(KeyOf(i)).value().bytes == ValueOf(i, 0) + "+");
  }
}

TEST_CASE("Counters on the device count every addition once", "[spill]") {
  SpillingCluster spilling;
  Client client = ConnectTo(*spilling);
  const BytesMap map = Open<BytesMap>(client, "counters");
  constexpr int kCounters = 2'000;
  std::atomic<bool> over{false};
  // Other clients keep the memory full, so that counters leave it again and again.
  std::thread others([&] {
    Client other = ConnectTo(*spilling);
    const BytesMap theirs = Open<BytesMap>(other, "counters");
    for (int round = 0; !over; ++round) PutAll(theirs, 0, 30'000, round);
  });
  std::vector<std::int64_t> expected(kCounters);
  std::mt19937 random(11);
  std::vector<Future<std::int64_t>> adds;
  for (int i = 0; i < 40'000; ++i) {
    const auto which = random() % kCounters;
    const auto by = static_cast<std::int64_t>(random() % 100);
    expected[which] += by;
    adds.push_back(map.FetchAddAsync("counter" + std::to_string(which), by));
    if (adds.size() == 256) {
      for (auto& add : adds) RequireOk(add.Wait().status());
      adds.clear();
    }
  }
  for (auto& add : adds) RequireOk(add.Wait().status());
  over = true;
  others.join();
  for (int i = 0; i < kCounters; ++i) {
    if (expected[static_cast<std::size_t>(i)] == 0) continue;
    REQUIRE(map.FetchAdd("counter" + std::to_string(i), 0).value() ==
            expected[static_cast<std::size_t>(i)]);
  }
}

TEST_CASE("Buffered additions to counters on the device count once", "[spill]") {
  SpillingCluster spilling;
  Client client = ConnectTo(*spilling);
  const BytesMap map = Open<BytesMap>(client, "buffered");
  constexpr int kCounters = 20'000;
  for (int round = 0; round < 3; ++round) {
    auto buffered = map.Buffered();
    for (int i = 0; i < kCounters; ++i) buffered.Add("counter" + std::to_string(i), 1);
    RequireOk(buffered.Flush());
    // They leave memory before they are counted on.
    PutAll(map, 0, 40'000, round);
  }
  for (int i = 0; i < kCounters; i += 7) {
    REQUIRE(map.FetchAdd("counter" + std::to_string(i), 0).value() == 3);
  }
}

// Streamed values wait for memory like small values.
TEST_CASE("Streamed values leave memory and come back", "[spill]") {
  SpillingCluster spilling;
  Client client = ConnectTo(*spilling, {.call_timeout = std::chrono::minutes(2)});
  const BytesMap map = Open<BytesMap>(client, "streamed");
  const auto value = [](int i) { return std::string(200'000, static_cast<char>('a' + i % 26)); };
  for (int i = 0; i < 1'000; ++i) RequireOk(map.Put(KeyOf(i), value(i)).status());
  for (int i = 0; i < 1'000; i += 3) REQUIRE(map.Get(KeyOf(i)).value().bytes == value(i));
}

TEST_CASE("A device full of expired records takes new ones", "[spill]") {
  SpillingCluster spilling("128MiB");
  Client client = ConnectTo(*spilling, {.call_timeout = std::chrono::minutes(2)});
  const BytesMap map = Open<BytesMap>(client, "expiring", {.ttl = 15s});
  int put = 0;
  Status refused;
  for (; put < 300'000 && refused.ok(); ++put) {
    refused = map.Put(KeyOf(put), ValueOf(put, 0)).status();
  }
  REQUIRE((refused.code() == StatusCode::kResourceExhausted || refused.ok()));
  for (int i = 0; i < 20'000; ++i) {
    const std::string key = "new" + std::to_string(i);
    REQUIRE(WaitUntil([&] { return map.Put(key, ValueOf(i, 1)).ok(); }));
  }
  auto it = map.NewIterator();
  while (it.Next()) REQUIRE(it.record().value.size() == 2'000);
  RequireOk(it.status());
}

// A read that waits for the device is not overtaken by the write behind it, and the other way.
TEST_CASE("Operations of one client on one key keep their order on the device", "[spill]") {
  SpillingCluster spilling;
  Client client = ConnectTo(*spilling);
  const BytesMap map = Open<BytesMap>(client, "order");
  PutAll(map, 0, kKeys, 0);
  for (int i = 0; i < 3'000; ++i) {
    const std::string key = KeyOf(i);
    auto before = map.GetAsync(key);
    auto put = map.PutAsync(key, ValueOf(i, 1));
    auto between = map.GetAsync(key);
    auto deleted = map.DeleteAsync(key);
    auto after = map.GetAsync(key);
    REQUIRE(before.Wait().value().bytes == ValueOf(i, 0));
    RequireOk(put.Wait().status());
    REQUIRE(between.Wait().value().bytes == ValueOf(i, 1));
    RequireOk(deleted.Wait());
    REQUIRE(after.Wait().code() == StatusCode::kNotFound);
  }
}

TEST_CASE("A chain on records on the device is applied as a whole", "[spill]") {
  SpillingCluster spilling;
  Client client = ConnectTo(*spilling);
  const BytesMap map = Open<BytesMap>(client, "chains");
  for (int i = 0; i < 1'000; ++i) {
    const std::string tag = "{" + std::to_string(i) + "}";
    RequireOk(map.Put(tag + "a", "a" + std::to_string(i)).status());
    RequireOk(map.Put(tag + "b", "b" + std::to_string(i)).status());
  }
  PutAll(map, 0, kKeys, 0);
  for (int i = 0; i < 1'000; ++i) {
    const std::string tag = "{" + std::to_string(i) + "}";
    Chain chain;
    const ChainStep taken = chain.Take(tag + "a");
    chain.Put(tag + "c", "c");
    const ChainStep read = chain.Get(tag + "b");
    const auto done = map.Execute(chain);
    RequireOk(done.status());
    RequireOk(done->status());
    REQUIRE((*done)[taken].value.bytes == "a" + std::to_string(i));
    REQUIRE((*done)[read].value.bytes == "b" + std::to_string(i));
  }
}

// The device fills too: writes are refused in words, everything else goes on, and place comes back.
TEST_CASE("A full device refuses writes and recovers", "[spill]") {
  SpillingCluster spilling("128MiB");
  Client client = ConnectTo(*spilling, {.call_timeout = std::chrono::minutes(2)});
  const BytesMap map = Open<BytesMap>(client, "full");
  int put = 0;
  Status refused;
  for (; put < 600'000 && refused.ok(); ++put) {
    refused = map.Put(KeyOf(put), ValueOf(put, 0)).status();
  }
  REQUIRE(refused.code() == StatusCode::kResourceExhausted);
  --put;
  CHECK(put > 60'000);
  for (int i = 0; i < put; i += 997) REQUIRE(map.Get(KeyOf(i)).value().bytes == ValueOf(i, 0));
  for (int i = 0; i < put; i += 2) RequireOk(map.Delete(KeyOf(i)));
  for (int i = 0; i < 10'000; ++i) {
    RequireOk(map.Put("again" + std::to_string(i), ValueOf(i, 2)).status());
  }
  for (int i = 1; i < put; i += 998) {
    if (i % 2 == 1) REQUIRE(map.Get(KeyOf(i)).value().bytes == ValueOf(i, 0));
  }
}

}  // namespace
}  // namespace tidepool::testing
