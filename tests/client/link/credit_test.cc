// Flow control: outstanding operations and bytes never exceed the grant, whatever the caller does.
#include <catch2/catch.hpp>
#include <map>

#include "proto/base/limits.h"
#include "tests/client/fake_daemon.h"

namespace tidepool::testing {
namespace {

struct Outstanding {
  std::size_t operations = 0;
  std::size_t request_bytes = 0;
  std::size_t reply_bytes = 0;
  std::size_t operations_most = 0;
  std::size_t request_bytes_most = 0;
  std::size_t reply_bytes_most = 0;

  void Add(const ReceivedFrame& frame) {
    operations += frame.request.operations.size();
    request_bytes += frame.bytes.size();
    reply_bytes += frame.header.reply_bytes_max;
    operations_most = std::max(operations_most, operations);
    request_bytes_most = std::max(request_bytes_most, request_bytes);
    reply_bytes_most = std::max(reply_bytes_most, reply_bytes);
  }
  void Remove(const ReceivedFrame& frame) {
    operations -= frame.request.operations.size();
    request_bytes -= frame.bytes.size();
    reply_bytes -= frame.header.reply_bytes_max;
  }
};

// Lets the client send all that it may, answers the oldest frame, and repeats until nothing is
// left.
Outstanding Run(FakeCluster& cluster, const std::shared_ptr<internal::Engine>& engine,
                std::string_view value) {
  Outstanding outstanding;
  std::deque<std::shared_ptr<ReceivedFrame>> held;
  for (;;) {
    cluster.Settle(engine);
    while (cluster.request_count() > 0) {
      held.push_back(cluster.TakeRequest());
      outstanding.Add(*held.back());
    }
    if (held.empty()) return outstanding;
    outstanding.Remove(*held.front());
    cluster.AnswerAll(*held.front(), value);
    held.pop_front();
  }
}

TEST_CASE("Operations outstanding stay within the grant", "[client][credit]") {
  FakeCluster cluster({.partitions = 2, .credit_operations = 8, .credit_bytes = 128 * 1024});
  const auto engine = cluster.Connect();
  const BytesMap map = cluster.Open(engine);
  std::vector<Future<Version>> puts;
  for (int i = 0; i < 100; ++i) puts.push_back(map.PutAsync("key" + std::to_string(i), "v"));
  const Outstanding outstanding = Run(cluster, engine, {});
  CHECK(outstanding.operations_most <= 8);
  CHECK(outstanding.operations_most >= 4);
  for (auto& put : puts) CHECK(put.Wait().ok());
}

TEST_CASE("Request bytes outstanding stay within the grant", "[client][credit]") {
  FakeCluster cluster({.partitions = 2, .credit_operations = 256, .credit_bytes = 128 * 1024});
  const auto engine = cluster.Connect();
  const BytesMap map = cluster.Open(engine);
  const std::string value(20'000, 'v');
  std::vector<Future<Version>> puts;
  for (int i = 0; i < 50; ++i) puts.push_back(map.PutAsync("key" + std::to_string(i), value));
  const Outstanding outstanding = Run(cluster, engine, {});
  CHECK(outstanding.request_bytes_most <= 128 * 1024);
  CHECK(outstanding.request_bytes_most > 64 * 1024);
  for (auto& put : puts) CHECK(put.Wait().ok());
}

TEST_CASE("Allowances for answers stay within the grant, also when values grow",
          "[client][credit]") {
  FakeCluster cluster({.partitions = 2, .credit_operations = 256, .credit_bytes = 128 * 1024});
  const auto engine = cluster.Connect();
  const BytesMap map = cluster.Open(engine);
  std::vector<Future<Value>> gets;
  for (int i = 0; i < 60; ++i) gets.push_back(map.GetAsync("key" + std::to_string(i)));
  // 900 B do not exceed the room of an answer's entry here.
  const Outstanding outstanding = Run(cluster, engine, std::string(900, 'v'));
  CHECK(outstanding.reply_bytes_most <= 128 * 1024);
  for (auto& get : gets) CHECK(get.Wait().ok());
}

TEST_CASE("A lone get allows for a value far larger than expected", "[client][credit]") {
  FakeCluster cluster;
  const auto engine = cluster.Connect();
  const BytesMap map = cluster.Open(engine);
  auto get = map.GetAsync("key");
  REQUIRE(cluster.Pump(engine, [&] { return cluster.request_count() == 1; }));
  CHECK(cluster.TakeRequest()->header.reply_bytes_max > limits::kUnstreamedValueBytesMax);
}

TEST_CASE("At most so many frames are unfinished as the daemon keeps answers for",
          "[client][credit]") {
  // The first frame is never answered. All other frames are answered at once.
  FakeCluster cluster({.partitions = 2});
  const auto engine = cluster.Connect();
  const BytesMap map = cluster.Open(engine);
  auto slow = map.PutAsync("slow", "1");
  REQUIRE(cluster.Pump(engine, [&] { return cluster.request_count() == 1; }));
  const auto first = cluster.TakeRequest();
  cluster.Auto();
  for (std::uint64_t i = 1; i < limits::kFramesUnfinishedMax; ++i) {
    REQUIRE(map.Put("key", "1").ok());
  }
  cluster.SetAuto(false);
  auto waiting = map.PutAsync("key", "2");
  cluster.Settle(engine);
  CHECK(cluster.request_count() == 0);
  cluster.AnswerAll(*first);
  REQUIRE(cluster.Pump(engine, [&] { return cluster.request_count() == 1; }));
  CHECK(slow.Wait().ok());
}

}  // namespace
}  // namespace tidepool::testing
