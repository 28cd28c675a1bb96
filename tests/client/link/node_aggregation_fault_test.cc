// Clients that are killed while a daemon of their machine has their buffered operations.
#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/client/sdk_fixture.h"

namespace tidepool::testing {
namespace {

constexpr int kAddsPerFlush = 40;  // Equal to traffic_client's.

// A surviving client with adds in the same messages.
class CoClient {
 public:
  CoClient(const TestCluster& cluster, const std::string& name)
      : thread_([this, &cluster, name] {
          try {
            Run(cluster, name);
          } catch (const std::exception& error) {
            failure_ = error.what();
            failed = true;
          }
        }) {}
  ~CoClient() {
    if (thread_.joinable()) End();
  }
  // Returns its adds so far, or the error.
  std::string End() {
    stop_ = true;
    thread_.join();
    return failure_;
  }
  std::int64_t adds() const { return adds_; }
  std::atomic<int> flushes{0};
  std::atomic<bool> failed{false};

 private:
  void Run(const TestCluster& cluster, const std::string& name) {
    Client client = ConnectTo(cluster);
    const auto map = Open<BytesMap>(client, name);
    auto buffered = map.Buffered({.aggregation = Aggregation::kNode});
    while (!stop_) {
      for (int i = 0; i < kAddsPerFlush; ++i) buffered.Add("co-" + std::to_string(i), 1);
      RequireOk(buffered.Flush());
      adds_ += kAddsPerFlush;
      ++flushes;
    }
    if (buffered.counts().forwarded != buffered.counts().buffers) {
      failure_ = "not all were forwarded";
    }
  }

  std::atomic<bool> stop_{false};
  std::int64_t adds_ = 0;
  std::string failure_;
  std::thread thread_;
};

TEST_CASE("Clients killed while a daemon sends on for them count each add at most once",
          "[client][aggregation][fault]") {
  TestCluster cluster({.nodes = 4});
  cluster.WaitReady();
  Client client = ConnectTo(cluster);
  const auto map = Open<BytesMap>(client, "traffic");
  CoClient co_client(cluster, "traffic");
  constexpr int kKills = 12;
  for (int kill = 0; kill < kKills; ++kill) {
    const std::string id = "killed" + std::to_string(kill);
    Process victim({ProgramPath("traffic_client"), cluster.file(), id, "forwarded"}, {},
                   cluster.folder() + "/" + id);
    // At another moment of its round each time.
    const auto flushes_before = static_cast<std::size_t>(3 + 7 * kill);
    REQUIRE(WaitUntil([&] { return victim.Output().size() >= flushes_before; }));
    victim.Signal(SIGKILL);
    victim.Wait();
    const int flushed = static_cast<int>(victim.Output().size());
    const int beside = co_client.flushes;
    REQUIRE(WaitUntil([&] { return co_client.flushes > beside + 3 || co_client.failed; }));
    REQUIRE_FALSE(co_client.failed);
    // Reported adds are there. Adds of the following flush count at most once.
    for (int i = 0; i < (flushed + 2) * kAddsPerFlush; ++i) {
      const auto value = map.Get(id + "-" + std::to_string(i));
      const std::int64_t count = value.ok() ? value->AsI64() : 0;
      INFO(id << " add " << i << " of " << flushed << " flushes");
      if (i < flushed * kAddsPerFlush) {
        REQUIRE(count == 1);
      } else if (i < (flushed + 1) * kAddsPerFlush) {
        REQUIRE((count == 0 || count == 1));
      } else {
        REQUIRE(count == 0);
      }
    }
  }
  CHECK(co_client.End() == "");
  std::int64_t sum = 0;
  for (int i = 0; i < kAddsPerFlush; ++i) {
    const auto value = map.Get("co-" + std::to_string(i));
    RequireOk(value.status());
    sum += value->AsI64();
  }
  CHECK(sum == co_client.adds());
}

}  // namespace
}  // namespace tidepool::testing
