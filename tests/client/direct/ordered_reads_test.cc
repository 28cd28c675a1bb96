// Direct reads of ordered namespaces with real daemons, also while their ranges are split.
#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/client/split_fixture.h"

namespace tidepool::testing {
namespace {

std::uint64_t DirectReads(const Client& client) { return client.Stats().direct_reads; }

bool ReadsDirectly(const Client& client, const BytesOrderedMap& map, std::string_view key) {
  return WaitUntil([&] {
    const std::uint64_t before = DirectReads(client);
    for (int i = 0; i < 300; ++i) (void)map.Get(key);
    return DirectReads(client) > before + 250;
  });
}

std::string Key(int i) { return "k" + std::to_string(1'000 + i); }

}  // namespace

TEST_CASE("Keys of all ranges are read without the daemon", "[direct]") {
  TestCluster cluster({.cores = 2});
  cluster.WaitReady();
  Client client = ConnectTo(cluster);
  const auto map = Open<BytesOrderedMap>(client, "ordered", {.split_keys = {Key(100), Key(200)}});
  for (int i = 0; i < 300; ++i) RequireOk(map.Put(Key(i), std::to_string(i)).status());
  for (const int i : {0, 99, 100, 199, 200, 299}) {
    REQUIRE(ReadsDirectly(client, map, Key(i)));
    CHECK(map.Get(Key(i))->bytes == std::to_string(i));
  }
  const std::uint64_t before = DirectReads(client);
  CHECK(*map.Contains(Key(150)));
  CHECK_FALSE(*map.Contains("k"));
  CHECK(map.Get("z").code() == StatusCode::kNotFound);
  std::array<std::byte, 8> room;
  CHECK(map.GetInto(Key(7), room)->bytes.size() == 1);
  const std::vector<std::string> keys = {Key(1), Key(101), Key(201), "absent"};
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  const BatchResult batch = map.MultiGet(views);
  CHECK(batch.value(0) == "1");
  CHECK(batch.value(1) == "101");
  CHECK(batch.value(2) == "201");
  CHECK(batch.code(3) == StatusCode::kNotFound);
  CHECK(DirectReads(client) >= before + 6);
  RequireOk(map.EraseRange({.begin = Key(100), .end = Key(200)}).status());
  CHECK_FALSE(*map.Contains(Key(150)));
  CHECK(map.Get(Key(150)).code() == StatusCode::kNotFound);
}

// Each counter grows. No reader may see a smaller number than before, wherever the counter's range
// is.
TEST_CASE("A split hides no change from who reads directly", "[direct]") {
  constexpr int kCounters = 64;
  TestCluster cluster({.cores = 3, .memory = "256MiB"});
  cluster.WaitReady();
  Client client = ConnectTo(cluster);
  const auto map = Open<BytesOrderedMap>(client, "counters", {.split = SplitMode::kManual});
  for (int i = 0; i < kCounters; ++i) RequireOk(map.FetchAdd(Key(i), 1).status());
  std::array<std::atomic<std::int64_t>, kCounters> acknowledged{};
  for (auto& count : acknowledged) count = 1;
  std::atomic<bool> stop{false};
  std::atomic<int> faults{0};
  std::atomic<std::uint64_t> reads{0};
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    Client writer = ConnectTo(cluster);
    const auto to = *writer.Open<BytesOrderedMap>("counters");
    for (int i = 0; !stop; i = (i + 1) % kCounters) {
      const auto before = to.FetchAdd(Key(i), 1);
      if (!before.ok()) {
        ++faults;
        continue;
      }
      acknowledged[static_cast<std::size_t>(i)] = *before + 1;
    }
  });
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      Client reader = ConnectTo(cluster);
      const auto from = *reader.Open<BytesOrderedMap>("counters");
      for (int i = 0; !stop; i = (i + 1) % kCounters) {
        const std::int64_t least = acknowledged[static_cast<std::size_t>(i)];
        const auto got = from.Get(Key(i));
        std::int64_t value = 0;
        if (got.ok() && got->bytes.size() == sizeof value) {
          std::memcpy(&value, got->bytes.data(), sizeof value);
        }
        if (value < least) ++faults;
      }
      reads += DirectReads(reader);
    });
  }
  int splits = 0;
  for (int i = 1; i < 40; ++i) splits += Split(cluster, "counters", Key(i)).ok() ? 1 : 0;
  // Reads come to be direct again after the last split.
  CHECK(ReadsDirectly(client, map, Key(0)));
  CHECK(ReadsDirectly(client, map, Key(kCounters - 1)));
  stop = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(faults == 0);
  CHECK(splits > 20);
  CHECK(reads > 1'000);
}

}  // namespace tidepool::testing
