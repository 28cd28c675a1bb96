// Waiting for a key and for its change, against real daemons.
#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/client/sdk_fixture.h"

namespace tidepool::testing {
namespace {

using namespace std::chrono_literals;

TEST_CASE("A wait ends with the put of another client", "[wait]") {
  Client client = ConnectTo(Cluster());
  Client other = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "wait.put");
  const BytesMap theirs = Open<BytesMap>(other, "wait.put");
  std::thread writer([&] { RequireOk(theirs.Put("k", "v").status()); });
  const auto value = map.WaitForKey("k");
  writer.join();
  REQUIRE(value.ok());
  CHECK(value->bytes == "v");
  const auto there = map.WaitForKey("k", {.timeout = 5s});
  REQUIRE(there.ok());
  CHECK(there->bytes == "v");
}

TEST_CASE("A wait longer than one message to the daemon goes on", "[wait]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "wait.slices");
  Future<Value> waiter = map.WaitForKeyAsync("k", {.timeout = 30s});
  CHECK(waiter.Wait(1'500ms).code() == StatusCode::kDeadlineExceeded);  // A slice is a second.
  REQUIRE(map.Put("k", "late").ok());
  const auto value = waiter.Wait();
  REQUIRE(value.ok());
  CHECK(value->bytes == "late");
}

TEST_CASE("A wait for a change tells versions apart", "[wait]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "wait.change");
  const auto first = map.Put("k", "1");
  REQUIRE(first.ok());
  CHECK(map.WaitForChange("k", 0)->bytes == "1");
  CHECK(map.WaitForChange("k", *first, {.timeout = 20ms}).code() == StatusCode::kDeadlineExceeded);
  Future<Value> change = map.WaitForChangeAsync("k", *first);
  const auto second = map.Put("k", "2");
  REQUIRE(second.ok());
  CHECK(change.Wait()->version == *second);
  Future<Value> end = map.WaitForChangeAsync("k", *second);
  REQUIRE(map.Delete("k").ok());
  CHECK(end.Wait().code() == StatusCode::kNotFound);
}

TEST_CASE("A wait ends at its time", "[wait]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "wait.deadline");
  CHECK(map.WaitForKey("none", {.timeout = 30ms}).code() == StatusCode::kDeadlineExceeded);
}

// More waits than a session may leave unfinished frames: on the session of the other operations
// they would stop these.
TEST_CASE("Many waits hold up nothing else, and each ends", "[wait]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "wait.many", {.partitions = 1});
  constexpr int kWaits = 2'000;
  std::vector<Future<Value>> waits;
  for (int i = 0; i < kWaits; ++i) {
    waits.push_back(map.WaitForKeyAsync("k" + std::to_string(i), {.timeout = 60s}));
  }
  for (int i = 0; i < kWaits; ++i) {
    REQUIRE(map.Put("k" + std::to_string(i), std::to_string(i), {.timeout = 30s}).ok());
  }
  for (int i = 0; i < kWaits; ++i) {
    const auto value = waits[static_cast<std::size_t>(i)].Wait();
    REQUIRE(value.ok());
    CHECK(value->bytes == std::to_string(i));
  }
}

TEST_CASE("A wait ends with its namespace", "[wait]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "wait.drop");
  Future<Value> waiter = map.WaitForKeyAsync("k", {.timeout = 30s});
  CHECK(waiter.Wait(50ms).code() == StatusCode::kDeadlineExceeded);
  RequireOk(client.Drop("wait.drop"));
  const auto end = waiter.Wait();
  CHECK(end.code() == StatusCode::kNotFound);
  // The key was absent too, but that is not the reason of the end.
  CHECK(std::string(end.status().what()).find("dropped") != std::string::npos);
}

// A message asks for as many waits as there is credit. The rest have their turn in the next second.
TEST_CASE("Waits beyond the credit are asked in their turn", "[wait]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "wait.turns", {.partitions = 1});
  constexpr int kWaits = 3'000;
  std::vector<Future<Value>> waits;
  for (int i = 0; i < kWaits; ++i) {
    waits.push_back(map.WaitForKeyAsync("k" + std::to_string(i), {.timeout = 300s}));
  }
  REQUIRE(map.Put("k" + std::to_string(kWaits - 1), "last").ok());
  const auto last = waits.back().Wait(60s);
  REQUIRE(last.ok());
  CHECK(last->bytes == "last");
  for (int i = 0; i + 1 < kWaits; ++i) CHECK_FALSE(waits[static_cast<std::size_t>(i)].Ready());
}

TEST_CASE("Ordered and typed maps wait as well", "[wait]") {
  Client client = ConnectTo(Cluster());
  const auto map = Open<OrderedMap<int, std::string>>(client, "wait.ordered");
  auto waiter = map.WaitForKeyAsync(7);
  REQUIRE(map.Put(7, "seven").ok());
  const auto found = waiter.Wait();
  REQUIRE(found.ok());
  CHECK(found->value == "seven");
  CHECK(map.WaitForChange(7, found->version, {.timeout = 20ms}).code() ==
        StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace tidepool::testing
