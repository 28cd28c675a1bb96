// The SDK while daemons die, stop and come back.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/client/sdk_fixture.h"
#include "tidepool/v1/cluster.pb.h"

namespace tidepool::testing {
namespace {

using std::chrono::milliseconds;

// A key that node `node` owns.
std::string KeyOn(const BytesMap& map, std::uint32_t node) {
  for (int i = 0;; ++i) {
    std::string key = "key" + std::to_string(i);
    if (map.space().OwnerOf(key) == node) return key;
  }
}

// A daemon that is not the coordinator.
std::size_t Victim(TestCluster& cluster) { return cluster.coordinator_index() == 0 ? 1 : 0; }

TEST_CASE("A killed node's keys fail fast and name it, others go on, and it comes back",
          "[sdk][fault]") {
  TestCluster cluster({.nodes = 3});
  cluster.WaitReady();
  Client client = ConnectTo(cluster);
  const BytesMap map = Open<BytesMap>(client, "kept", {.on_loss = OnLoss::kError});
  const BytesMap empties = Open<BytesMap>(client, "emptied", {.on_loss = OnLoss::kEmpty});
  const std::size_t victim = Victim(cluster);
  const std::uint32_t node = cluster.node_id(victim);
  const std::string dead = KeyOn(map, node);
  const std::string emptied = KeyOn(empties, node);
  const std::string alive = KeyOn(map, (node + 1) % 3);
  REQUIRE(map.Put(dead, "v").ok());
  REQUIRE(map.Put(alive, "v").ok());
  REQUIRE(empties.Put(emptied, "v").ok());

  cluster.Kill(victim);
  REQUIRE(cluster.WaitForNodeState(victim, v1::NODE_STATE_DOWN));
  const auto failed = map.Get(dead);
  INFO(failed.status().ToString());
  CHECK(failed.code() == StatusCode::kUnavailable);
  CHECK(failed.status().ToString().find("node " + std::to_string(node)) != std::string::npos);
  CHECK(map.Put(dead, "x").code() == StatusCode::kUnavailable);
  CHECK(map.Get(alive)->bytes == "v");
  CHECK(map.Put(alive, "w").ok());

  cluster.Start(victim);
  cluster.WaitReady();
  REQUIRE(cluster.WaitForNodeState(victim, v1::NODE_STATE_UP));
  CHECK(WaitUntil([&] { return map.Get(dead).code() == StatusCode::kDataLoss; }));
  CHECK(map.Get(dead).status().ToString().find("accept-loss kept") != std::string::npos);
  CHECK(WaitUntil([&] { return empties.Get(emptied).code() == StatusCode::kNotFound; }));
  CHECK(empties.Put(emptied, "again").ok());
  CHECK(empties.Get(emptied)->bytes == "again");
}

TEST_CASE("Operations under way when their node is killed end within their deadlines",
          "[sdk][fault]") {
  TestCluster cluster({.nodes = 3});
  cluster.WaitReady();
  Client client = ConnectTo(cluster);
  const BytesMap map = Open<BytesMap>(client, "traffic");
  const std::size_t victim = Victim(cluster);
  const std::uint32_t node = cluster.node_id(victim);
  const std::string key = KeyOn(map, node);
  std::atomic<bool> stop{false};
  std::atomic<int> bad{0};
  std::atomic<int> ended{0};
  std::thread traffic([&] {
    while (!stop) {
      const auto begin = std::chrono::steady_clock::now();
      const auto add = map.FetchAdd(key, 1, {milliseconds(5'000)});
      const auto took = std::chrono::steady_clock::now() - begin;
      const bool known = add.ok() || add.code() == StatusCode::kUnknown ||
                         add.code() == StatusCode::kUnavailable ||
                         add.code() == StatusCode::kDeadlineExceeded ||
                         add.code() == StatusCode::kDataLoss;
      // Generous to a loaded machine, and still far from a call that hangs.
      if (!known || took > milliseconds(20'000)) ++bad;
      ++ended;
    }
  });
  REQUIRE(WaitUntil([&] { return ended > 100; }));
  cluster.Kill(victim);
  REQUIRE(cluster.WaitForNodeState(victim, v1::NODE_STATE_DOWN));
  const int at_kill = ended;
  REQUIRE(WaitUntil([&] { return ended > at_kill + 3; }));
  stop = true;
  traffic.join();
  CHECK(bad == 0);
}

TEST_CASE("Four nodes hold, give and list a map, and three go on when one is killed",
          "[sdk][fault]") {
  TestCluster cluster({.nodes = 4});
  cluster.WaitReady();
  Client client = ConnectTo(cluster);
  const BytesMap map = Open<BytesMap>(client, "four");
  constexpr int kKeys = 4'000;
  const KeyList keys(kKeys);
  REQUIRE(map.MultiPut(keys.With("value")).AllOk());
  REQUIRE(*map.Length() == kKeys);
  // Another client, which has not seen the changes.
  Client other = ConnectTo(cluster);
  const BytesMap theirs = Open<BytesMap>(other, "four");
  const auto walk = [&](const IterateOptions& options) {
    std::map<std::string, int> seen;
    auto it = theirs.NewIterator(options);
    while (it.Next()) {
      ++seen[std::string(it.record().key)];
      REQUIRE(it.record().value == "value");
    }
    RequireOk(it.status());
    for (const auto& [key, times] : seen) REQUIRE(times == 1);
    return seen.size();
  };
  CHECK(walk({}) == kKeys);
  std::vector<std::size_t> of_node;
  for (std::uint32_t node = 0; node < 4; ++node) of_node.push_back(walk({.node = node}));
  CHECK(*std::min_element(of_node.begin(), of_node.end()) > 0);
  const BatchResult all = theirs.MultiGet(keys.views);
  CHECK(all.AllOk());

  const std::size_t victim = Victim(cluster);
  const std::uint32_t dead = cluster.node_id(victim);
  cluster.Kill(victim);
  REQUIRE(cluster.WaitForNodeState(victim, v1::NODE_STATE_DOWN));
  const BatchResult rest = theirs.MultiGet(keys.views);
  const BatchResult written = map.MultiPut(keys.With("value"));
  std::size_t failed = 0;
  for (std::size_t i = 0; i < keys.views.size(); ++i) {
    const bool lost = map.space().OwnerOf(keys.views[i]) == dead;
    failed += lost ? 1 : 0;
    REQUIRE(rest.code(i) == (lost ? StatusCode::kUnavailable : StatusCode::kOk));
    // The first client has not looked since. A change sent into a dead connection ends unknown.
    const StatusCode put = written.code(i);
    REQUIRE((lost ? put == StatusCode::kUnavailable || put == StatusCode::kUnknown
                  : put == StatusCode::kOk));
    if (!lost) REQUIRE(rest.value(i) == "value");
  }
  CHECK(failed == of_node[dead]);
  const std::string name = "node " + std::to_string(dead);
  CHECK(rest.FirstFailure().ToString().find(name) != std::string::npos);
  // Data of the other nodes is walked over as before. The walk is not called complete.
  for (std::uint32_t node = 0; node < 4; ++node) {
    if (node != dead) CHECK(walk({.node = node}) == of_node[node]);
  }
  auto whole = theirs.NewIterator();
  while (whole.Next()) {
  }
  CHECK(whole.status().code() == StatusCode::kUnavailable);
  CHECK(whole.status().ToString().find(name) != std::string::npos);
}

TEST_CASE("A stopped daemon costs its own keys a deadline and nobody else's", "[sdk][fault]") {
  TestCluster cluster({.nodes = 3});
  cluster.WaitReady();
  Client client = ConnectTo(cluster);
  const BytesMap map = Open<BytesMap>(client, "stopped");
  const std::size_t victim = Victim(cluster);
  const std::uint32_t node = cluster.node_id(victim);
  const std::string stuck = KeyOn(map, node);
  const std::string alive = KeyOn(map, (node + 1) % 3);
  REQUIRE(map.Put(stuck, "v").ok());
  REQUIRE(map.Put(alive, "v").ok());
  cluster.Suspend(victim);
  auto put = map.PutAsync(stuck, "w", {.timeout = milliseconds(700)});
  auto get = map.GetAsync(stuck, {milliseconds(700)});
  CHECK(map.Get(alive).ok());
  const auto put_end = put.Wait();
  const auto get_end = get.Wait();
  INFO(put_end.status().ToString() << " | " << get_end.status().ToString());
  CHECK((put_end.code() == StatusCode::kUnknown || put_end.code() == StatusCode::kUnavailable));
  CHECK((get_end.code() == StatusCode::kDeadlineExceeded ||
         get_end.code() == StatusCode::kUnavailable));
  cluster.Resume(victim);
  CHECK(WaitUntil([&] {
    const auto read = map.Get(stuck, {milliseconds(2'000)});
    return read.ok() || read.code() == StatusCode::kDataLoss;
  }));
}

TEST_CASE("A restarted daemon ends changes as unknown and serves the client again",
          "[sdk][fault]") {
  TestCluster cluster({.nodes = 1});
  cluster.WaitReady();
  Client client = ConnectTo(cluster);
  const BytesMap map = Open<BytesMap>(client, "restarted", {.on_loss = OnLoss::kEmpty});
  REQUIRE(map.Put("k", "v").ok());
  cluster.Suspend(0);  // The change is then surely under way and not answered.
  auto change = map.FetchAddAsync("n", 1, {milliseconds(60'000)});
  (void)change.Wait(milliseconds(50));
  cluster.Kill(0);
  cluster.Start(0);
  cluster.WaitReady();
  const auto ended = change.Wait();
  INFO(ended.status().ToString());
  CHECK(ended.code() == StatusCode::kUnknown);
  CHECK(WaitUntil([&] { return map.Put("k", "again", {.timeout = milliseconds(3'000)}).ok(); }));
  CHECK(map.Get("k")->bytes == "again");
}

TEST_CASE("Large values under way when their node dies end, and memory stays usable",
          "[sdk][fault]") {
  TestCluster cluster({.nodes = 2, .memory = "256MiB"});
  cluster.WaitReady();
  Client client = ConnectTo(cluster);
  const BytesMap map = Open<BytesMap>(client, "large");
  const std::size_t victim = Victim(cluster);
  const std::string key = KeyOn(map, cluster.node_id(victim));
  const std::string value(30'000'000, 'x');
  REQUIRE(map.Put(key, value).ok());
  std::vector<Future<Value>> gets;
  std::vector<Future<Version>> puts;
  for (int i = 0; i < 3; ++i) {
    gets.push_back(map.GetAsync(key));
    puts.push_back(map.PutAsync(key, value));
  }
  (void)gets[0].Wait(milliseconds(5));
  cluster.Kill(victim);
  for (auto& get : gets) {
    if (!get.valid()) continue;
    const auto end = get.Wait();
    CHECK((end.ok() || end.code() == StatusCode::kUnavailable ||
           end.code() == StatusCode::kDeadlineExceeded));
  }
  for (auto& put : puts) {
    const auto end = put.Wait();
    CHECK((end.ok() || end.code() == StatusCode::kUnavailable ||
           end.code() == StatusCode::kUnknown || end.code() == StatusCode::kDeadlineExceeded));
  }
}

TEST_CASE("A node killed under a buffered handle fails its own keys and no others",
          "[sdk][fault]") {
  TestCluster cluster({.nodes = 2});
  cluster.WaitReady();
  Client client = ConnectTo(cluster);
  const BytesMap map = Open<BytesMap>(client, "buffered");
  const std::size_t victim = Victim(cluster);
  const std::uint32_t node = cluster.node_id(victim);
  constexpr int kKeys = 64;
  constexpr int kRounds = 3'000;
  auto buffered = map.Buffered({.timeout = milliseconds(20'000)});
  for (int round = 0; round < kRounds; ++round) {
    if (round == kRounds / 2) cluster.Kill(victim);
    for (int i = 0; i < kKeys; ++i) buffered.Add("key" + std::to_string(i), 1);
  }
  const Status status = buffered.Flush();
  INFO(status.ToString());
  CHECK_FALSE(status.ok());
  REQUIRE_FALSE(buffered.failures().empty());
  for (const BufferedFailure& failure : buffered.failures()) {
    REQUIRE(map.space().OwnerOf(failure.key) == node);
    const bool told = failure.status.code() == StatusCode::kUnknown ||
                      failure.status.code() == StatusCode::kUnavailable;
    INFO(failure.status.ToString());
    REQUIRE(told);
  }
  for (int i = 0; i < kKeys; ++i) {
    const std::string key = "key" + std::to_string(i);
    if (map.space().OwnerOf(key) == node) continue;
    CHECK(map.FetchAdd(key, 0).value_or(-1) == kRounds);
  }
}

}  // namespace
}  // namespace tidepool::testing
