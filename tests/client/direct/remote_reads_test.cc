// A program's reads in the memory of another node's daemon by its network card, with real daemons.
// The reads begin, and only the owner's idleness reveals them. Without an RDMA device UCX uses TCP,
// with a thread of the daemon (not an owner core) as the card. TIDEPOOL_TEST_RDMA="rc 10.88.0.1":
// see remote_memory_test.
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tests/client/sdk_fixture.h"
#include "tidepool/v1/cluster.pb.h"

namespace tidepool::testing {
namespace {

struct Network {
  std::string transports = "tcp";
  std::string address = "127.0.0.1";
};

Network NetworkOfTest() {
  const char* const device = std::getenv("TIDEPOOL_TEST_RDMA");
  if (device == nullptr) return {};
  const std::string text = device;
  return {text.substr(0, text.find(' ')), text.substr(text.find(' ') + 1)};
}

TestClusterOptions RemoteOptions(std::uint32_t lease_ms = 60'000) {
  const Network network = NetworkOfTest();
  TestClusterOptions options;
  options.lease_ms = lease_ms;
  options.flags = {"--rdma=" + network.transports, "--transport=ucx",
                   "--interface=" + network.address, "--insecure"};
  return options;
}

Client ConnectRemotely(const TestCluster& cluster, bool remote_reads = true) {
  ConnectOptions options;
  options.transport = Transport::kUcx;
  options.remote_reads = remote_reads;
  options.insecure = true;
  return ConnectTo(cluster, options);
}

std::uint64_t RemoteReads(const Client& client) { return client.Stats().remote_reads; }

// Gets `keys` until the daemon is no longer asked. The first reads request the memory.
bool ReadsRemotely(const Client& client, const BytesMap& map,
                   const std::vector<std::string_view>& keys) {
  return WaitUntil([&] {
    bool all = true;
    for (const std::string_view key : keys) {
      const std::uint64_t before = RemoteReads(client);
      (void)map.Get(key);
      all = all && RemoteReads(client) > before;
    }
    return all;
  });
}

// Returns the operations of all cores, including this question.
std::uint64_t Operations(TestCluster& cluster) {
  std::uint64_t operations = 0;
  const v1::NodeStatusResponse status = cluster.StatusFrom(0).nodes(0).status();
  for (const v1::CoreStatus& core : status.cores()) operations += core.operations();
  return operations;
}

}  // namespace

TEST_CASE("Reads of another node's memory give what its daemon would", "[remote]") {
  TestCluster cluster(RemoteOptions());
  Client client = ConnectRemotely(cluster);
  const BytesMap map = Open<BytesMap>(client, "values");
  const KeyList keys(300);
  for (std::size_t i = 0; i < keys.texts.size(); ++i) {
    RequireOk(map.Put(keys.texts[i], std::string(i * 20, 'a')).status());
  }
  RequireOk(map.FetchAdd("count", std::int64_t{41}).status());
  RequireOk(map.FetchAdd("count", std::int64_t{1}).status());
  RequireOk(map.Put("large", std::string(3 << 20, 'l')).status());
  REQUIRE(ReadsRemotely(client, map, keys.views));
  const std::string path = client.Describe().nodes[0].data_path;
  CHECK(path.find(", reads by " + NetworkOfTest().transports) != path.npos);
  for (std::size_t i = 0; i < keys.texts.size(); ++i) {
    const std::uint64_t before = RemoteReads(client);
    const auto got = map.Get(keys.texts[i]);
    RequireOk(got.status());
    CHECK(got->bytes == std::string(i * 20, 'a'));
    CHECK(got->kind == ValueKind::kBytes);
    CHECK(got->version != 0);
    CHECK(RemoteReads(client) == before + 1);
  }
  std::string memory(6'000, '.');
  const std::uint64_t before = RemoteReads(client);
  const auto into = map.GetInto(keys.texts[200], std::as_writable_bytes(std::span(memory)));
  RequireOk(into.status());
  CHECK(into->bytes.size() == 4'000);
  CHECK(memory == std::string(4'000, 'a') + std::string(2'000, '.'));
  CHECK(RemoteReads(client) == before + 1);
  CHECK(map.Get("large")->bytes == std::string(3 << 20, 'l'));
  const auto count = map.Get("count");
  RequireOk(count.status());
  CHECK(count->kind == ValueKind::kI64);
  const auto missing = map.Get("nothing");
  CHECK(missing.code() == StatusCode::kNotFound);
  CHECK_FALSE(*map.Contains("nothing"));
  CHECK(*map.Contains("key7"));
  RequireOk(map.Put("key7", "changed").status());
  CHECK(map.Get("key7")->bytes == "changed");
  RequireOk(map.Delete("key7"));
  CHECK(map.Get("key7").code() == StatusCode::kNotFound);
}

TEST_CASE("The owner does nothing for reads by its network card", "[remote]") {
  TestCluster cluster(RemoteOptions());
  Client client = ConnectRemotely(cluster);
  const BytesMap map = Open<BytesMap>(client, "idle");
  const KeyList keys(100);
  RequireOk(map.MultiPut(keys.With("value")).FirstFailure());
  REQUIRE(ReadsRemotely(client, map, keys.views));
  // Questions for views that are under way at first are operations.
  CHECK(WaitUntil([&] {
    const std::uint64_t first = Operations(cluster);
    const std::uint64_t operations = Operations(cluster);
    const std::uint64_t asking = operations - first;
    const std::uint64_t reads = RemoteReads(client);
    for (const std::string_view key : keys.views) REQUIRE(map.Get(key)->bytes == "value");
    const auto batch = map.MultiGet(keys.views);
    for (std::size_t i = 0; i < keys.views.size(); ++i) REQUIRE(batch.value(i) == "value");
    return RemoteReads(client) == reads + 2 * keys.views.size() &&
           Operations(cluster) == operations + asking;
  }));
}

TEST_CASE("Hits and misses in a growing namespace are as the daemon's", "[remote]") {
  TestCluster cluster(RemoteOptions());
  Client writer = ConnectRemotely(cluster, /*remote_reads=*/false);
  Client client = ConnectRemotely(cluster);
  const BytesMap writes = Open<BytesMap>(writer, "growing");
  const BytesMap map = Open<BytesMap>(client, "growing");
  const KeyList keys(20'000);
  const std::size_t step = keys.views.size() / 8;
  for (std::size_t end = step; end <= keys.views.size(); end += step) {
    const std::vector<KeyValue> all = keys.With("v");
    RequireOk(writes.MultiPut(std::span(all).subspan(end - step, step)).FirstFailure());
    REQUIRE(ReadsRemotely(client, map, {keys.views[end - 1], keys.views[0]}));
    for (std::size_t i = 0; i < keys.views.size(); i += 37) {
      REQUIRE(map.Get(keys.views[i]).ok() == (i < end));
    }
  }
}

TEST_CASE("A filter of another node is looked into without its daemon", "[remote]") {
  TestCluster cluster(RemoteOptions());
  Client client = ConnectRemotely(cluster);
  NamespaceOptions options;
  options.expected_items = 100'000;
  const BytesBloom filter = Open<BytesBloom>(client, "filter", options);
  const KeyList in(300);
  RequireOk(filter.MultiInsert(in.views).FirstFailure());
  REQUIRE(WaitUntil([&] {
    for (int i = 0; i < 100; ++i) (void)filter.Contains(in.views[0]);
    return RemoteReads(client) > 20;
  }));
  REQUIRE(WaitUntil([&] {
    const std::uint64_t before = RemoteReads(client);
    const BloomBatch batch = filter.MultiContains(in.views);
    RequireOk(batch.FirstFailure());
    CHECK(batch.count() == in.views.size());
    return RemoteReads(client) == before + in.views.size();
  }));
  RequireOk(filter.Insert("late").status());
  CHECK(*filter.Contains("late"));
}

TEST_CASE("Readers of another node see what is written, in its order", "[remote]") {
  TestCluster cluster(RemoteOptions());
  Client writer = ConnectRemotely(cluster, /*remote_reads=*/false);
  Client client = ConnectRemotely(cluster);
  const BytesMap writes = Open<BytesMap>(writer, "order");
  const BytesMap map = Open<BytesMap>(client, "order");
  // In place, by new records of changing size, and deleted after each second put.
  const auto text = [](int i) {
    return std::string(static_cast<std::size_t>(40 + i % 3 * 200),
                       static_cast<char>('a' + i % 26)) +
           std::to_string(i);
  };
  RequireOk(writes.Put("same", std::string(64, 'a')).status());
  RequireOk(writes.Put("other", text(0)).status());
  REQUIRE(ReadsRemotely(client, map, {"same", "other"}));
  std::atomic<bool> done{false};
  std::atomic<int> acknowledged{0};
  std::atomic<int> failures{0};
  std::thread thread([&] {
    for (int i = 1; !done; ++i) {
      const std::string same(64, static_cast<char>('a' + i % 26));
      if (!writes.Put("same", same).ok() || !writes.Put("other", text(i)).ok()) ++failures;
      if (!writes.Put("gone", text(i)).ok()) ++failures;
      if (i % 2 != 0 && !writes.Delete("gone").ok()) ++failures;
      acknowledged = i;
    }
  });
  const auto number_of = [](const std::string& value) {
    return std::stoi(value.substr(value.find_first_of("0123456789")));
  };
  int seen = 0;
  std::uint64_t version = 0;
  const std::uint64_t before = RemoteReads(client);
  CHECK(WaitUntil([&] {
    for (int k = 0; k < 50; ++k) {
      const int known = acknowledged;
      const auto same = map.Get("same");
      RequireOk(same.status());
      // All bytes come from a single write.
      if (same->bytes.size() != 64 ||
          same->bytes.find_first_not_of(same->bytes[0]) != std::string::npos) {
        return false;
      }
      if (same->version < version) return false;
      version = same->version;
      const auto other = map.Get("other");
      RequireOk(other.status());
      const int number = number_of(other->bytes);
      if (number < known || number < seen || other->bytes != text(number)) return false;
      seen = number;
      const auto gone = map.Get("gone");
      if (!gone.ok() && gone.code() != StatusCode::kNotFound) return false;
      if (gone.ok() && gone->bytes != text(number_of(gone->bytes))) return false;
      if (gone.ok() && number_of(gone->bytes) < known + known % 2) return false;
    }
    return RemoteReads(client) > before + 2'000;
  }));
  done = true;
  thread.join();
  CHECK(failures == 0);
  CHECK(seen > 0);
}

TEST_CASE("A dropped namespace of another node is read no more", "[remote]") {
  TestCluster cluster(RemoteOptions());
  Client client = ConnectRemotely(cluster);
  for (int round = 0; round < 3; ++round) {
    const BytesMap map = Open<BytesMap>(client, "short");
    CHECK(map.Get("key").code() == StatusCode::kNotFound);
    RequireOk(map.Put("key", "value" + std::to_string(round)).status());
    REQUIRE(ReadsRemotely(client, map, {"key"}));
    CHECK(map.Get("key")->bytes == "value" + std::to_string(round));
    RequireOk(client.Drop("short"));
    CHECK_FALSE(map.Get("key").ok());
  }
}

TEST_CASE("Who wants no reads by network card makes none", "[remote]") {
  TestCluster cluster(RemoteOptions());
  Client client = ConnectRemotely(cluster, /*remote_reads=*/false);
  const BytesMap map = Open<BytesMap>(client, "none");
  RequireOk(map.Put("key", "value").status());
  for (int i = 0; i < 1'000; ++i) REQUIRE(map.Get("key")->bytes == "value");
  CHECK(RemoteReads(client) == 0);
}

TEST_CASE("Single reads of another node have its lease renewed before it ends", "[remote]") {
  constexpr std::uint32_t kLeaseMs = 3'000;
  TestCluster cluster(RemoteOptions(kLeaseMs));
  Client client = ConnectRemotely(cluster);
  const BytesMap map = Open<BytesMap>(client, "renewed");
  RequireOk(map.Put("key", "value").status());
  REQUIRE(ReadsRemotely(client, map, {"key"}));
  const std::uint64_t before = RemoteReads(client);
  std::uint64_t reads = 0;
  for (const Deadline end = Deadline::AfterMs(2 * kLeaseMs); !end.Passed(); ++reads) {
    RequireOk(map.Get("key").status());
  }
  // An operation beside each renewal goes to the daemon. Without renewals, dozens go after the end
  // of a lease.
  CHECK(reads - (RemoteReads(client) - before) < 20);
}

TEST_CASE("A killed daemon of another node is read no more, and its successor is",
          "[remote][fault]") {
  TestCluster cluster(RemoteOptions(/*lease_ms=*/1'500));
  Client client = ConnectRemotely(cluster);
  NamespaceOptions options;
  options.on_loss = OnLoss::kEmpty;
  const BytesMap map = Open<BytesMap>(client, "killed", options);
  RequireOk(map.Put("key", "old").status());
  REQUIRE(ReadsRemotely(client, map, {"key"}));
  cluster.Kill(0);
  const std::uint64_t before = RemoteReads(client);
  CHECK_FALSE(map.Get("key", {.timeout = std::chrono::milliseconds(3'000)}).ok());
  CHECK(RemoteReads(client) == before);
  cluster.Start(0);
  cluster.WaitReady();
  REQUIRE(WaitUntil([&] { return map.Put("key", "new").ok(); }));
  REQUIRE(ReadsRemotely(client, map, {"key"}));
  CHECK(map.Get("key")->bytes == "new");
}

TEST_CASE("A stopped daemon of another node is read no longer than its lease", "[remote][fault]") {
  constexpr std::uint32_t kLeaseMs = 1'500;
  TestCluster cluster(RemoteOptions(kLeaseMs));
  Client client = ConnectRemotely(cluster);
  const BytesMap map = Open<BytesMap>(client, "stopped");
  RequireOk(map.Put("key", "value").status());
  REQUIRE(ReadsRemotely(client, map, {"key"}));
  cluster.Suspend(0);
  // A card reads on, for a while.
  const CallOptions quick{.timeout = std::chrono::milliseconds(200)};
  const auto begun = std::chrono::steady_clock::now();
  CHECK(WaitUntil([&] { return !map.Get("key", quick).ok(); }));
  std::this_thread::sleep_until(begun + std::chrono::milliseconds(kLeaseMs));
  const std::uint64_t before = RemoteReads(client);
  for (int i = 0; i < 5; ++i) CHECK_FALSE(map.Get("key", quick).ok());
  CHECK(RemoteReads(client) == before);
  cluster.Resume(0);
  CHECK(WaitUntil([&] { return map.Get("key").ok(); }));
}

}  // namespace tidepool::testing
