// Buffered operations that a daemon of the machine sends on: with real daemons.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/client/sdk_fixture.h"
#include "tidepool/v1/cluster.pb.h"

namespace tidepool::testing {
namespace {

using std::chrono::milliseconds;

TestClusterOptions FourNodes() {
  TestClusterOptions options;
  options.nodes = 4;
  return options;
}

BufferedOptions ByNode(milliseconds timeout = milliseconds(10'000)) {
  BufferedOptions options;
  options.aggregation = Aggregation::kNode;
  options.timeout = timeout;
  return options;
}

std::string Key(int i) { return "k" + std::to_string(i); }

// The daemon that sends on for the clients of this machine: the lowest node.
std::size_t AggregatorIndex(TestCluster& cluster) { return cluster.coordinator_index(); }

std::int64_t Counter(BytesMap& map, const std::string& key) {
  const auto value = map.Get(key);
  RequireOk(value.status());
  return value->AsI64();
}

TEST_CASE("Adds of many clients that a daemon sends on all count once", "[client][aggregation]") {
  TestCluster cluster(FourNodes());
  constexpr int kClients = 4, kKeys = 200, kFlushes = 30, kAdds = 40;
  std::vector<std::string> failures(kClients);
  std::vector<std::thread> clients;
  for (int c = 0; c < kClients; ++c) {
    clients.emplace_back([&, c] {
      try {
        Client client = ConnectTo(cluster);
        auto map = Open<BytesMap>(client, "adds");
        auto buffered = map.Buffered(ByNode());
        std::mt19937 random(static_cast<unsigned>(c));
        for (int flush = 0; flush < kFlushes; ++flush) {
          for (int i = 0; i < kAdds; ++i) buffered.Add(Key(static_cast<int>(random() % kKeys)), 1);
          RequireOk(buffered.Flush());
        }
        if (buffered.counts().forwarded != kFlushes) failures[c] = "not all were forwarded";
      } catch (const std::exception& error) {
        failures[c] = error.what();
      }
    });
  }
  for (std::thread& client : clients) client.join();
  for (const std::string& failure : failures) CHECK(failure == "");

  Client client = ConnectTo(cluster);
  auto map = Open<BytesMap>(client, "adds");
  std::int64_t sum = 0;
  for (int i = 0; i < kKeys; ++i) {
    if (*map.Contains(Key(i))) sum += Counter(map, Key(i));
  }
  CHECK(sum == kClients * kFlushes * kAdds);
}

TEST_CASE("Puts that a daemon sends on take effect in the order of their calls",
          "[client][aggregation]") {
  TestCluster cluster(FourNodes());
  Client client = ConnectTo(cluster);
  auto map = Open<BytesMap>(client, "order");
  auto buffered = map.Buffered(ByNode());
  std::map<std::string, std::string> expected;
  std::mt19937 random(7);
  // Several buffers between two flushes, values of all sizes, some of which take a way of their
  // own.
  for (int i = 0; i < 6'000; ++i) {
    const std::string key = Key(static_cast<int>(random() % 50));
    const std::size_t bytes = random() % 500 == 0 ? 100'000 : random() % 200;
    std::string value = std::to_string(i) + std::string(bytes, 'v');
    buffered.Put(key, value);
    expected[key] = std::move(value);
  }
  RequireOk(buffered.Flush());
  CHECK(buffered.counts().forwarded > 0);
  for (const auto& [key, value] : expected) {
    const auto found = map.Get(key);
    RequireOk(found.status());
    CHECK(found->bytes == value);
  }
}

TEST_CASE("What fails of operations that a daemon sends on is told by key",
          "[client][aggregation]") {
  TestCluster cluster(FourNodes());
  Client client = ConnectTo(cluster);
  auto map = Open<BytesMap>(client, "failures");
  for (int i = 0; i < 100; i += 10) RequireOk(map.Put(Key(i), "no counter").status());
  auto buffered = map.Buffered(ByNode());
  for (int i = 0; i < 100; ++i) buffered.Add(Key(i), 1);
  const Status status = buffered.Flush();
  CHECK(status.code() == StatusCode::kInvalidArgument);
  std::vector<std::string> keys;
  for (const BufferedFailure& failure : buffered.failures()) {
    keys.push_back(failure.key);
    CHECK(failure.status.code() == StatusCode::kInvalidArgument);
    const std::string what(failure.status.what());
    CAPTURE(what);
    CHECK(what.find("'failures'") != std::string::npos);
  }
  std::sort(keys.begin(), keys.end());
  CHECK(keys == std::vector<std::string>{"k0", "k10", "k20", "k30", "k40", "k50", "k60", "k70",
                                         "k80", "k90"});
  CHECK(Counter(map, Key(11)) == 1);
  // The next flush has no part in that.
  buffered.Add(Key(11), 1);
  RequireOk(buffered.Flush());
  CHECK(buffered.failures().empty());
}

TEST_CASE("A daemon sends on for ordered namespaces and filters too", "[client][aggregation]") {
  TestCluster cluster(FourNodes());
  Client client = ConnectTo(cluster);
  auto map = Open<BytesOrderedMap>(client, "ranges", {.split_keys = {"k3", "k5", "k7"}});
  auto buffered = map.Buffered(ByNode());
  for (int i = 0; i < 1'000; ++i) buffered.Put(Key(i), std::to_string(i));
  RequireOk(buffered.Flush());
  CHECK(buffered.counts().forwarded > 0);
  CHECK(*map.Length() == 1'000);
  CHECK(map.Get("k77")->bytes == "77");

  auto filter = Open<BytesBloom>(client, "filter", {.expected_items = 10'000});
  auto inserts = filter.Buffered(ByNode());
  for (int i = 0; i < 1'000; ++i) inserts.Insert(Key(i));
  RequireOk(inserts.Flush());
  CHECK(inserts.counts().forwarded > 0);
  CHECK(*filter.Contains("k999"));
}

TEST_CASE("A namespace that was just made is known to the daemon that sends on",
          "[client][aggregation]") {
  TestCluster cluster(FourNodes());
  Client client = ConnectTo(cluster);
  for (int i = 0; i < 5; ++i) {
    auto map = Open<BytesMap>(client, "new" + std::to_string(i));
    auto buffered = map.Buffered(ByNode());
    buffered.Add("key", i);
    RequireOk(buffered.Flush());
    CHECK(Counter(map, "key") == i);
  }
  auto map = Open<BytesMap>(client, "gone");
  auto buffered = map.Buffered(ByNode());
  buffered.Add("key", 1);
  RequireOk(client.Drop("gone"));
  CHECK(buffered.Flush().code() == StatusCode::kNotFound);
}

TEST_CASE("An owner that is killed fails only what was for it", "[client][aggregation]") {
  TestCluster cluster(FourNodes());
  Client client = ConnectTo(cluster);
  auto map = Open<BytesMap>(client, "killed");
  auto buffered = map.Buffered(ByNode());
  for (int i = 0; i < 400; ++i) buffered.Add(Key(i), 1);
  RequireOk(buffered.Flush());
  const std::size_t victim = AggregatorIndex(cluster) == 3 ? 2 : 3;
  const std::uint32_t victim_id = cluster.node_id(victim);
  cluster.Kill(victim);
  REQUIRE(cluster.WaitForNodeState(victim, v1::NODE_STATE_DOWN));
  for (int i = 0; i < 400; ++i) buffered.Add(Key(i), 1);
  CHECK_FALSE(buffered.Flush().ok());
  std::map<std::string, StatusCode> failed;
  for (const BufferedFailure& failure : buffered.failures()) {
    failed[failure.key] = failure.status.code();
  }
  for (int i = 0; i < 400; ++i) {
    const bool lost = map.space().OwnerOf(Key(i)) == victim_id;
    CHECK(failed.contains(Key(i)) == lost);
    if (!lost) CHECK(Counter(map, Key(i)) == 2);
  }
}

TEST_CASE("An owner that is stopped ends what was for it by the deadline",
          "[client][aggregation]") {
  TestClusterOptions options = FourNodes();
  options.lease_ms = 60'000;  // The node is thus not called down.
  options.heartbeat_ms = 1'000;
  TestCluster cluster(options);
  Client client = ConnectTo(cluster);
  auto map = Open<BytesMap>(client, "stopped");
  auto buffered = map.Buffered(ByNode(milliseconds(1'500)));
  for (int i = 0; i < 400; ++i) buffered.Add(Key(i), 1);
  RequireOk(buffered.Flush());
  const std::size_t victim = AggregatorIndex(cluster) == 3 ? 2 : 3;
  const std::uint32_t victim_id = cluster.node_id(victim);
  cluster.Suspend(victim);
  for (int i = 0; i < 400; ++i) buffered.Add(Key(i), 1);
  const Status status = buffered.Flush();
  cluster.Resume(victim);
  CHECK(status.code() == StatusCode::kUnknown);
  std::map<std::string, StatusCode> failed;
  for (const BufferedFailure& failure : buffered.failures()) {
    failed[failure.key] = failure.status.code();
  }
  // The aggregator's outcome comes before the client's own deadline, and names the failed
  // operations.
  for (int i = 0; i < 400; ++i) {
    CHECK(failed.contains(Key(i)) == (map.space().OwnerOf(Key(i)) == victim_id));
  }
  RequireOk(buffered.Flush());
}

TEST_CASE("A daemon that dies with operations leaves nobody waiting, and the next one takes over",
          "[client][aggregation]") {
  TestCluster cluster(FourNodes());
  // Namespaces are made beside the daemon that dies, which is not the coordinator then: the lowest
  // node that is up sends on.
  Client client = ConnectTo(cluster);
  auto map = Open<BytesMap>(client, "taken-over");
  auto buffered = map.Buffered(ByNode(milliseconds(3'000)));
  for (int i = 0; i < 100; ++i) buffered.Add(Key(i), 1);
  RequireOk(buffered.Flush());
  const std::size_t victim = AggregatorIndex(cluster);
  cluster.Suspend(victim);
  for (int i = 0; i < 100; ++i) buffered.Add(Key(i), 1);
  CHECK_FALSE(buffered.Flush().ok());
  CHECK(buffered.pending() == 0);
  cluster.Resume(victim);
  // Its lease has run out meanwhile.
  REQUIRE(WaitUntil([&] {
    for (int i = 0; i < 100; ++i) buffered.Put("other" + std::to_string(i), "value");
    return buffered.Flush().ok();
  }));
  // Its operations may have been sent on: each add counts once or not at all.
  for (int i = 0; i < 100; ++i) {
    buffered.Add(Key(i), 10);
  }
  RequireOk(buffered.Flush());
  for (int i = 0; i < 100; ++i) {
    const std::int64_t value = Counter(map, Key(i));
    CHECK((value == 11 || value == 12));
  }
}

TEST_CASE("A handle finds out by itself whether a daemon should send on", "[client][aggregation]") {
  TestCluster cluster(FourNodes());
  constexpr int kClients = 3;
  std::vector<std::string> failures(kClients);
  std::vector<std::uint64_t> forwarded(kClients);
  std::vector<std::thread> clients;
  for (int c = 0; c < kClients; ++c) {
    clients.emplace_back([&, c] {
      try {
        Client client = ConnectTo(cluster);
        auto map = Open<BytesMap>(client, "auto");
        auto buffered = map.Buffered();
        const auto end = std::chrono::steady_clock::now() + milliseconds(kPatienceMs);
        // Perhaps alone at first; in the end with the other clients.
        while (buffered.counts().forwarded < 50 && std::chrono::steady_clock::now() < end) {
          for (int i = 0; i < 8; ++i) buffered.Add(Key(i), 1);
          RequireOk(buffered.Flush());
        }
        // A client that has met other clients stays with them.
        const std::uint64_t before = buffered.counts().forwarded;
        for (int flush = 0; flush < 100; ++flush) {
          for (int i = 0; i < 8; ++i) buffered.Add(Key(i), 1);
          RequireOk(buffered.Flush());
        }
        forwarded[c] = buffered.counts().forwarded - before;
      } catch (const std::exception& error) {
        failures[c] = error.what();
      }
    });
  }
  for (std::thread& client : clients) client.join();
  for (const std::string& failure : failures) CHECK(failure == "");
  for (const std::uint64_t count : forwarded) CHECK(count >= 99);
}

TEST_CASE("Full buffers, and those of a client that nobody joins, go straight to their owners",
          "[client][aggregation]") {
  TestCluster cluster(FourNodes());
  Client client = ConnectTo(cluster);
  auto map = Open<BytesMap>(client, "auto");
  auto full = map.Buffered();
  for (int flush = 0; flush < 5; ++flush) {
    for (int i = 0; i < 4'000; ++i) full.Add(Key(i), 1);
    RequireOk(full.Flush());
  }
  CHECK(full.counts().forwarded == 0);
  auto lonely = map.Buffered();
  for (int flush = 0; flush < 50; ++flush) {
    for (int i = 0; i < 8; ++i) lonely.Add(Key(i), 1);
    RequireOk(lonely.Flush());
  }
  // It has looked for other clients, and found none.
  CHECK(lonely.counts().forwarded > 0);
  CHECK(lonely.counts().forwarded < 20);
}

}  // namespace
}  // namespace tidepool::testing
