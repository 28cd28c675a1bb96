// Prefilters through the SDK: copies of absent filters, which answer without a message, and
// admission, against real daemons.
#include <atomic>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/client/sdk_fixture.h"
#include "tests/support/random.h"

namespace tidepool::testing {
namespace {

using std::chrono::milliseconds;

NamespaceOptions With(Prefilter prefilter, double rate = 1e-6) {
  NamespaceOptions options;
  options.prefilter = prefilter;
  options.false_positive_rate = rate;
  return options;
}

template <typename Handle>
Handle Copied(const Handle& handle, const PrefilterUse& use = {}) {
  auto copied = WithPrefilter(handle, use);
  RequireOk(copied.status());
  return *std::move(copied);
}

void PutAll(const BytesMap& map, const KeyList& keys) {
  REQUIRE(map.MultiPut(keys.With("v")).AllOk());
}

TEST_CASE("LookUpsOfAbsentKeysSendNothing", "[kinds]") {
  TestCluster cluster({.nodes = 2});
  cluster.WaitReady();
  Client client = ConnectTo(cluster);
  const auto map = Open<BytesMap>(client, "map", With(Prefilter::kAbsent));
  const KeyList keys(5'000);
  PutAll(map, keys);
  const BytesMap fast = Copied(map);
  const std::uint64_t before = client.Stats().operations;
  const KeyList others(2'000, "other");
  for (const std::string& key : others.texts) {
    REQUIRE(fast.Get(key).code() == StatusCode::kNotFound);
    REQUIRE_FALSE(fast.Contains(key).value());
    REQUIRE(fast.GetAsync(key).Wait().code() == StatusCode::kNotFound);
    REQUIRE_FALSE(fast.ContainsAsync(key).Wait().value());
  }
  // The filter sends a key in a million to the daemon.
  CHECK(client.Stats().operations - before < 20);
  const BatchResult absent = fast.MultiGet(others.views);
  CHECK(absent.FirstFailure().ok());
  CHECK(absent.ok_count() == 0);
  CHECK(fast.space().prefilter_stats().answered >= 5 * 2'000 - 20);
  CHECK(fast.space().prefilter_stats().downloads == 1);
  CHECK(fast.space().prefilter_stats().bytes > 0);
  // Present keys are found, alone and between absent keys.
  std::vector<std::string_view> mixed;
  for (int i = 0; i < 1'000; ++i) {
    mixed.push_back(keys.views[static_cast<std::size_t>(i)]);
    mixed.push_back(others.views[static_cast<std::size_t>(i)]);
  }
  const BatchResult found = fast.MultiGet(mixed);
  CHECK(found.ok_count() == 1'000);
  for (std::size_t i = 0; i < mixed.size(); ++i) {
    REQUIRE(found.code(i) == (i % 2 == 0 ? StatusCode::kOk : StatusCode::kNotFound));
  }
  for (const std::string& key : keys.texts) REQUIRE(fast.Contains(key).value());
  CHECK(fast.Get("other7").status().what().find("'map'") != std::string_view::npos);
}

TEST_CASE("WhatTheHandleWritesIsFoundAtOnce", "[kinds]") {
  Client client = ConnectTo(Cluster());
  const auto map = Open<BytesMap>(client, "own", With(Prefilter::kAbsent));
  const BytesMap fast = Copied(map);
  REQUIRE(fast.Put("put", "v").ok());
  CHECK(fast.Get("put").ok());
  Future<Version> later = fast.PutAsync("async", "v");
  CHECK(fast.GetAsync("async").Wait().ok());  // Called later, so its answer comes later.
  REQUIRE(later.Wait().ok());
  REQUIRE(fast.FetchAdd("add", 1).ok());
  CHECK(fast.Contains("add").value());
  REQUIRE(fast.Append("append", "a").ok());
  CHECK(fast.Contains("append").value());
  PutAll(fast, KeyList(100, "multi"));
  CHECK(fast.MultiGet(KeyList(100, "multi").views).ok_count() == 100);
  const std::string large(3 << 20, 'x');
  Future<Version> streamed = fast.PutAsync("large", large);
  CHECK(fast.space().RefreshPrefilter().ok());  // It may not have arrived yet.
  REQUIRE(streamed.Wait().ok());
  CHECK(fast.Get("large").value().bytes == large);
  CHECK(fast.Delete("put").ok());
  CHECK(fast.Get("put").code() == StatusCode::kNotFound);
}

TEST_CASE("WhatOthersWriteIsFoundAfterTheNextDownload", "[kinds]") {
  Client client = ConnectTo(Cluster());
  const auto map = Open<BytesMap>(client, "others", With(Prefilter::kAbsent));
  const BytesMap fast = Copied(map);
  REQUIRE(map.Put("a", "v").ok());  // Another handle: as another client.
  // The documented promise: an answer may be old, but not wrong.
  CHECK(fast.Get("a").code() == StatusCode::kNotFound);
  RequireOk(fast.space().RefreshPrefilter());
  CHECK(fast.Get("a").ok());
  CHECK(fast.space().prefilter_stats().downloads == 2);
  CHECK(map.space().RefreshPrefilter() == StatusCode::kFailedPrecondition);
}

TEST_CASE("ACopyThatIsTooOldAnswersNothing", "[kinds]") {
  Client client = ConnectTo(Cluster());
  const auto map = Open<BytesMap>(client, "aging", With(Prefilter::kAbsent));
  const BytesMap fast = Copied(map, {.age_max = milliseconds(30)});
  for (int round = 0; round < 5; ++round) {
    const std::string key = "key" + std::to_string(round);
    REQUIRE(map.Put(key, "v").ok());
    // Then the copy is from before the put, or too old to answer.
    CHECK(WaitUntil([&] { return fast.space().prefilter_stats().age > milliseconds(30); }));
    CHECK(fast.Contains(key).value());
  }
  CHECK(fast.space().prefilter_stats().downloads > 1);
}

// A page leaves out values above 32 KiB, which are then fetched by key.
TEST_CASE("WalksThroughACopyMissNothingThatOthersPut", "[kinds]") {
  Client client = ConnectTo(Cluster());
  const auto map = Open<BytesMap>(client, "walked", With(Prefilter::kAbsent));
  const auto ordered = Open<BytesOrderedMap>(client, "walked-ordered", With(Prefilter::kAbsent));
  const BytesMap fast = Copied(map);
  const BytesOrderedMap fast_ordered = Copied(ordered);
  const std::string large(40'000, 'L');
  REQUIRE(map.Put("k", large).ok());
  REQUIRE(ordered.Put("k", large).ok());
  CHECK(fast.Get("k").code() == StatusCode::kNotFound);  // Promised behaviour.
  auto records = fast.NewIterator();
  REQUIRE(records.Next());
  CHECK(records.record().value == large);
  CHECK_FALSE(records.Next());
  CHECK(records.status().ok());
  auto scan = fast_ordered.NewScan();
  REQUIRE(scan.Next());
  CHECK(scan.record().value == large);
  CHECK(client.ReadFile(fast.space(), "k").value() == large);
}

TEST_CASE("ARefreshDoesNotOvertakeWhatThisClientHasPut", "[kinds]") {
  Client client = ConnectTo(Cluster());
  const auto map = Open<BytesMap>(client, "overtaken", With(Prefilter::kAbsent));
  const std::string large(8 << 20, 'L');
  for (int round = 0; round < 10; ++round) {
    const BytesMap fast = Copied(map);
    const std::string key = "k" + std::to_string(round);
    Future<Version> first = map.PutAsync(key, large);
    Future<Version> second = fast.PutAsync(key, "small");  // After the large value.
    RequireOk(fast.space().RefreshPrefilter());
    RequireOk(first.Wait().status());
    RequireOk(second.Wait().status());
    CHECK(fast.Get(key).value().bytes == "small");
  }
}

// A look-up has its own deadline, also where a copy would have to be downloaded from all nodes.
TEST_CASE("AnOldCopyHoldsNobodyUpWhileANodeIsStopped", "[kinds]") {
  TestCluster cluster({.nodes = 2, .lease_ms = 30'000});
  cluster.WaitReady();
  Client client = ConnectTo(cluster);
  const auto map = Open<BytesMap>(client, "held", With(Prefilter::kAbsent));
  REQUIRE(map.Put("k", "v").ok());
  const BytesMap fast = Copied(map, {.age_max = milliseconds(20)});
  const std::size_t stopped = cluster.node_id(0) == map.space().OwnerOf("k") ? 1 : 0;
  cluster.Suspend(stopped);
  CHECK(WaitUntil([&] { return fast.space().prefilter_stats().age > milliseconds(40); }));
  const auto began = std::chrono::steady_clock::now();
  CHECK(fast.GetAsync("k").Wait().ok());
  CHECK(WaitUntil([&] { return fast.space().prefilter_stats().age > milliseconds(60); }));
  CHECK(fast.Get("k", {.timeout = milliseconds(2'000)}).ok());
  // The default, which a download's pieces would have had, is 10 s each.
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(5));
  cluster.Resume(stopped);
}

TEST_CASE("WithoutTheOptionThereIsNothingToCopy", "[kinds]") {
  Client client = ConnectTo(Cluster());
  const auto none = Open<BytesMap>(client, "without");
  CHECK(WithPrefilter(none).code() == StatusCode::kFailedPrecondition);
  const auto admit = Open<BytesMap>(client, "admitting", With(Prefilter::kAdmit));
  CHECK(WithPrefilter(admit).code() == StatusCode::kFailedPrecondition);
}

TEST_CASE("TypedAndOrderedHandlesTakeACopyToo", "[kinds]") {
  Client client = ConnectTo(Cluster());
  const auto map = Open<HashMap<int, std::string>>(client, "typed", With(Prefilter::kAbsent));
  REQUIRE(map.Put(7, "seven").ok());
  const auto fast = Copied(map);
  CHECK(fast.Get(7).value() == "seven");
  CHECK(fast.Get(8).code() == StatusCode::kNotFound);
  CHECK(fast.space().prefilter_stats().answered == 1);
  const auto ordered =
      Open<OrderedMap<int, int>>(client, "typed-ordered", With(Prefilter::kAbsent));
  REQUIRE(ordered.Put(1, 2).ok());
  const auto fast_ordered = Copied(ordered);
  CHECK(fast_ordered.Get(1).value() == 2);
  CHECK_FALSE(fast_ordered.Contains(3).value());
  CHECK(fast_ordered.First()->first == 1);
  const auto set = Open<HashSet<std::string>>(client, "typed-set", With(Prefilter::kAbsent));
  const auto fast_set = Copied(set);
  REQUIRE(fast_set.Insert("a").value());
  CHECK(fast_set.Contains("a").value());
  CHECK_FALSE(fast_set.Contains("b").value());
}

TEST_CASE("ACopyAfterCloseAnswersNothing", "[kinds]") {
  Client client = ConnectTo(Cluster());
  const auto fast = Copied(Open<BytesMap>(client, "closed", With(Prefilter::kAbsent)));
  CHECK(fast.Get("x").code() == StatusCode::kNotFound);
  client.Close();
  CHECK(fast.Get("x").code() == StatusCode::kCancelled);
}

// Writers, and readers of finished writes, while the filters double again and again and copies are
// downloaded.
TEST_CASE("NothingThatWasThereBeforeADownloadIsEverAbsent", "[kinds]") {
  test::Random random("NothingThatWasThereBeforeADownloadIsEverAbsent");
  TestCluster cluster({.nodes = 2});
  cluster.WaitReady();
  Client client = ConnectTo(cluster);
  const auto map = Open<BytesMap>(client, "growing", With(Prefilter::kAbsent, 0.01));
  constexpr int kBatch = 256;
  constexpr int kBatches = 200;
  std::atomic<int> written{0};
  std::atomic<bool> failed{false};
  std::thread writer([&] {
    Client own = ConnectTo(cluster);
    const auto to = *own.Open<BytesMap>("growing");
    for (int batch = 0; batch < kBatches && !failed; ++batch) {
      std::vector<std::string> texts;
      for (int i = 0; i < kBatch; ++i) texts.push_back("k" + std::to_string(batch * kBatch + i));
      std::vector<KeyValue> records;
      for (const std::string& text : texts) records.push_back({text, "v"});
      if (!to.MultiPut(records).AllOk()) failed = true;
      written = (batch + 1) * kBatch;
    }
  });
  const BytesMap fast = Copied(map);
  int looked = 0;
  while (written < kBatch * kBatches && !failed) {
    const int there = written;
    if (!fast.space().RefreshPrefilter().ok()) failed = true;
    for (int i = 0; i < 200 && there > 0 && !failed; ++i, ++looked) {
      const auto number = random.Below(static_cast<std::uint64_t>(there));
      if (!fast.Contains("k" + std::to_string(number)).value_or(false)) failed = true;
    }
  }
  writer.join();
  CHECK_FALSE(failed);
  CHECK(looked > 0);
  CHECK(fast.space().prefilter_stats().downloads > 1);
}

TEST_CASE("AnAdmittingMapStoresWhatComesTwice", "[kinds]") {
  TestCluster cluster({.nodes = 2});
  cluster.WaitReady();
  Client client = ConnectTo(cluster);
  const auto counts =
      Open<HashMap<std::string, std::int64_t>>(client, "counts", With(Prefilter::kAdmit));
  CHECK(counts.FetchAdd("once", 1).value() == 0);
  CHECK(counts.Get("once").code() == StatusCode::kNotFound);
  CHECK(counts.Length().value() == 0);
  CHECK(counts.FetchAddIfPresent("once", 1).code() == StatusCode::kNotFound);
  CHECK(counts.FetchAdd("twice", 1).value() == 0);
  CHECK(counts.FetchAdd("twice", 1).value() == 0);
  CHECK(counts.Get("twice").value() == 1);
  CHECK(counts.FetchAddIfPresentAsync("twice", 4).Wait().value() == 1);
  const auto set = Open<HashSet<int>>(client, "set", With(Prefilter::kAdmit));
  CHECK(set.Insert(1).value());
  CHECK_FALSE(set.Contains(1).value());
  CHECK(set.Insert(1).value());
  CHECK(set.Contains(1).value());
  CHECK_FALSE(set.Insert(1).value());
}

// Two passes: sightings decide which keys have a counter, and only these keys are counted.
TEST_CASE("CountsOfTwoAndMoreAreExactInTwoPasses", "[kinds]") {
  test::Random random("CountsOfTwoAndMoreAreExactInTwoPasses");
  TestCluster cluster({.nodes = 2});
  cluster.WaitReady();
  Client client = ConnectTo(cluster);
  // A filter that errs often: keys that pass by error must not be counted wrongly.
  const auto counts =
      Open<HashMap<std::uint64_t, std::int64_t>>(client, "counts", With(Prefilter::kAdmit, 0.2));
  std::vector<std::uint64_t> sightings;
  std::map<std::uint64_t, std::int64_t> exact;
  for (int i = 0; i < 20'000; ++i) {
    sightings.push_back(random.OneIn(2) ? random.Below(1'000) : random.Below(1'000'000));
    ++exact[sightings.back()];
  }
  const auto pass = [&](auto&& start) {
    std::vector<Future<std::int64_t>> started;
    for (const std::uint64_t key : sightings) started.push_back(start(key));
    for (auto& future : started) {
      const auto done = future.Wait();
      REQUIRE((done.ok() || done.code() == StatusCode::kNotFound));
    }
  };
  pass([&](std::uint64_t key) { return counts.FetchAddAsync(key, 0); });
  pass([&](std::uint64_t key) { return counts.FetchAddIfPresentAsync(key, 1); });
  std::map<std::uint64_t, std::int64_t> found;
  auto it = counts.NewIterator();
  while (it.Next()) {
    if (it.value() >= 2) found[it.key()] = it.value();
  }
  RequireOk(it.status());
  const std::size_t distinct = exact.size();
  std::erase_if(exact, [](const auto& entry) { return entry.second < 2; });
  CHECK(found == exact);
  CHECK(counts.Length().value() < distinct * 3 / 4);
}

}  // namespace
}  // namespace tidepool::testing
