// Ranges of ordered namespaces that are split under load: many clients, and a checker that nothing
// is lost, doubled, or seen out of order.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/client/api/ordered_fixture.h"
#include "tests/client/split_fixture.h"

namespace tidepool::testing {
namespace {

constexpr int kCounters = 400;

std::string Counter(std::uint64_t i) { return "c" + std::to_string(10'000 + i); }
std::string Fixed(std::uint64_t i) { return Counter(i) + "-fixed"; }

// Errors found by the threads of a test.
class Faults {
 public:
  void Add(const std::string& what) {
    const std::lock_guard lock(mutex_);
    if (texts_.size() < 10) texts_.push_back(what);
  }
  std::string Text() const {
    const std::lock_guard lock(mutex_);
    std::string all;
    for (const std::string& text : texts_) all += text + "\n";
    return all;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> texts_;
};

struct Load {
  TestCluster& cluster;
  std::atomic<bool> stop{false};
  Faults faults{};
};

// Adds to counters, many under way at once, and puts keys of its own, in a known order per key.
std::map<std::string, std::int64_t> Write(Load& load, std::uint64_t id, std::uint64_t seed) {
  Client client = ConnectTo(load.cluster);
  const auto map = *client.Open<BytesOrderedMap>("load");
  std::uint64_t state = seed * 2 + 1;
  const auto next = [&](std::uint64_t below) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (state >> 33) % below;
  };
  std::map<std::string, std::int64_t> added;
  std::map<std::string, std::int64_t> last;  // Last values of this thread under its own keys.
  std::int64_t round = 0;
  while (!load.stop) {
    std::vector<std::pair<std::string, Future<std::int64_t>>> adds;
    std::vector<std::pair<std::string, Future<Version>>> puts;
    ++round;
    for (int i = 0; i < 24; ++i) {
      const std::string counter = Counter(next(kCounters));
      adds.emplace_back(counter, map.FetchAddAsync(counter, 1));
      // Two puts to a key at the same time: the second value stays.
      const std::string own = Counter(next(kCounters)) + "-own" + std::to_string(id);
      puts.emplace_back(own, map.PutAsync(own, std::to_string(round * 2)));
      puts.emplace_back(own, map.PutAsync(own, std::to_string(round * 2 + 1)));
      last[own] = round * 2 + 1;
    }
    for (auto& [key, add] : adds) {
      const auto outcome = add.Wait();
      if (!outcome.ok()) load.faults.Add("add " + outcome.status().ToString());
      ++added[key];
    }
    std::map<std::string, Version> versions;
    for (auto& [key, put] : puts) {
      const auto outcome = put.Wait();
      if (!outcome.ok()) {
        load.faults.Add("put " + outcome.status().ToString());
        continue;
      }
      if (*outcome <= versions[key]) load.faults.Add("the versions of " + key + " do not grow");
      versions[key] = *outcome;
    }
    const auto& [key, value] =
        *std::next(last.begin(), static_cast<std::ptrdiff_t>(next(last.size())));
    const auto got = map.Get(key);
    if (!got.ok() || got->bytes != std::to_string(value)) {
      load.faults.Add("own key " + key + " is " +
                      (got.ok() ? got->bytes : got.status().ToString()) + ", not " +
                      std::to_string(value));
    }
  }
  for (const auto& [key, value] : last) {
    const auto got = map.Get(key);
    if (!got.ok() || got->bytes != std::to_string(value)) {
      load.faults.Add("in the end " + key + " is not " + std::to_string(value));
    }
  }
  return added;
}

// Walks up and down: in order, nothing twice, and every fixed key.
int Walks(Load& load, bool reverse) {
  Client client = ConnectTo(load.cluster);
  const auto map = *client.Open<BytesOrderedMap>("load");
  int walks = 0;
  while (!load.stop) {
    std::string before;
    int fixed = 0;
    ScanIterator scan = map.NewScan({}, {.reverse = reverse, .keys_only = true});
    for (bool first = true; scan.Next(); first = false) {
      const std::string key(scan.record().key);
      if (!first && (reverse ? key >= before : key <= before)) {
        load.faults.Add(key + " comes behind " + before);
      }
      before = key;
      fixed += key.ends_with("-fixed") ? 1 : 0;
    }
    if (!scan.status().ok()) load.faults.Add("scan " + scan.status().ToString());
    if (fixed != kCounters) load.faults.Add("a walk saw " + std::to_string(fixed) + " fixed keys");
    ++walks;
  }
  return walks;
}

void BufferedAdds(Load& load, std::int64_t* added) {
  Client client = ConnectTo(load.cluster);
  const auto map = *client.Open<BytesOrderedMap>("load");
  auto buffered = map.Buffered({.operations_max = 200});
  while (!load.stop) {
    for (std::uint64_t i = 0; i < 1'000; ++i) {
      buffered.Add(Counter((i * 7919) % kCounters) + "-buffered", 1);
      ++*added;
    }
    if (const Status end = buffered.Flush(); !end.ok()) load.faults.Add("flush " + end.ToString());
  }
}

TEST_CASE("NothingIsLostDoubledOrOvertakenWhileRangesAreSplit", "[kinds]") {
  Random random("NothingIsLostDoubledOrOvertakenWhileRangesAreSplit");
  TestCluster cluster({.cores = 3, .memory = "256MiB"});
  cluster.WaitReady();
  Client client = ConnectTo(cluster);
  const auto map = Open<BytesOrderedMap>(client, "load", {.split = SplitMode::kManual});
  for (std::uint64_t i = 0; i < kCounters; ++i) RequireOk(map.Put(Fixed(i), "stays").status());
  Load load{cluster};
  std::vector<std::map<std::string, std::int64_t>> added(3);
  std::int64_t buffered = 0;
  int up = 0;
  int down = 0;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < added.size(); ++i) {
    threads.emplace_back([&, i] { added[i] = Write(load, i, random.seed() + i); });
  }
  threads.emplace_back([&] { up = Walks(load, false); });
  threads.emplace_back([&] { down = Walks(load, true); });
  threads.emplace_back([&] { BufferedAdds(load, &buffered); });
  int splits = 0;
  for (int round = 0; round < 40; ++round) {
    std::optional<std::string> key;
    if (round % 2 == 0) key = Counter(random.Below(kCounters)) + "-" + std::to_string(round);
    splits += Split(cluster, "load", key).ok() ? 1 : 0;
  }
  load.stop = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(load.faults.Text() == "");
  CHECK(splits > 10);
  CHECK(RangesOf(cluster, "load") == splits + 1);
  CHECK(up > 0);
  CHECK(down > 0);
  std::map<std::string, std::int64_t> expected;
  for (const auto& of_one : added) {
    for (const auto& [key, count] : of_one) expected[key] += count;
  }
  for (const auto& [key, count] : expected) CHECK(map.FetchAdd(key, 0).value() == count);
  std::int64_t sum = 0;
  for (std::uint64_t i = 0; i < kCounters; ++i) {
    sum += map.FetchAdd(Counter(i) + "-buffered", 0).value();
  }
  CHECK(sum == buffered);
  CHECK(
      WaitUntil([&] { return map.Length().value() == Walk(map, {}, {.keys_only = true}).size(); }));
}

TEST_CASE("ClientsKilledDuringSplitsCostNobodyElseAnything", "[kinds]") {
  TestCluster cluster({.cores = 2, .memory = "384MiB"});
  cluster.WaitReady();
  Client client = ConnectTo(cluster);
  const auto map = Open<BytesOrderedMap>(client, "traffic", {.split = SplitMode::kManual});
  RequireOk(map.Put("large", std::string(3'000'000, 'z')).status());
  constexpr int kClients = 12;
  std::vector<std::size_t> answered(kClients);
  const char* const keys[] = {"adds-5", "buffered-", "small-1", "uploaded",   "c", "large",
                              "adds-",  "small-2",   "b",       "buffered-3", "m", "z"};
  for (int i = 0; i < kClients; ++i) {
    const std::string stem = cluster.folder() + "/client-" + std::to_string(i);
    Process traffic({ProgramPath("traffic_client"), cluster.file(), std::to_string(i), "ordered"},
                    {}, stem);
    REQUIRE(WaitUntil([&] { return traffic.Output().size() > 8; }));
    const Status split = Split(cluster, "traffic", keys[i]);
    INFO(split.ToString());
    CHECK(split.ok());
    REQUIRE(WaitUntil([&] { return traffic.Output().size() > 24; }));
    traffic.Signal(SIGKILL);
    const int code = traffic.Wait();
    INFO("client " << i << ": " << traffic.Errors());
    CHECK(code == 128 + SIGKILL);
    answered[static_cast<std::size_t>(i)] = traffic.Output().size();
    CHECK(map.FetchAdd("bystander", 1).value() == i);
  }
  for (int i = 0; i < kClients; ++i) {
    // Answered adds count once; a further add may have been under way.
    const auto adds = map.FetchAdd("adds-" + std::to_string(i), 0).value();
    const auto told = static_cast<std::int64_t>(answered[static_cast<std::size_t>(i)]);
    CHECK((adds == told || adds == told + 1));
  }
  CHECK(RangesOf(cluster, "traffic") == kClients + 1);
}

}  // namespace
}  // namespace tidepool::testing
