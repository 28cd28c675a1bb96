// Threads: leaders and followers, continuations, the background thread.
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "tests/client/fake_daemon.h"

namespace tidepool::testing {
namespace {

TEST_CASE("Many threads share one client", "[client][progress]") {
  FakeCluster cluster({.nodes = 2, .cores = 2, .partitions = 8});
  cluster.Auto();
  const auto engine = cluster.Connect();
  const BytesMap map = cluster.Open(engine);
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        const std::string key = "key" + std::to_string(t) + "." + std::to_string(i % 10);
        const std::string value = std::to_string(i);
        if (!map.Put(key, value).ok()) ++failures;
        const auto read = map.Get(key);
        if (!read.ok() || read->bytes != value) ++failures;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(failures == 0);
}

TEST_CASE("A continuation runs outside of the locks and may wait itself", "[client][progress]") {
  FakeCluster cluster;
  cluster.Auto();
  const auto engine = cluster.Connect();
  const BytesMap map = cluster.Open(engine);
  std::string inner;
  map.PutAsync("a", "1").Then([&](Result<Version> put) {
    REQUIRE(put.ok());
    REQUIRE(map.Put("b", "2").ok());
    inner = map.Get("b")->bytes;
  });
  REQUIRE(cluster.Pump(engine, [&] { return !inner.empty(); }));
  CHECK(inner == "2");
}

TEST_CASE("A continuation of a finished call runs at once", "[client][progress]") {
  FakeCluster cluster;
  cluster.Auto();
  const auto engine = cluster.Connect();
  const BytesMap map = cluster.Open(engine);
  auto put = map.PutAsync("a", "1");
  REQUIRE(cluster.Pump(engine, [&] { return put.Ready(); }));
  bool ran = false;
  put.Then([&](Result<Version> version) { ran = version.ok(); });
  CHECK(ran);
}

TEST_CASE("With background progress operations move on while nobody waits", "[client][progress]") {
  FakeCluster cluster;
  cluster.Auto();
  ConnectOptions options;
  options.background_progress = true;
  const auto engine = cluster.Connect(options);
  const BytesMap map = cluster.Open(engine);
  std::atomic<int> done{0};
  for (int i = 0; i < 10; ++i) {
    map.PutAsync("key" + std::to_string(i), "1").Then([&](Result<Version> version) {
      if (version.ok()) ++done;
    });
  }
  const Deadline patience = Deadline::AfterMs(20'000);
  while (done < 10 && !patience.Passed()) std::this_thread::yield();
  CHECK(done == 10);
  // And threads that wait get along with it.
  for (int i = 0; i < 100; ++i) REQUIRE(map.Put("key", "2").ok());
}

TEST_CASE("A continuation may drop the last handle of a client with background progress",
          "[client][progress]") {
  FakeCluster cluster;
  cluster.Auto();
  ConnectOptions options;
  options.background_progress = true;
  auto engine = cluster.Connect(options);
  std::atomic<bool> dropped{false};
  auto map = std::make_shared<BytesMap>(cluster.Open(engine));
  engine.reset();
  const BytesMap* view = map.get();
  std::move(*view).PutAsync("key", "1").Then([&dropped, map](Result<Version>) mutable {
    map.reset();
    dropped = true;
  });
  map.reset();
  const Deadline patience = Deadline::AfterMs(20'000);
  while ((!dropped || cluster.detaches() == 0) && !patience.Passed()) std::this_thread::yield();
  CHECK(dropped);
  CHECK(cluster.detaches() == 1);
}

TEST_CASE("A future that is dropped lets its operation go on", "[client][progress]") {
  FakeCluster cluster;
  cluster.Auto();
  const auto engine = cluster.Connect();
  const BytesMap map = cluster.Open(engine);
  { const auto dropped = map.PutAsync("a", "1"); }
  CHECK(map.Get("a")->bytes == "1");
}

}  // namespace
}  // namespace tidepool::testing
