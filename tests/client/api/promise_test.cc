// The saving of each promise, in messages, and the harmlessness of a broken promise, with a real
// daemon.
#include <catch2/catch.hpp>
#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/client/sdk_fixture.h"
#include "tests/support/random.h"

namespace tidepool::testing {
namespace {

// Frames that `work` makes the client send.
template <typename Work>
std::uint64_t FramesOf(const Client& client, Work work) {
  const std::uint64_t before = client.Stats().frames_sent;
  work();
  return client.Stats().frames_sent - before;
}

TEST_CASE("ReadOnlyAsksForEachKeyOnce", "[kinds]") {
  Client client = ConnectTo(Cluster());
  const auto map = Open<BytesMap>(client, "promise.reads");
  const KeyList keys(500);
  REQUIRE(map.MultiPut(keys.With("v")).AllOk());
  const BytesMap reads = WithPromise(map, Promise::kReadOnly);
  const auto read_all = [&] {
    for (const std::string& key : keys.texts) {
      REQUIRE(reads.Get(key).value().bytes == "v");
      REQUIRE(reads.Get("no " + key).code() == StatusCode::kNotFound);
    }
  };
  CHECK(FramesOf(client, read_all) == 1'000);
  CHECK(FramesOf(client, read_all) == 0);
  CHECK(FramesOf(client, [&] {
          CHECK(reads.GetAsync(keys.views[7]).Wait().value().version ==
                reads.Get(keys.views[7]).value().version);
          CHECK(reads.Contains(keys.views[7]).value());
          CHECK_FALSE(reads.Contains("no key7").value());
          const BatchResult all = reads.MultiGet(keys.views);
          CHECK(all.AllOk());
          CHECK(all.value(499) == "v");
          CHECK(all.version(499) > 0);
        }) == 0);
  // Other keys of a batch are asked for.
  const std::vector<std::string_view> mixed = {"key1", "absent1", "key2", "absent2"};
  for (const std::uint64_t most : {2, 0}) {  // At most two partitions, then zero.
    CHECK(FramesOf(client, [&] {
            const BatchResult some = reads.MultiGet(mixed);
            CHECK(some.value(0) == "v");
            CHECK(some.code(1) == StatusCode::kNotFound);
            CHECK(some.value(2) == "v");
          }) <= most);
  }
  reads.space().EndRound();
  CHECK(FramesOf(client, read_all) == 1'000);
}

TEST_CASE("APromiseOfOneCallIsRememberedByItsHandle", "[kinds]") {
  Client client = ConnectTo(Cluster());
  const auto map = Open<BytesMap>(client, "promise.call");
  REQUIRE(map.Put("k", "v").ok());
  const CallOptions read_only{.promise = Promise::kReadOnly};
  REQUIRE(map.Get("k", read_only).ok());
  CHECK(FramesOf(client, [&] { CHECK(map.Get("k", read_only)->bytes == "v"); }) == 0);
  CHECK(FramesOf(client, [&] { CHECK(map.Get("k")->bytes == "v"); }) == 1);
  map.space().EndRound();
  CHECK(FramesOf(client, [&] { CHECK(map.Get("k", read_only)->bytes == "v"); }) == 1);
}

TEST_CASE("ABrokenPromiseToReadOnlyGivesOldValuesUntilTheRoundEnds", "[kinds]") {
  Client client = ConnectTo(Cluster());
  Client other = ConnectTo(Cluster());
  const auto map = Open<BytesMap>(client, "promise.broken");
  const auto theirs = Open<BytesMap>(other, "promise.broken");
  REQUIRE(map.Put("k", "old").ok());
  const BytesMap reads = WithPromise(map, Promise::kReadOnly);
  CHECK(reads.Get("k")->bytes == "old");
  CHECK(reads.Get("later").code() == StatusCode::kNotFound);
  REQUIRE(theirs.Put("k", "new").ok());
  REQUIRE(theirs.Put("later", "new").ok());
  CHECK(reads.Get("k")->bytes == "old");
  CHECK(reads.Get("later").code() == StatusCode::kNotFound);
  CHECK(map.Get("k")->bytes == "new");  // Stored data and other handles are not concerned.
  reads.space().EndRound();
  CHECK(reads.Get("k")->bytes == "new");
  CHECK(reads.Get("later")->bytes == "new");
}

TEST_CASE("AProgramFindsItsOwnWritesWhateverItPromised", "[kinds]") {
  Client client = ConnectTo(Cluster());
  const auto map =
      WithPromise(Open<BytesMap>(client, "promise.model"),
                  Promise::kReadOnly | Promise::kDisjointWrites, {.cache_bytes_max = 64 * 1024});
  std::map<std::string, std::string> model;
  test::Random random("AProgramFindsItsOwnWritesWhateverItPromised");
  for (int i = 0; i < 4'000; ++i) {
    const std::string key = "k" + std::to_string(random.Below(300));
    const auto found = model.find(key);
    switch (random.Below(7)) {
      case 0: {
        const std::string value = std::to_string(i);
        REQUIRE(map.Put(key, value).ok());
        model[key] = value;
        break;
      }
      case 1:
        REQUIRE((map.Delete(key).code() == StatusCode::kOk) == (found != model.end()));
        model.erase(key);
        break;
      case 2: {
        const std::string value = std::string(random.Below(300), 'b') + std::to_string(i);
        const std::vector<KeyValue> records = {{key, value}, {"k1", value}};
        const BatchResult batch = map.MultiPut(records);
        REQUIRE(batch.AllOk());
        model[key] = model["k1"] = value;
        break;
      }
      case 6: {
        const std::vector<std::string_view> keys = {key, "k2"};
        (void)map.MultiDelete(keys);
        model.erase(key);
        model.erase("k2");
        break;
      }
      case 3: {
        Future<Version> put = map.PutAsync(key, "async");
        REQUIRE(map.Get(key)->bytes == "async");
        REQUIRE(put.Wait().ok());
        model[key] = "async";
        break;
      }
      default: {
        const auto got = map.Get(key);
        REQUIRE(got.ok() == (found != model.end()));
        if (got.ok()) REQUIRE(got->bytes == found->second);
      }
    }
  }
}

TEST_CASE("ErasedRangesAreForgotten", "[kinds]") {
  Client client = ConnectTo(Cluster());
  const BytesOrderedMap map =
      WithPromise(Open<BytesOrderedMap>(client, "promise.ranges"), Promise::kReadOnly);
  REQUIRE(map.Put("a", "v").ok());
  CHECK(map.Get("a").ok());
  CHECK(map.EraseRange({}).value() == 1);
  CHECK(map.Get("a").code() == StatusCode::kNotFound);
}

TEST_CASE("InsertsWithoutAnswersOfTheirOwnTakeFewerBytes", "[kinds]") {
  Client client = ConnectTo(Cluster());
  const auto map = Open<BytesMap>(client, "promise.inserts");
  const KeyList keys(5'000);
  const auto records = keys.With("sixteen bytes...");
  std::uint64_t received_plain = 0;
  std::uint64_t received_quiet = 0;
  const auto put = [&](Promise promise, std::uint64_t* received) {
    const std::uint64_t before = client.Stats().bytes_received;
    const BatchResult batch = map.MultiPut(records, {.promise = promise});
    CHECK(batch.AllOk());
    CHECK(batch.size() == records.size());
    CHECK((batch.version(4'999) == 0) == (promise != Promise::kNone));
    *received = client.Stats().bytes_received - before;
  };
  const std::uint64_t plain = FramesOf(client, [&] { put(Promise::kNone, &received_plain); });
  const std::uint64_t quiet = FramesOf(client, [&] { put(Promise::kInsertOnly, &received_quiet); });
  CHECK(FramesOf(client, [&] { put(Promise::kDisjointWrites, &received_quiet); }) == quiet);
  CHECK(quiet <= plain);
  CHECK(received_quiet * 20 <= received_plain);
  for (const std::string& key : keys.texts) REQUIRE(map.Get(key)->bytes == "sixteen bytes...");
  // A caller that wants to know the new keys gets them.
  const BatchResult again = map.MultiPut(
      records, {.condition = PutCondition::kIfAbsent, .promise = Promise::kInsertOnly});
  CHECK(again.code(17) == StatusCode::kAlreadyExists);
}

TEST_CASE("EachRecordOfAQuietBatchHasAResult", "[kinds]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = WithPromise(Open<BytesMap>(client, "promise.results"), Promise::kInsertOnly);
  const std::string long_key(20'000, 'k');
  const std::string large(100'000, 'L');
  const std::vector<KeyValue> records = {{"a", "1"},     {long_key, "2"}, {"large", large},
                                         {"a", "3"},     {"b", ""},       {"large", "small"},
                                         {"late", large}};
  for (const bool async : {false, true}) {
    const BatchResult batch = async ? *map.MultiPutAsync(records).Wait() : map.MultiPut(records);
    REQUIRE(batch.size() == 7);
    CHECK(batch.ok_count() == 6);
    CHECK(batch.code(1) == StatusCode::kInvalidArgument);
    CHECK(batch.FirstFailure().ToString().find("key 1 of 7") != std::string::npos);
    CHECK(map.Get("a")->bytes == "3");
    CHECK(map.Get("b")->bytes.empty());
    CHECK(map.Get("large")->bytes == "small");
    CHECK(map.Get("late")->bytes == large);
    REQUIRE(map.Put("large", "other").ok());
  }
  CHECK(map.MultiPut({}).size() == 0);
}

TEST_CASE("WritesThatAreNotDisjointLeaveOneOfTheirValues", "[kinds]") {
  Client client = ConnectTo(Cluster());
  const auto map = Open<BytesMap>(client, "promise.clash");
  const KeyList keys(2'000);
  std::vector<std::size_t> succeeded(2);
  std::vector<std::thread> writers;
  for (std::size_t w = 0; w < 2; ++w) {
    writers.emplace_back([&, w] {
      Client own = ConnectTo(Cluster());
      const auto mine = WithPromise(Open<BytesMap>(own, "promise.clash"), Promise::kDisjointWrites);
      for (int round = 0; round < 5; ++round) {
        succeeded[w] += mine.MultiPut(keys.With(w == 0 ? "zero" : "one")).ok_count();
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  CHECK(succeeded == std::vector<std::size_t>{10'000, 10'000});
  CHECK(map.Length().value() == 2'000);
  for (const std::string& key : keys.texts) {
    const std::string value = map.Get(key)->bytes;
    REQUIRE((value == "zero" || value == "one"));
  }
}

TEST_CASE("AFullMemoryIsToldForEachRecordOfAQuietBatch", "[kinds]") {
  TestCluster cluster({.nodes = 1, .memory = "64MiB"});
  cluster.WaitReady();
  Client client = ConnectTo(cluster);
  const BytesMap map = WithPromise(Open<BytesMap>(client, "full"), Promise::kInsertOnly);
  const std::string value(10'000, 'v');
  const KeyList keys(12'000);  // 120 MB.
  const BatchResult batch = map.MultiPut(keys.With(value), {.timeout = std::chrono::seconds(60)});
  CHECK(batch.FirstFailure().code() == StatusCode::kResourceExhausted);
  CHECK(batch.ok_count() > 1'000);
  CHECK(batch.ok_count() == map.Length().value());
  const BatchResult found = map.MultiGet(keys.views, {.timeout = std::chrono::seconds(60)});
  for (std::size_t i = 0; i < keys.views.size(); ++i)
    REQUIRE(found.code(i) ==
            (batch.code(i) == StatusCode::kOk ? StatusCode::kOk : StatusCode::kNotFound));
}

TEST_CASE("PopOnlyAsksAnEmptyQueueOnce", "[kinds]") {
  using namespace std::chrono_literals;
  Client client = ConnectTo(Cluster());
  Client other = ConnectTo(Cluster());
  const auto queue = Open<BytesQueue>(client, "promise.pops");
  const auto theirs = Open<BytesQueue>(other, "promise.pops");
  const BytesQueue pops = WithPromise(queue, Promise::kPopOnly);
  REQUIRE(queue.Push("one").ok());
  CHECK(pops.Pop()->value == "one");
  const auto pop_all = [&] {
    for (int i = 0; i < 50; ++i) {
      CHECK(pops.Pop({.wait = 60s}).code() == StatusCode::kNotFound);
      CHECK(pops.PopMany(5, {.wait = 60s})->empty());
      CHECK(pops.PopAsync({.wait = 60s}).Wait().code() == StatusCode::kNotFound);
      CHECK(pops.Peek().code() == StatusCode::kNotFound);
    }
  };
  CHECK(FramesOf(client, pop_all) == 1);
  CHECK(FramesOf(client, pop_all) == 0);
  // A broken promise hides other clients' pushes until the round ends, and loses nothing.
  REQUIRE(theirs.Push("hidden").ok());
  CHECK(pops.Pop().code() == StatusCode::kNotFound);
  CHECK(queue.Length()->ready == 1);
  pops.space().EndRound();
  CHECK(pops.Pop({.lease = 10min})->value == "hidden");
  CHECK(pops.Pop().code() == StatusCode::kNotFound);
  // The program's own pushes are found.
  REQUIRE(pops.Push("own").ok());
  CHECK(pops.Pop()->value == "own");
  CHECK(pops.Pop().code() == StatusCode::kNotFound);
  const std::vector<std::string_view> two = {"a", "b"};
  REQUIRE(pops.MultiPush(two).AllOk());
  CHECK(pops.PopMany(5)->size() == 2);
}

TEST_CASE("OnePopMayPromiseForItself", "[kinds]") {
  using namespace std::chrono_literals;
  Client client = ConnectTo(Cluster());
  Client other = ConnectTo(Cluster());
  const auto queue = Open<BytesQueue>(client, "promise.pop");
  const auto theirs = Open<BytesQueue>(other, "promise.pop");
  const PopOptions alone{.wait = 60s, .promise = Promise::kPopOnly};
  const auto pop_all = [&] {
    for (int i = 0; i < 50; ++i) {
      CHECK(queue.Pop(alone).code() == StatusCode::kNotFound);
      CHECK(queue.PopMany(5, alone)->empty());
      CHECK(queue.Peek({.promise = Promise::kPopOnly}).code() == StatusCode::kNotFound);
    }
  };
  CHECK(FramesOf(client, pop_all) == 1);
  CHECK(FramesOf(client, pop_all) == 0);
  REQUIRE(theirs.Push("theirs").ok());
  CHECK(queue.Pop(alone).code() == StatusCode::kNotFound);
  // A call without a promise asks.
  CHECK(queue.Pop()->value == "theirs");
  // The program's own pushes are found, buffered or not.
  REQUIRE(queue.Push("own", {.promise = Promise::kPushOnly}).ok());
  CHECK(queue.Pop(alone)->value == "own");
  CHECK(queue.Pop(alone).code() == StatusCode::kNotFound);
  auto buffered = queue.Buffered();
  buffered.Push("buffered");
  REQUIRE(buffered.Flush().ok());
  CHECK(queue.Pop(alone)->value == "buffered");
}

// No gain, and no harm, as the header says.
TEST_CASE("PushOnlyAndLocalChangeNothing", "[kinds]") {
  ConnectOptions options;
  options.direct_read_bytes_max = 0;  // Makes reads count too.
  Client client = ConnectTo(Cluster(), options);
  const auto map = Open<BytesMap>(client, "promise.local");
  const auto queue = Open<BytesQueue>(client, "promise.pushes");
  const BytesMap local = WithPromise(map, Promise::kLocal);
  const BytesQueue pushes = WithPromise(queue, Promise::kPushOnly);
  const KeyList keys(100);
  const auto work = [&](const BytesMap& some, const BytesQueue& items) {
    return FramesOf(client, [&] {
      REQUIRE(some.MultiPut(keys.With("v")).AllOk());
      for (const std::string& key : keys.texts) REQUIRE(some.Get(key).ok());
      REQUIRE(items.MultiPush(keys.views).AllOk());
      REQUIRE(items.Push("one").ok());
      auto buffered = items.Buffered();
      for (const std::string& key : keys.texts) buffered.Push(key);
      REQUIRE(buffered.Flush().ok());
    });
  };
  const std::uint64_t plain = work(map, queue);
  CHECK(work(local, pushes) == plain);
  CHECK(queue.Length()->ready == 402);
}

TEST_CASE("ABrokenPromiseOfLocalKeysFindsThemWhereTheyAre", "[kinds]") {
  TestCluster cluster({.nodes = 2, .memory = "128MiB"});
  cluster.WaitReady();
  Client client = ConnectTo(cluster);
  const auto map = Open<BytesMap>(client, "promise.elsewhere");
  const BytesMap local = WithPromise(map, Promise::kLocal);
  const KeyList keys(200);
  std::vector<int> of_node(2);
  for (const std::string_view key : keys.views) ++of_node.at(map.space().OwnerOf(key));
  REQUIRE(of_node[0] > 0);
  REQUIRE(of_node[1] > 0);
  REQUIRE(local.MultiPut(keys.With("v")).AllOk());
  for (const std::string& key : keys.texts) {
    REQUIRE(local.Put(key, "w").ok());
    CHECK(local.Get(key).value().bytes == "w");
    CHECK(map.Get(key).value().bytes == "w");
  }
  REQUIRE(local.Delete(keys.texts[0]).ok());
  CHECK(map.Get(keys.texts[0]).code() == StatusCode::kNotFound);
  CHECK(map.Length().value() == keys.texts.size() - 1);
}

TEST_CASE("ABrokenPromiseOfPushesAloneLosesAndDoublesNoItem", "[kinds]") {
  constexpr int kItems = 2'000;
  Client client = ConnectTo(Cluster());
  const auto queue = Open<BytesQueue>(client, "promise.popped");
  const BytesQueue pushes = WithPromise(queue, Promise::kPushOnly);
  Client other = ConnectTo(Cluster());
  const auto theirs = *other.Open<BytesQueue>("promise.popped");
  // Another client pops meanwhile, in spite of the promise. On this thread, because Catch's macros
  // need a single thread.
  Status failure;
  std::thread pusher([&] {
    for (int i = 0; i < kItems && failure.ok(); ++i) {
      const std::string value = std::to_string(i);
      const std::vector<std::string_view> one = {value};
      failure = i % 2 == 0 ? pushes.Push(value).status() : pushes.MultiPush(one).FirstFailure();
    }
  });
  std::vector<std::string> popped;
  while (popped.size() < kItems) {
    const auto item = theirs.Pop({.wait = std::chrono::seconds(20)});
    if (!item.ok()) break;
    popped.push_back(item->value);
  }
  pusher.join();
  REQUIRE(failure.ok());
  REQUIRE(popped.size() == kItems);
  for (int i = 0; i < kItems; ++i)
    REQUIRE(popped[static_cast<std::size_t>(i)] == std::to_string(i));
  CHECK(queue.Length()->ready == 0);
}

}  // namespace
}  // namespace tidepool::testing
