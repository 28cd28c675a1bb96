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

TEST_CASE("A continuation runs although the answer awaited came with its own",
          "[client][progress]") {
  FakeCluster cluster;
  cluster.Auto();
  const auto engine = cluster.Connect();
  const BytesMap map = cluster.Open(engine);
  REQUIRE(map.Put("a", "1").ok());
  bool ran = false;
  // A single frame, and thus a single round that ends both calls.
  map.GetAsync("a").Then([&](Result<Value> got) { ran = got.ok(); });
  auto awaited = map.GetAsync("a");
  REQUIRE(cluster.Pump(engine, [&] { return awaited.Ready(); }));
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
  // The client ends on its own thread, which is to be done with the cluster before that goes.
  const auto ended = [&] {
    return dropped && cluster.detaches() > 0 && cluster.worker_count() == 0;
  };
  while (!ended() && !patience.Passed()) std::this_thread::yield();
  CHECK(dropped);
  CHECK(cluster.detaches() == 1);
}

// A client that really sleeps: no thread spins, and time is the machine's.
struct SleepyFixture {
  explicit SleepyFixture(ConnectOptions options = {})
      : engine([&] {
          options.wait = WaitMode::kBlock;
          return cluster.Connect(options);
        }()) {}
  // Waits until a thread has gone to sleep since `before` was read.
  bool AwaitSleep(std::uint64_t before) {
    const Deadline patience = Deadline::AfterMs(20'000);
    while (engine->Stats().sleeps == before && !patience.Passed()) std::this_thread::yield();
    return engine->Stats().sleeps != before;
  }
  bool AwaitRequests(std::size_t count) {
    const Deadline patience = Deadline::AfterMs(20'000);
    while (cluster.request_count() < count && !patience.Passed()) std::this_thread::yield();
    return cluster.request_count() >= count;
  }

  FakeCluster cluster{{.real_time = true}};
  std::shared_ptr<internal::Engine> engine;
  BytesMap map = cluster.Open(engine);
};

TEST_CASE_METHOD(SleepyFixture, "A map to be fetched again in a moment wakes who sleeps for longer",
                 "[client][progress]") {
  Result<Version> results[2] = {Status(StatusCode::kInternal, "-"),
                                Status(StatusCode::kInternal, "-")};
  std::vector<std::jthread> threads;
  for (std::uint32_t t = 0; t < 2; ++t) {
    threads.emplace_back([this, t, &results] {
      results[t] = map.Put(cluster.KeyIn(t), "1", {.timeout = std::chrono::milliseconds(5'000)});
    });
    REQUIRE(AwaitRequests(t + 1));
  }
  // The first fetch of a map fails, but not before the other thread sleeps until its call's end.
  std::atomic<int> fetches{0};
  const std::uint64_t before = engine->Stats().sleeps;
  cluster.set_map_hook([&, before] {
    if (fetches++ > 0) return;
    AwaitSleep(before);
    cluster.set_map_error(Status(StatusCode::kUnavailable, "not now"));
  });
  for (int i = 0; i < 2; ++i) {
    const auto frame = cluster.TakeRequest();
    cluster.Refuse(*frame, 0, StatusCode::kWrongEpoch, 2);
  }
  const Deadline patience = Deadline::AfterMs(20'000);
  while (cluster.map_waits().size() < 2 && !patience.Passed()) std::this_thread::yield();
  for (std::uint32_t p = 0; p < 4; ++p) cluster.SetTerm(p, 2, 0, 0);
  cluster.PublishMap();
  cluster.Auto();
  cluster.set_map_error({});
  for (auto& thread : threads) thread.join();
  CHECK(results[0].ok());
  CHECK(results[1].ok());
}

TEST_CASE("The background thread sleeps no longer than a call that was sent at once may take",
          "[client][progress]") {
  std::atomic<std::uint64_t> before{~0ull};
  std::atomic<bool> ended{false};
  ConnectOptions options;
  options.background_progress = true;
  SleepyFixture fixture(options);
  fixture.cluster.Auto();
  // No other thread waits, so the sleep after this continuation is the background thread's.
  const Deadline patience = Deadline::AfterMs(20'000);
  fixture.map.PutAsync("key", "1").Then([&](Result<Version>) {
    before = fixture.engine->Stats().sleeps;
  });
  while (before == ~0ull && !patience.Passed()) std::this_thread::yield();
  REQUIRE(before != ~0ull);
  REQUIRE(fixture.AwaitSleep(before));
  fixture.cluster.SetAuto(false);
  // The call is large enough to be sent at its submission. The background thread need not wake for
  // it.
  std::vector<std::string> keys(2 * limits::kFlushOperations, fixture.cluster.KeyIn(0));
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  fixture.map.MultiDeleteAsync(views, {.timeout = std::chrono::milliseconds(100)})
      .Then([&](Result<BatchResult>) { ended = true; });
  while (!ended && !patience.Passed()) std::this_thread::yield();
  CHECK(ended);
}

TEST_CASE("A thread whose spinning brings its answers does not sleep", "[client][progress]") {
  // The answer comes after 16 empty rounds: far less than the 50 us that a spin may take.
  FakeCluster cluster({.real_time = true, .quiet_rounds = 16});
  cluster.Auto();
  const auto engine = cluster.Connect();
  const BytesMap map = cluster.Open(engine);
  constexpr std::uint64_t kCalls = 1'000;
  for (std::uint64_t i = 0; i < kCalls; ++i) REQUIRE(map.Put("key", "1").ok());
  // Some, on a machine that takes the CPU away now and then.
  CHECK(engine->Stats().sleeps < kCalls / 4);
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
