// Buffered handles of queues against a real daemon: order, refusals item by item, broken
// connections.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/client/sdk_fixture.h"
#include "tests/support/random.h"

namespace tidepool::testing {
namespace {

using namespace std::chrono_literals;

// The values of all items, popped.
template <typename Handle>
std::vector<std::string> PopAll(const Handle& queue) {
  std::vector<std::string> values;
  for (;;) {
    const auto batch = queue.PopMany(1'000);
    RequireOk(batch.status());
    if (batch->empty()) return values;
    for (const ItemBatch::View& item : *batch) values.emplace_back(item.value);
  }
}

// The queue holds 0 to count - 1 and nothing else; takes them.
void RequireNumbersInOrder(const Queue<std::uint64_t>& queue, std::uint64_t count) {
  CHECK(queue.Length()->ready == count);
  std::uint64_t next = 0;
  while (next < count) {
    const auto batch = queue.PopMany(1'000);
    RequireOk(batch.status());
    REQUIRE(!batch->empty());
    for (std::size_t i = 0; i < batch->size(); ++i)
      REQUIRE(batch->value(i).value_or(~0ull) == next++);
  }
}

TEST_CASE("BufferedPushesAreAllThereInTheirOrder", "[kinds]") {
  Client client = ConnectTo(Cluster());
  const auto queue = Open<Queue<std::uint64_t>>(client, "buffered-pushes");
  auto buffered = queue.Buffered();
  constexpr std::uint64_t kCount = 20'000;
  for (std::uint64_t i = 0; i < kCount; ++i) buffered.Push(i);
  RequireOk(buffered.Flush());
  CHECK(buffered.pending() == 0);
  CHECK(buffered.counts().operations == kCount);
  CHECK(buffered.counts().buffers == (kCount + 1'023) / 1'024);
  RequireNumbersInOrder(queue, kCount);
}

// Values of all sizes: in lists, alone because no list takes them, and streamed.
TEST_CASE("BufferedItemsOfAnySizeKeepTheirOrder", "[kinds]") {
  Client client = ConnectTo(Cluster());
  const auto queue = Open<BytesQueue>(client, "buffered-sizes");
  test::Random random("BufferedItemsOfAnySizeKeepTheirOrder");
  auto buffered = queue.Buffered({.operations_max = 50});
  std::vector<std::string> model;
  for (int i = 0; i < 2'000; ++i) {
    const std::size_t sizes[] = {0, random.Below(100), random.Below(3'000), 32'756, 32'757, 32'768};
    const std::size_t size = random.OneIn(400)
                                 ? 200'000
                                 : sizes[random.OneIn(20) ? 3 + random.Below(3) : random.Below(3)];
    model.push_back(std::string(size, static_cast<char>('a' + random.Below(26))));
    buffered.Push(
        model.back(),
        {.ttl = random.OneIn(10) ? std::optional<std::chrono::milliseconds>(std::chrono::hours(1))
                                 : std::nullopt});
  }
  RequireOk(buffered.Flush());
  CHECK(PopAll(queue) == model);
}

TEST_CASE("BufferedPushesByPriorityComeLeastFirst", "[kinds]") {
  Client client = ConnectTo(Cluster());
  const auto queue = Open<PriorityQueue<std::uint32_t>>(client, "buffered-priorities");
  auto buffered = queue.Buffered({.operations_max = 100});
  constexpr std::uint32_t kCount = 3'000;
  for (std::uint32_t i = 0; i < kCount; ++i) buffered.Push(i % 7, i);
  RequireOk(buffered.Flush());
  const auto items = queue.PopMany(kCount);
  RequireOk(items.status());
  REQUIRE(items->size() == kCount);
  for (std::size_t i = 1; i < kCount; ++i) {
    REQUIRE(items->priority(i - 1) <= items->priority(i));
    const bool equal = items->priority(i - 1) == items->priority(i);
    if (equal) REQUIRE(items->value(i - 1).value_or(0) < items->value(i).value_or(0));
  }
}

// With its header in a list it exceeds the bound, so it goes alone.
TEST_CASE("AnItemOf32KiBThatIsRefusedComesBack", "[kinds]") {
  Client client = ConnectTo(Cluster());
  const auto queue = Open<BytesQueue>(client, "buffered-32-kib", {.capacity = 1});
  auto buffered = queue.Buffered();
  buffered.Push("first");
  REQUIRE(buffered.Flush().ok());
  const std::string largest(32 * 1024, 'l');
  buffered.Push(largest);
  buffered.Push(largest + "x");
  CHECK(buffered.Flush().code() == StatusCode::kResourceExhausted);
  REQUIRE(buffered.failures().size() == 2);
  CHECK(buffered.failures()[0].key == largest);
  CHECK(buffered.failures()[1].key.empty());
}

TEST_CASE("AFullQueueRefusesBufferedPushesItemByItem", "[kinds]") {
  Client client = ConnectTo(Cluster());
  const auto queue = Open<BytesQueue>(client, "buffered-full", {.capacity = 100});
  auto buffered = queue.Buffered({.operations_max = 64});
  for (int i = 0; i < 150; ++i) buffered.Push("v" + std::to_string(i));
  const Status full = buffered.Flush();
  INFO(full.ToString());
  CHECK(full.code() == StatusCode::kResourceExhausted);
  CHECK(full.ToString().find("50 buffered operations failed") != std::string::npos);
  CHECK(full.ToString().find("full") != std::string::npos);
  REQUIRE(buffered.failures().size() == 50);
  for (std::size_t i = 0; i < 50; ++i) {
    const BufferedFailure& failure = buffered.failures()[i];
    CHECK(failure.item == 100 + i);
    CHECK(failure.key == "v" + std::to_string(100 + i));
    CHECK(failure.status.code() == StatusCode::kResourceExhausted);
  }
  CHECK(buffered.counts().failed == 50);
  CHECK(PopAll(queue).size() == 100);
  // Returned items are pushed again, and numbers start at the beginning.
  const std::vector<BufferedFailure> again = buffered.failures();
  for (const BufferedFailure& failure : again) buffered.Push(failure.key);
  for (int i = 0; i < 60; ++i) buffered.Push(std::string(100, 'x'));
  CHECK(buffered.Flush().code() == StatusCode::kResourceExhausted);
  REQUIRE(buffered.failures().size() == 10);
  CHECK(buffered.failures()[0].item == 100);
  const std::vector<std::string> values = PopAll(queue);
  REQUIRE(values.size() == 100);
  for (std::size_t i = 0; i < 50; ++i) CHECK(values[i] == again[i].key);
}

// A large value is a call of its own, and counts in the numbers all the same.
TEST_CASE("ALargeBufferedItemIsRefusedByItsNumber", "[kinds]") {
  Client client = ConnectTo(Cluster());
  const auto queue = Open<BytesQueue>(client, "buffered-large", {.capacity = 2});
  auto buffered = queue.Buffered();
  buffered.Push("a");
  buffered.Push("b");
  buffered.Push(std::string(100'000, 'c'));
  buffered.Push("d");
  CHECK(buffered.Flush().code() == StatusCode::kResourceExhausted);
  REQUIRE(buffered.failures().size() == 2);
  CHECK(buffered.failures()[0].item == 2);
  CHECK(buffered.failures()[0].key.empty());
  CHECK(buffered.failures()[1].item == 3);
  CHECK(buffered.failures()[1].key == "d");
}

TEST_CASE("ABufferedHandleKeepsToItsLane", "[kinds]") {
  Client client = ConnectTo(Cluster());
  const NamespaceOptions two_lanes{.lanes = 2};
  std::vector<BytesQueue> queues;
  for (int i = 0; i < 2; ++i)
    queues.push_back(Open<BytesQueue>(client, "buffered-lanes", two_lanes));
  std::vector<BufferedBytesQueue> buffered;
  // Whatever is asked for: nothing of it is forwarded.
  for (const BytesQueue& queue : queues) {
    buffered.push_back(queue.Buffered({.aggregation = Aggregation::kNode, .operations_max = 100}));
  }
  constexpr int kItems = 2'000;
  for (int i = 0; i < kItems; ++i) {
    buffered[0].Push("a" + std::to_string(i));
    buffered[1].Push("b" + std::to_string(i));
  }
  for (BufferedBytesQueue& each : buffered) {
    RequireOk(each.Flush());
    CHECK(each.counts().forwarded == 0);
  }
  // Each lane has the items of a single handle, in their order.
  for (int lane = 0; lane < 2; ++lane) {
    const auto batch = queues[static_cast<std::size_t>(lane)].PopMany(kItems);
    RequireOk(batch.status());
    REQUIRE(batch->size() == kItems);
    for (int i = 0; i < kItems; ++i) {
      REQUIRE((*batch)[static_cast<std::size_t>(i)].value ==
              (lane == 0 ? "a" : "b") + std::to_string(i));
    }
  }
}

TEST_CASE("BufferedItemsExpireAsTheirPushSays", "[kinds]") {
  Client client = ConnectTo(Cluster());
  const auto queue = Open<BytesQueue>(client, "buffered-ttl");
  auto buffered = queue.Buffered();
  for (int i = 0; i < 20; ++i) {
    buffered.Push(std::to_string(i),
                  {.ttl = std::chrono::milliseconds(i % 2 == 0 ? 1 : 3'600'000)});
  }
  RequireOk(buffered.Flush());
  CHECK(WaitUntil([&] { return queue.Peek().value_or(Item{}).value == "1"; }));
  const std::vector<std::string> values = PopAll(queue);
  REQUIRE(values.size() == 10);
  for (std::size_t i = 0; i < values.size(); ++i) CHECK(values[i] == std::to_string(2 * i + 1));
}

TEST_CASE("ADroppedQueueFailsWhatIsBuffered", "[kinds]") {
  Client client = ConnectTo(Cluster());
  const auto queue = Open<BytesQueue>(client, "buffered-dropped");
  auto buffered = queue.Buffered();
  buffered.Push("a");
  RequireOk(buffered.Flush());
  RequireOk(client.Drop("buffered-dropped"));
  buffered.Push("b");
  buffered.Push("c");
  CHECK(buffered.Flush().code() == StatusCode::kNotFound);
  REQUIRE(buffered.failures().size() == 2);
  CHECK(buffered.failures()[1].item == 1);
  CHECK(buffered.failures()[1].key == "c");
}

// The connections of this process that are up, to whomever, end as by a network that lets go.
int BreakConnections() {
  int broken = 0;
  for (int fd = 3; fd < 1'024; ++fd) {
    sockaddr_storage peer{};
    socklen_t bytes = sizeof peer;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &bytes) != 0) continue;
    if (peer.ss_family != AF_INET && peer.ss_family != AF_INET6 && peer.ss_family != AF_UNIX) {
      continue;
    }
    broken += shutdown(fd, SHUT_RDWR) == 0 ? 1 : 0;
  }
  return broken;
}

TEST_CASE("BrokenConnectionsLoseDoubleAndReorderNoBufferedPush", "[kinds][fault]") {
  const auto transport = GENERATE(Transport::kUcx, Transport::kRing);
  ConnectOptions options;
  options.transport = transport;
  Client client = ConnectTo(Cluster(), options);
  const auto queue = Open<Queue<std::uint64_t>>(
      client, transport == Transport::kUcx ? "buffered-broken" : "buffered-broken-ring");
  auto buffered = queue.Buffered({.timeout = 60s, .operations_max = 100});
  constexpr std::uint64_t kCount = 50'000;
  int broken = 0;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    buffered.Push(i);
    // Some buffers are under way. The daemon's answers about them are not read before.
    if (i % 5'000 == 4'321) broken += BreakConnections();
  }
  RequireOk(buffered.Flush());
  CHECK(broken >= 10);
  CHECK(client.Stats().frames_resent >= 5);
  CHECK(client.Stats().operations_unknown == 0);
  RequireNumbersInOrder(queue, kCount);
}

}  // namespace
}  // namespace tidepool::testing
