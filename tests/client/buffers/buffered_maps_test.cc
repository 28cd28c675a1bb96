// Buffered handles of all containers against a real daemon, beside a model.
#include <catch2/catch.hpp>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/client/sdk_fixture.h"
#include "tests/support/random.h"

namespace tidepool::testing {
namespace {

TEST_CASE("BufferedPutsAreAllThereAfterFlush") {
  Client client = ConnectTo(Cluster());
  const auto map = Open<HashMap<std::uint64_t, std::uint64_t>>(client, "buffered-puts");
  auto buffered = map.Buffered();
  constexpr std::uint64_t kCount = 20'000;
  for (std::uint64_t i = 0; i < kCount; ++i) buffered.Put(i, i * i);
  RequireOk(buffered.Flush());
  CHECK(map.Length().value_or(0) == kCount);
  for (std::uint64_t i = 0; i < kCount; i += 777) CHECK(map.Get(i).value_or(0) == i * i);
  CHECK(buffered.counts().buffers < kCount / 500);
}

TEST_CASE("BufferedOperationsOnOneKeyKeepTheirOrder") {
  Client client = ConnectTo(Cluster());
  const auto map = Open<HashMap<std::string, std::string>>(client, "buffered-order");
  test::Random random("BufferedOperationsOnOneKeyKeepTheirOrder");
  auto buffered = map.Buffered({.operations_max = 16});
  std::map<std::string, std::string> model;
  for (int i = 0; i < 5'000; ++i) {
    const std::string key = "key" + std::to_string(random.Below(40));
    // From time to time a streamed value.
    const std::size_t size = random.OneIn(500) ? 40'000 : random.Below(60);
    const std::string value(size, static_cast<char>('a' + random.Below(26)));
    if (random.OneIn(3)) {
      buffered.Insert(key, value);
      model.emplace(key, value);
    } else {
      buffered.Put(key, value);
      model[key] = value;
    }
  }
  RequireOk(buffered.Flush());
  for (const auto& [key, value] : model) CHECK(map.Get(key).value_or("?") == value);
}

TEST_CASE("BufferedAddsOfSeveralThreadsAddUp") {
  Client client = ConnectTo(Cluster());
  const auto map = Open<HashMap<std::string, std::int64_t>>(client, "buffered-adds");
  const auto doubles = Open<HashMap<std::uint32_t, double>>(client, "buffered-doubles");
  constexpr int kThreads = 3;
  constexpr int kAdds = 20'000;
  std::vector<Status> ends(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      auto buffered = map.Buffered();
      for (int i = 0; i < kAdds; ++i) buffered.Add("k" + std::to_string(i % 100), 1);
      ends[static_cast<std::size_t>(t)] = buffered.Flush();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& end : ends) RequireOk(end);
  for (int i = 0; i < 100; ++i) {
    CHECK(map.Get("k" + std::to_string(i)).value_or(0) == kThreads * kAdds / 100);
  }
  auto halves = doubles.Buffered();
  for (int i = 0; i < 10; ++i) halves.Add(7, 0.5);
  RequireOk(halves.Flush());
  CHECK(doubles.Get(7).value_or(0) == 5.0);
}

TEST_CASE("BufferedInsertsFillSets") {
  Client client = ConnectTo(Cluster());
  const auto hash = Open<HashSet<std::uint64_t>>(client, "buffered-set");
  const auto ordered = Open<OrderedSet<std::string>>(client, "buffered-ordered-set");
  const auto filter =
      Open<BloomFilter<std::uint64_t>>(client, "buffered-filter", {.expected_items = 20'000});
  auto into_hash = hash.Buffered();
  auto into_ordered = ordered.Buffered();
  auto into_filter = filter.Buffered();
  constexpr std::uint64_t kCount = 10'000;
  for (int round = 0; round < 2; ++round) {  // The second round finds all keys there: no failure.
    for (std::uint64_t i = 0; i < kCount; ++i) {
      into_hash.Insert(i);
      into_ordered.Insert("k" + std::to_string(i));
      into_filter.Insert(i);
    }
    RequireOk(into_hash.Flush());
    RequireOk(into_ordered.Flush());
    RequireOk(into_filter.Flush());
  }
  CHECK(hash.Length().value_or(0) == kCount);
  CHECK(ordered.Length().value_or(0) == kCount);
  for (std::uint64_t i = 0; i < kCount; i += 97) {
    CHECK(hash.Contains(i).value_or(false));
    CHECK(filter.Contains(i).value_or(false));
  }
  const auto estimate = filter.Estimate();
  REQUIRE(estimate.ok());
  CHECK(estimate->items > 0.9 * kCount);
  CHECK(estimate->items < 1.1 * kCount);
}

TEST_CASE("AnOrderedMapTakesBufferedPutsAndAdds") {
  Client client = ConnectTo(Cluster());
  const auto map = Open<OrderedMap<std::int64_t, std::int64_t>>(client, "buffered-ordered");
  auto buffered = map.Buffered();
  for (std::int64_t i = 0; i < 3'000; ++i) buffered.Put(i % 1'000, i);
  for (std::int64_t i = 0; i < 3'000; ++i) buffered.Add(i % 1'000, 1);
  RequireOk(buffered.Flush());
  std::int64_t expected = 0;
  for (auto it = map.NewScan(); it.Next(); ++expected) {
    CHECK(it.key() == expected);
    CHECK(it.value() == 2'000 + expected + 3);
  }
  CHECK(expected == 1'000);
}

// A thread that waits in a handle runs the continuations of other calls. A continuation that used
// the same handle once freed the awaited buffer.
TEST_CASE("AContinuationMayAddToTheHandleThatRunsIt") {
  Client client = ConnectTo(Cluster());
  const auto map = Open<BytesMap>(client, "buffered-continued");
  RequireOk(map.Put("k", "v").status());
  auto buffered = map.Buffered({.operations_max = 16, .buffers_in_flight = 1});
  int continued = 0;
  Status inner;
  constexpr int kRounds = 200;
  for (int round = 0; round < kRounds; ++round) {
    map.GetAsync("k").Then([&](const Result<Value>&) {
      ++continued;
      for (int i = 0; i < 40; ++i) buffered.Add("n" + std::to_string(i % 3), 1);
      if (continued == 1) inner = buffered.Flush();
    });
    for (int i = 0; i < 40; ++i) buffered.Put("last" + std::to_string(i), std::to_string(round));
    RequireOk(buffered.Flush());
  }
  CHECK(WaitUntil([&] {
    (void)map.Get("k");
    return continued == kRounds;
  }));
  RequireOk(buffered.Flush());
  CHECK(buffered.pending() == 0);
  CHECK(buffered.counts().operations == 80 * kRounds);
  std::int64_t sum = 0;
  for (int i = 0; i < 3; ++i) sum += map.FetchAdd("n" + std::to_string(i), 0).value_or(0);
  CHECK(sum == 40 * kRounds);
  for (int i = 0; i < 40; ++i) {
    CHECK(map.Get("last" + std::to_string(i))->bytes == std::to_string(kRounds - 1));
  }
  CHECK((inner.ok() || inner.code() == StatusCode::kFailedPrecondition));
}

TEST_CASE("FlushNamesTheKeysThatFailed") {
  Client client = ConnectTo(Cluster());
  const auto map = Open<BytesMap>(client, "buffered-failures");
  RequireOk(map.Put("text", "no counter").status());
  auto buffered = map.Buffered();
  for (int i = 0; i < 1'000; ++i) buffered.Add("n" + std::to_string(i % 10), 1);
  buffered.Add("text", 1);
  buffered.Add("n0", 1);
  const Status status = buffered.Flush();
  CHECK(status.code() == StatusCode::kInvalidArgument);
  CHECK(status.ToString().find("not a counter") != std::string::npos);
  REQUIRE(buffered.failures().size() == 1);
  CHECK(buffered.failures()[0].key == "text");
  const auto n0 = map.FetchAdd("n0", 0);
  CHECK(n0.value_or(0) == 101);
}

TEST_CASE("ADroppedNamespaceFailsWhatIsBuffered") {
  Client client = ConnectTo(Cluster());
  const auto map = Open<BytesMap>(client, "buffered-dropped");
  auto buffered = map.Buffered();
  buffered.Put("a", "1");
  buffered.Put("b", "2");
  RequireOk(client.Drop("buffered-dropped"));
  CHECK(buffered.Flush().code() == StatusCode::kNotFound);
  CHECK(buffered.failures().size() == 2);
}

TEST_CASE("WhatWasBufferedIsSeenThroughACopyOfThePrefilter") {
  Client client = ConnectTo(Cluster());
  NamespaceOptions options;
  options.prefilter = Prefilter::kAbsent;
  const auto map = Open<BytesMap>(client, "buffered-absent", options);
  const auto fast = WithPrefilter(map, {});
  RequireOk(fast.status());
  CHECK(fast->Get("a").code() == StatusCode::kNotFound);  // Downloads the filter.
  auto buffered = fast->Buffered();
  buffered.Put("a", "1");
  buffered.Put("another length", "2");
  RequireOk(buffered.Flush());
  CHECK(fast->Get("a").ok());
  CHECK(fast->Get("another length").ok());
}

}  // namespace
}  // namespace tidepool::testing
