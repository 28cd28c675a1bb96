// The SDK against real daemons: every operation, values of all sizes, batches, iteration, threads.
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "proto/base/limits.h"
#include "proto/cluster_file/job_token.h"
#include "tests/client/sdk_fixture.h"

namespace tidepool::testing {
namespace {

using namespace std::chrono_literals;

std::string Pattern(std::size_t bytes, unsigned seed = 1) {
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) {
    seed = seed * 1'103'515'245u + 12'345u;
    text[i] = static_cast<char>(seed >> 16);
  }
  return text;
}

TEST_CASE("Put, get, delete and contains", "[sdk]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "basic");
  CHECK(map.Get("k").code() == StatusCode::kNotFound);
  CHECK_FALSE(map.Contains("k").value_or(true));
  const auto first = map.Put("k", "one");
  REQUIRE(first.ok());
  CHECK(*first != 0);
  const auto read = map.Get("k");
  REQUIRE(read.ok());
  CHECK(read->bytes == "one");
  CHECK(read->version == *first);
  CHECK(map.Contains("k").value_or(false));
  const auto second = map.Put("k", "two");
  REQUIRE(second.ok());
  CHECK(*second > *first);
  CHECK(map.Delete("k", {.if_version = *first}).code() == StatusCode::kFailedPrecondition);
  CHECK(map.Delete("k").ok());
  CHECK(map.Delete("k").code() == StatusCode::kNotFound);
}

TEST_CASE("Keys and values are any bytes, also none", "[sdk]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "bytes");
  const std::string odd("a\0b\xff\n", 5);
  REQUIRE(map.Put("", odd).ok());
  REQUIRE(map.Put(odd, "").ok());
  CHECK(map.Get("")->bytes == odd);
  CHECK(map.Get(odd)->bytes.empty());
  const std::string longest(limits::kKeyBytesMax, 'k');
  REQUIRE(map.Put(longest, Pattern(limits::kUnstreamedValueBytesMax)).ok());
  CHECK(map.Get(longest)->bytes == Pattern(limits::kUnstreamedValueBytesMax));
}

TEST_CASE("Conditional puts", "[sdk]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "conditions");
  CHECK(map.Put("k", "v", {.condition = PutCondition::kIfPresent}).code() == StatusCode::kNotFound);
  const auto made = map.Put("k", "v1", {.condition = PutCondition::kIfAbsent});
  REQUIRE(made.ok());
  CHECK(map.Put("k", "v2", {.condition = PutCondition::kIfAbsent}).code() ==
        StatusCode::kAlreadyExists);
  const PutOptions if_made{.condition = PutCondition::kIfVersion, .if_version = *made};
  REQUIRE(map.Put("k", "v3", if_made).ok());
  CHECK(map.Put("k", "v4", if_made).code() == StatusCode::kFailedPrecondition);
  CHECK(map.Get("k")->bytes == "v3");
}

TEST_CASE("Take, compare-and-swap and append", "[sdk]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "updates");
  REQUIRE(map.Put("k", "old").ok());
  CHECK(map.CompareAndSwap("k", "other", "new").code() == StatusCode::kFailedPrecondition);
  REQUIRE(map.CompareAndSwap("k", "old", "new").ok());
  CHECK(map.CompareAndSwap("absent", "", "x").code() == StatusCode::kNotFound);
  CHECK(map.Append("k", "er").value_or(0) == 5);
  CHECK(map.Append("fresh", "abc").value_or(0) == 3);
  const auto taken = map.Take("k");
  REQUIRE(taken.ok());
  CHECK(taken->bytes == "newer");
  CHECK(map.Take("k").code() == StatusCode::kNotFound);
  REQUIRE(map.Put("empty", "").ok());
  REQUIRE(map.CompareAndSwap("empty", "", "full").ok());
  CHECK(map.Get("empty")->bytes == "full");
}

TEST_CASE("Counters of both kinds", "[sdk]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "counters");
  CHECK(map.FetchAdd("i", 5).value_or(-1) == 0);
  CHECK(map.FetchAdd("i", -7).value_or(-1) == 5);
  CHECK(map.Get("i")->AsI64() == -2);
  CHECK(map.FetchMax("i", 0b1100).value_or(0) == -2);
  CHECK(map.FetchAnd("i", 0b0110).value_or(0) == 0b1100);
  CHECK(map.FetchOr("i", 0b0001).value_or(0) == 0b0100);
  CHECK(map.FetchXor("i", 0b1111).value_or(0) == 0b0101);
  CHECK(map.FetchMin("i", -3).value_or(0) == 0b1010);
  CHECK(map.Get("i")->AsI64() == -3);
  CHECK(map.FetchAddF64("f", 1.5).value_or(-1) == 0.0);
  CHECK(map.FetchMaxF64("f", 2.5).value_or(-1) == 1.5);
  CHECK(map.FetchMinF64("f", 0.25).value_or(-1) == 2.5);
  CHECK(map.Get("f")->AsF64() == 0.25);
  const auto wrong = map.FetchAdd("f", 1);
  CHECK(wrong.code() == StatusCode::kInvalidArgument);
  CHECK(wrong.status().ToString().find("counter") != std::string::npos);
  REQUIRE(map.FetchMax("top", INT64_MAX).ok());
  CHECK(map.FetchAdd("top", 1).code() == StatusCode::kOutOfRange);
}

TEST_CASE("Time to live", "[sdk]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "ttl", {.ttl = 600s});
  REQUIRE(map.Put("default", "v").ok());
  CHECK(map.Ttl("default").value_or(0ms) <= 600s);
  CHECK(map.Ttl("default").value_or(0ms) > 500s);
  REQUIRE(map.Put("ever", "v", {.ttl = 0ms}).ok());
  CHECK(map.Ttl("ever").value_or(0ms) == kForEver);
  REQUIRE(map.Put("ever", "v", {.ttl = kForEver}).ok());
  CHECK(map.Ttl("ever").value_or(0ms) == kForEver);
  REQUIRE(map.Expire("ever", 1ms).ok());
  CHECK(WaitUntil([&] { return map.Get("ever").code() == StatusCode::kNotFound; }));
  REQUIRE(map.Expire("default", kForEver).ok());
  CHECK(map.Ttl("default").value_or(0ms) == kForEver);
  CHECK(map.Expire("absent", 5ms).code() == StatusCode::kNotFound);
}

TEST_CASE("Values of all sizes come back as they went", "[sdk]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "sizes");
  const std::size_t sizes[] = {1,      100,     8'000,   32'767,  32'768,    32'769,    57'344,
                               57'345, 100'000, 917'504, 917'505, 1'048'576, 3'000'000, 20'000'001};
  for (const std::size_t bytes : sizes) {
    INFO(bytes);
    const std::string value = Pattern(bytes);
    REQUIRE(map.Put("k", value).ok());
    const auto read = map.Get("k");
    REQUIRE(read.ok());
    CHECK(read->bytes == value);
  }
  const auto taken = map.Take("k");
  REQUIRE(taken.ok());
  CHECK(taken->bytes == Pattern(20'000'001));
  CHECK(map.Get("k").code() == StatusCode::kNotFound);
}

TEST_CASE("A batch may mix small and large values", "[sdk]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "mixed");
  std::vector<std::string> keys;
  std::vector<std::string> values;
  for (unsigned i = 0; i < 200; ++i) {
    keys.push_back("k" + std::to_string(i));
    values.push_back(Pattern(i % 10 == 0 ? 150'000 + i : i * 37, i + 1));
  }
  std::vector<KeyValue> records;
  for (std::size_t i = 0; i < keys.size(); ++i) records.push_back({keys[i], values[i]});
  const BatchResult put = map.MultiPut(records);
  INFO(put.FirstFailure().ToString());
  REQUIRE(put.AllOk());
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  const BatchResult got = map.MultiGet(views);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    REQUIRE(got.code(i) == StatusCode::kOk);
    REQUIRE(got.value(i) == values[i]);
    CHECK(got.version(i) == put.version(i));
  }
}

TEST_CASE("Operations on one key take effect in the order of calling", "[sdk]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "order");
  std::vector<Future<Version>> puts;
  std::vector<Future<Value>> gets;
  std::vector<std::string> expected;
  for (unsigned i = 0; i < 300; ++i) {
    // Streamed and unstreamed values of a key, interleaved.
    expected.push_back(Pattern(i % 7 == 0 ? 40'000 + i : 10 + i, i + 1));
    puts.push_back(map.PutAsync("k", expected.back()));
    gets.push_back(map.GetAsync("k"));
  }
  for (std::size_t i = 0; i < puts.size(); ++i) {
    REQUIRE(puts[i].Wait().ok());
    const auto read = gets[i].Wait();
    REQUIRE(read.ok());
    REQUIRE(read->bytes == expected[i]);
  }
}

TEST_CASE("A batch of many keys", "[sdk]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "many");
  std::vector<std::string> keys;
  for (int i = 0; i < 20'000; ++i) keys.push_back("key" + std::to_string(i));
  std::vector<KeyValue> records;
  for (const std::string& key : keys) records.push_back({key, key});
  REQUIRE(map.MultiPut(records).AllOk());
  CHECK(map.Length().value_or(0) == 20'000);
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  const BatchResult got = map.MultiGet(views);
  REQUIRE(got.AllOk());
  for (std::size_t i = 0; i < keys.size(); ++i) REQUIRE(got.value(i) == keys[i]);
  CHECK(map.MultiDelete(views).AllOk());
  CHECK(map.Length().value_or(1) == 0);
}

TEST_CASE("Iteration sees each record once, also in pages and from a stored cursor", "[sdk]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "iterate");
  std::vector<std::string> keys;
  for (int i = 0; i < 5'000; ++i) keys.push_back("key" + std::to_string(i));
  std::vector<KeyValue> records;
  for (const std::string& key : keys) records.push_back({key, key});
  REQUIRE(map.MultiPut(records).AllOk());
  const std::string large = Pattern(200'000);
  REQUIRE(map.Put("large", large).ok());

  std::set<std::string> seen;
  Iterator it = map.NewIterator();
  while (it.Next()) {
    REQUIRE(seen.insert(std::string(it.record().key)).second);
    if (it.record().key == "large") {
      CHECK(it.record().value == large);
    } else {
      REQUIRE(it.record().value == it.record().key);
    }
  }
  REQUIRE(it.status().ok());
  CHECK(seen.size() == 5'001);

  seen.clear();
  Cursor cursor;
  while (!cursor.at_end) {
    Client other = ConnectTo(Cluster());
    const auto page = Open<BytesMap>(other, "iterate")
                          .Iterate(cursor, {.keys_only = true, .page_records_max = 1'500});
    REQUIRE(page.ok());
    CHECK(page->records().size() <= 1'500);
    for (const Record& record : page->records()) {
      CHECK(record.value.empty());
      REQUIRE(seen.insert(std::string(record.key)).second);
    }
    cursor = page->next();
  }
  CHECK(seen.size() == 5'001);
  CHECK(map.Iterate({.partition = 9'999}).code() == StatusCode::kInvalidArgument);
  CHECK(map.Iterate(cursor)->next().at_end);
}

TEST_CASE("Many threads and clients count exactly", "[sdk]") {
  std::vector<std::thread> threads;
  Client shared = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(shared, "exact");
  std::atomic<int> failures{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      // Half of the threads share a client; each of the rest has its own.
      Client own = ConnectTo(Cluster());
      const BytesMap mine = t % 2 == 0 ? map : Open<BytesMap>(own, "exact");
      std::vector<Future<std::int64_t>> adds;
      for (int i = 0; i < 1'000; ++i) {
        adds.push_back(mine.FetchAddAsync("sum", 1));
        if (!mine.FetchAdd("key" + std::to_string(i % 10), 1).ok()) ++failures;
      }
      for (auto& add : adds) failures += add.Wait().ok() ? 0 : 1;
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(failures == 0);
  CHECK(map.Get("sum")->AsI64() == 4'000);
  CHECK(map.Get("key3")->AsI64() == 400);
}

TEST_CASE("Waiting by sleeping and by polling", "[sdk]") {
  for (const WaitMode wait : {WaitMode::kBlock, WaitMode::kPoll}) {
    ConnectOptions options;
    options.wait = wait;
    Client client = ConnectTo(Cluster(), options);
    const BytesMap map = Open<BytesMap>(client, "waits");
    for (int i = 0; i < 50; ++i) REQUIRE(map.Put("k", std::to_string(i)).ok());
  }
}

TEST_CASE("Continuations run without a waiter on a background thread", "[sdk]") {
  ConnectOptions options;
  options.background_progress = true;
  Client client = ConnectTo(Cluster(), options);
  const BytesMap map = Open<BytesMap>(client, "background");
  std::atomic<int> done{0};
  for (int i = 0; i < 100; ++i) {
    map.PutAsync("k" + std::to_string(i), Pattern(i % 2 == 0 ? 10 : 50'000))
        .Then([&](Result<Version> version) { done += version.ok() ? 1 : 0; });
  }
  CHECK(WaitUntil([&] { return done == 100; }));
}

TEST_CASE("Namespaces are made, listed, opened and dropped", "[sdk]") {
  Client client = ConnectTo(Cluster());
  CHECK(client.Open<BytesMap>("nothing/here").code() == StatusCode::kNotFound);
  CHECK(client.OpenOrCreate<BytesMap>("bad name!").code() == StatusCode::kInvalidArgument);
  CHECK(client.OpenOrCreateNamespace("grid", NamespaceKind::kArray).code() ==
        StatusCode::kUnimplemented);
  REQUIRE(client.Create<BytesMap>("short-lived", {.partitions = 3}).ok());
  CHECK(client.Create<BytesMap>("short-lived", {.partitions = 3}).code() ==
        StatusCode::kAlreadyExists);
  CHECK(client.OpenOrCreate<BytesMap>("short-lived", {.partitions = 3}).ok());
  const auto differs = client.OpenOrCreate<BytesMap>("short-lived", {.partitions = 5});
  CHECK(differs.code() == StatusCode::kAlreadyExists);
  const BytesMap map = *client.Open<BytesMap>("short-lived");
  CHECK(map.space().partitions() == 3);
  REQUIRE(map.Put("k", "v").ok());
  const auto listed = client.List();
  REQUIRE(listed.ok());
  CHECK(std::any_of(listed->begin(), listed->end(),
                    [](const NamespaceInfo& info) { return info.name == "short-lived"; }));
  REQUIRE(client.Drop("short-lived").ok());
  CHECK(client.Drop("short-lived").code() == StatusCode::kNotFound);
  const auto gone = map.Get("k");
  CHECK(gone.code() == StatusCode::kNotFound);
  CHECK(gone.status().ToString().find("dropped") != std::string::npos);
  const BytesMap anew = *client.Create<BytesMap>("short-lived");
  CHECK(anew.Get("k").status().ToString().find("no such key") != std::string::npos);
}

TEST_CASE("Another client's drop is noticed by operations on the way", "[sdk]") {
  Client writer = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(writer, "dropped-elsewhere");
  REQUIRE(map.Put("k", "v").ok());
  Client other = ConnectTo(Cluster());
  REQUIRE(other.Drop("dropped-elsewhere").ok());
  CHECK(map.Put("k", "v").code() == StatusCode::kNotFound);
}

TEST_CASE("The client describes and measures its cluster", "[sdk]") {
  Client client = ConnectTo(Cluster());
  const auto pings = client.Ping();
  REQUIRE(pings.size() == 1);
  INFO(pings[0].status.ToString());
  REQUIRE(pings[0].status.ok());
  CHECK(pings[0].round_trip > 0ns);
  CHECK(pings[0].data_path == "ring");
  const ClientDescription description = client.Describe();
  REQUIRE(description.nodes.size() == 1);
  CHECK(description.nodes[0].attached);
  CHECK(description.nodes[0].state == "up");
  CHECK(description.cluster_file == Cluster().file());
  CHECK(client.Stats().operations > 0);
}

TEST_CASE("Connecting fails with a reason", "[sdk]") {
  TemporaryFolder folder;
  ConnectOptions options;
  options.cluster_file = folder.path() + "/none.json";
  CHECK(Client::Connect(options).code() == StatusCode::kNotFound);

  // A file left behind by a dead cluster.
  cluster_file::ClusterFile file = Cluster().ReadFile();
  file.token_file = folder.path() + "/token";
  REQUIRE(cluster_file::WriteTokenFile(file.token_file, Cluster().token()).ok());
  file.nodes[0].control_address = "127.0.0.1:1";
  options.cluster_file = folder.path() + "/stale.json";
  std::ofstream(options.cluster_file) << cluster_file::Serialize(file, options.cluster_file);
  REQUIRE(chmod(options.cluster_file.c_str(), 0600) == 0);
  const auto stale = Client::Connect(options);
  INFO(stale.status().ToString());
  CHECK(stale.code() == StatusCode::kUnavailable);
  CHECK(stale.status().ToString().find("stale.json") != std::string::npos);

  // Another cluster's token.
  file.nodes[0].control_address = Cluster().ReadFile().nodes[0].control_address;
  REQUIRE(cluster_file::WriteTokenFile(file.token_file, cluster_file::MakeToken()).ok());
  std::ofstream(options.cluster_file) << cluster_file::Serialize(file, options.cluster_file);
  CHECK(Client::Connect(options).code() == StatusCode::kUnauthenticated);
}

TEST_CASE("A fork of a process that has a client is refused and does not hang", "[sdk]") {
  ConnectOptions options;
  options.cluster_file = Cluster().file();
  options.transport = GENERATE(Transport::kUcx, Transport::kRing);
  Client client = ConnectTo(Cluster(), options);
  RequireOk(Open<BytesMap>(client, "forked").Put("k", "v").status());
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    const auto again = Client::Connect(options);
    const bool refused = again.code() == StatusCode::kFailedPrecondition &&
                         again.status().remedy().find("fork") != std::string_view::npos;
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  RequireOk(Open<BytesMap>(client, "forked").Put("k", "w").status());
}

TEST_CASE("ACounterThatAFunctionChangesStaysACounter") {
  Client client = ConnectTo(Cluster());
  const auto map = Open<BytesMap>(client, "functions.counter");
  REQUIRE(map.FetchAdd("n", 1).ok());
  const std::int64_t five = 5;
  const std::string_view operand(reinterpret_cast<const char*>(&five), sizeof five);
  REQUIRE(map.Apply("n", "add-i64s", operand).ok());
  CHECK(map.FetchAdd("n", 1).value() == 6);
  REQUIRE(map.Apply("n", "exchange", "no number").ok());
  CHECK(map.FetchAdd("n", 1).code() == StatusCode::kInvalidArgument);
}

TEST_CASE("AFullShareRefusesWhatGrowsAndNothingElse") {
  TestCluster cluster({.nodes = 1, .memory = "64MiB"});
  cluster.WaitReady();
  Client client = ConnectTo(cluster);
  const auto map = Open<BytesMap>(client, "share", {.memory_share_percent = 10, .partitions = 1});
  const std::string value(30'000, 'v');
  // A removal by a chain counts once.
  for (int i = 0; i < 500; ++i) {
    REQUIRE(map.Put("{x}", value).ok());
    Chain chain;
    chain.Delete("{x}");
    REQUIRE(map.Execute(chain).value().status().ok());
  }
  std::size_t bytes = 0;
  Status refusal;
  for (int i = 0; refusal.ok(); ++i, bytes += value.size()) {
    refusal = map.Put("k" + std::to_string(i), value).status();
  }
  CHECK(refusal.code() == StatusCode::kResourceExhausted);
  CHECK(bytes < 64u * 1024 * 1024 / 9);
  Status full;
  for (int i = 0; full.ok(); ++i) full = map.FetchAdd("n" + std::to_string(i), 1).status();
  CHECK(full.code() == StatusCode::kResourceExhausted);
  CHECK(map.FetchAddIfPresent("new", 1).code() == StatusCode::kNotFound);
  CHECK(map.Get("k0").ok());
}

}  // namespace
}  // namespace tidepool::testing
