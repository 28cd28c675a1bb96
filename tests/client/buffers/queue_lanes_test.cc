// Queues with lanes, and draining a queue where it lives.
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/client/sdk_fixture.h"
#include "tidepool/queue.h"
#include "tidepool/tidepool.h"
#include "tidepool/v1/cluster.pb.h"

namespace tidepool::testing {
namespace {

using namespace std::chrono_literals;

constexpr auto kWait = std::chrono::milliseconds(kPatienceMs);
constexpr std::uint32_t kLanes = 4;

// Two nodes with two cores each: a lane on each core.
struct Fixture {
  Fixture()
      : cluster({.nodes = 2, .cores = 2}), client((cluster.WaitReady(), ConnectTo(cluster))) {}

  // Each opening is a handle of its own, with the next lane.
  BytesQueue Handle(std::uint64_t capacity = 0) {
    return Open<BytesQueue>(client, "q", {.capacity = capacity, .lanes = kLanes});
  }

  TestCluster cluster;
  Client client;
};

TEST_CASE("Lanes are spread over the cores, and handles over the lanes", "[kinds]") {
  Fixture fixture;
  std::set<ItemId> lanes;
  for (std::uint32_t i = 0; i < kLanes; ++i) {
    const auto id = fixture.Handle().Push(std::to_string(i));
    RequireOk(id.status());
    lanes.insert(*id % kLanes);
  }
  CHECK(lanes.size() == kLanes);
  const auto infos = fixture.client.List();
  RequireOk(infos.status());
  for (const NamespaceInfo& info : *infos) {
    if (info.name == "q") CHECK(info.options.lanes == kLanes);
  }
  CHECK(fixture.Handle().Length()->ready == kLanes);
  CHECK(fixture.client.OpenOrCreate<BytesQueue>("q", {.lanes = 2}).code() ==
        StatusCode::kAlreadyExists);
}

TEST_CASE("What one handle pushes is in its order, for whoever pops it", "[kinds]") {
  Fixture fixture;
  constexpr int kItems = 3'000;
  const BytesQueue producer = fixture.Handle();
  std::vector<std::string> values;
  for (int i = 0; i < kItems; ++i) values.push_back(std::to_string(i));
  const std::vector<std::string_view> views(values.begin(), values.end());
  const PushBatch pushed = producer.MultiPush(views);
  RequireOk(pushed.FirstFailure());
  for (int i = 1; i < kItems; ++i) CHECK(pushed.id(i) == pushed.id(i - 1) + kLanes);
  const BytesQueue consumer = fixture.Handle();  // Has another lane.
  CHECK(consumer.Peek()->value == "0");
  CHECK(consumer.PeekMany(2)->size() == 2);
  CHECK(consumer.Pop()->value == "0");
  int next = 1;
  while (next < kItems) {
    const auto batch = consumer.PopMany(1'000);
    RequireOk(batch.status());
    REQUIRE(!batch->empty());
    for (const ItemBatch::View& item : *batch) REQUIRE(item.value == std::to_string(next++));
  }
  CHECK(consumer.Pop().code() == StatusCode::kNotFound);
  CHECK(consumer.PopMany(9)->empty());
  CHECK(consumer.Peek().code() == StatusCode::kNotFound);
}

TEST_CASE("Leases name their lane by the item's id", "[kinds]") {
  Fixture fixture;
  std::vector<ItemLease> leases;
  for (std::uint32_t i = 0; i < 2 * kLanes; ++i) {
    RequireOk(fixture.Handle().Push(std::to_string(i)).status());
  }
  const BytesQueue consumer = fixture.Handle();
  auto batch = consumer.PopMany(100, {.lease = 1h});
  RequireOk(batch.status());
  REQUIRE(batch->size() == 2 * kLanes);
  CHECK(consumer.Length()->leased == 2 * kLanes);
  leases = batch->leases();
  // Given back through a handle of another lane, and acked by a third.
  RequireOk(fixture.Handle().Nack(leases[0]));
  CHECK(fixture.Handle().Ack(leases[0]).code() == StatusCode::kFailedPrecondition);
  leases.erase(leases.begin());
  for (const Status& acked : fixture.Handle().MultiAck(leases)) CHECK(acked.ok());
  const auto again = consumer.Pop({.lease = 1h});
  RequireOk(again.status());
  CHECK(again->deliveries == 2);
  RequireOk(consumer.Ack(again->lease()));
  CHECK(consumer.Length()->ready + consumer.Length()->leased == 0);
}

TEST_CASE("Lanes share the capacity", "[kinds]") {
  Fixture fixture;
  std::uint64_t taken = 0;
  std::vector<BytesQueue> handles;
  for (std::uint32_t i = 0; i < kLanes; ++i) handles.push_back(fixture.Handle(10));
  for (const BytesQueue& handle : handles) {
    std::uint64_t here = 0;
    while (handle.Push("x").ok()) ++here;
    CHECK((here == 2 || here == 3));
    taken += here;
  }
  CHECK(taken == 10);
  Future<ItemId> waiting = handles[0].PushAsync("y", {.wait = kWait});
  CHECK(waiting.Wait(50ms).code() == StatusCode::kDeadlineExceeded);
  RequireOk(handles[0].Pop().status());
  RequireOk(waiting.Wait().status());
}

TEST_CASE("A pop that waits is woken by a push to any lane", "[kinds]") {
  Fixture fixture;
  Client other = ConnectTo(fixture.cluster);
  for (std::uint32_t i = 0; i < 2 * kLanes; ++i) {
    const BytesQueue consumer = fixture.Handle();
    std::string seen;
    std::thread waiter([&] {
      const auto item = consumer.Pop({.wait = kWait});
      seen = item.ok() ? item->value : item.status().ToString();
    });
    // Some of them wait by now, some not yet.
    if (i % 2 == 0) std::this_thread::sleep_for(100ms);
    const auto pushed = Open<BytesQueue>(other, "q", {.lanes = kLanes}).Push(std::to_string(i));
    waiter.join();
    RequireOk(pushed.status());
    CHECK(seen == std::to_string(i));
  }
  const auto begun = std::chrono::steady_clock::now();
  CHECK(fixture.Handle().Pop({.wait = 60ms}).code() == StatusCode::kDeadlineExceeded);
  CHECK(std::chrono::steady_clock::now() - begun >= 60ms);
  CHECK(fixture.Handle().PopMany(3, {.wait = 10ms}).code() == StatusCode::kDeadlineExceeded);
}

TEST_CASE("A lease that runs out wakes who waits, in whichever lane", "[kinds]") {
  Fixture fixture;
  const BytesQueue first = fixture.Handle();
  RequireOk(first.Push("a").status());
  RequireOk(first.Pop({.lease = 100ms}).status());
  const auto item = fixture.Handle().Pop({.lease = 1h, .wait = kWait});
  RequireOk(item.status());
  CHECK(item->value == "a");
  CHECK(item->deliveries == 2);
}

TEST_CASE("Nothing is lost or doubled in lanes, and each producer's order is kept", "[kinds]") {
  Fixture fixture;
  constexpr int kProducers = 4;
  constexpr int kConsumers = 3;
  constexpr int kItems = 1'500;  // Items of each.
  std::mutex mutex;
  std::set<std::string> seen;
  std::string failure;
  std::atomic<int> producing{kProducers};
  const auto fail = [&](const std::string& what) {
    const std::lock_guard lock(mutex);
    if (failure.empty()) failure = what;
  };
  fixture.Handle();
  std::vector<std::thread> threads;
  for (int p = 0; p < kProducers; ++p) {
    threads.emplace_back([&, p] {
      try {
        Client client = ConnectTo(fixture.cluster);
        const auto queue = Open<BytesQueue>(client, "q", {.lanes = kLanes});
        for (int i = 0; i < kItems; ++i) {
          RequireOk(queue.Push(std::to_string(p) + ":" + std::to_string(i)).status());
        }
      } catch (const std::exception& error) {
        fail(error.what());
      }
      --producing;
    });
  }
  for (int c = 0; c < kConsumers; ++c) {
    threads.emplace_back([&] {
      try {
        Client client = ConnectTo(fixture.cluster);
        const auto queue = Open<BytesQueue>(client, "q", {.lanes = kLanes});
        std::map<int, int> last;
        for (;;) {
          const bool final = producing == 0;
          const auto batch = queue.PopMany(5, {.wait = 200ms});
          if (batch.code() == StatusCode::kDeadlineExceeded) {
            if (final) return;
            continue;
          }
          RequireOk(batch.status());
          for (const ItemBatch::View& item : *batch) {
            const std::string value(item.value);
            const int producer = std::stoi(value);
            const int number = std::stoi(value.substr(value.find(':') + 1));
            if (last.contains(producer) && last[producer] >= number) fail("overtaken: " + value);
            last[producer] = number;
            const std::lock_guard lock(mutex);
            if (!seen.insert(value).second) failure = "seen twice: " + value;
          }
        }
      } catch (const std::exception& error) {
        fail(error.what());
      }
    });
  }
  // The lanes move to a node and back meanwhile.
  Status moved = fixture.client.Migrate("q", Home::Node(1));
  const Status back = fixture.client.Migrate("q", Home::Node(0));
  for (std::thread& thread : threads) thread.join();
  RequireOk(moved);
  RequireOk(back);
  CHECK(failure == "");
  CHECK(seen.size() == kProducers * kItems);
}

TEST_CASE("Lanes whose node is down are passed over", "[kinds]") {
  Fixture fixture;
  std::vector<BytesQueue> handles;
  for (std::uint32_t i = 0; i < kLanes; ++i) handles.push_back(fixture.Handle());
  for (const BytesQueue& handle : handles) RequireOk(handle.Push("x").status());
  const std::size_t down = fixture.cluster.node_id(0) == 1 ? 0 : 1;
  fixture.cluster.Kill(down);
  REQUIRE(fixture.cluster.WaitForNodeState(down, v1::NODE_STATE_DOWN));
  int found = 0;
  for (const BytesQueue& handle : handles) {
    // Operations sent before the client knows of it end unknown.
    StatusCode code = StatusCode::kUnknown;
    while (code == StatusCode::kUnknown) code = handle.Pop({.lease = 1h}).code();
    found += code == StatusCode::kOk ? 1 : 0;
  }
  CHECK(found == 2);
  CHECK(handles[0].Pop().code() == StatusCode::kUnavailable);
}

TEST_CASE("A lane that does not answer does not keep items of others back", "[kinds]") {
  // Its node is not taken for dead as long as the test lasts.
  TestCluster cluster({.nodes = 2, .cores = 1, .lease_ms = 60'000});
  cluster.WaitReady();
  Client client = ConnectTo(cluster);
  std::vector<BytesQueue> handles;
  for (std::uint32_t i = 0; i < kLanes; ++i) {
    handles.push_back(Open<BytesQueue>(client, "q", {.lanes = kLanes}));
  }
  // Lanes lie on the nodes in turn: of these handles two have their own on node 0.
  std::vector<std::size_t> there;
  for (std::size_t i = 0; i < kLanes; ++i) {
    const auto id = handles[i].Push("x");
    RequireOk(id.status());
    if (*id % kLanes % 2 == 0) there.push_back(i);
  }
  REQUIRE(there.size() == 2);
  const std::size_t stopped = cluster.node_id(0) == 1 ? 0 : 1;
  cluster.Suspend(stopped);
  const BytesQueue& queue = handles[there[0]];
  const Deadline sent = Deadline::AfterMs(kPatienceMs);
  RequireOk(queue.Pop({.timeout = kWait}).status());
  RequireOk(queue.Pop({.timeout = kWait}).status());  // From another lane.
  CHECK(queue.Pop({.wait = 100ms, .timeout = kWait}).code() == StatusCode::kDeadlineExceeded);
  CHECK_FALSE(sent.Passed());
  // No lane can prove that there are no more items.
  CHECK(queue.Pop({.timeout = 300ms}).code() == StatusCode::kDeadlineExceeded);
  cluster.Resume(stopped);
  RequireOk(queue.Pop({.timeout = kWait}).status());
  RequireOk(queue.Pop({.timeout = kWait}).status());
  CHECK(queue.Pop({.timeout = kWait}).code() == StatusCode::kNotFound);
}

TEST_CASE("What lanes are not for is refused", "[kinds]") {
  Fixture fixture;
  const auto code = [&](NamespaceKind kind, const NamespaceOptions& options) {
    return fixture.client.CreateNamespace("refused", kind, options).code();
  };
  CHECK(code(NamespaceKind::kPriority, {.lanes = 2}) == StatusCode::kInvalidArgument);
  CHECK(code(NamespaceKind::kHash, {.lanes = 2}) == StatusCode::kInvalidArgument);
  CHECK(code(NamespaceKind::kQueue, {.lanes = 65}) == StatusCode::kInvalidArgument);
  CHECK(code(NamespaceKind::kQueue, {.capacity = 3, .lanes = 4}) == StatusCode::kInvalidArgument);
  CHECK(fixture.Handle().PopAsync().Wait().code() == StatusCode::kUnimplemented);
  CHECK(fixture.Handle().PopManyAsync(3).Wait().code() == StatusCode::kUnimplemented);
}

// ---- DrainLocal. All daemons of a test are on its machine.

TEST_CASE("A drain takes what there is, or as much as was asked for", "[kinds]") {
  const std::uint32_t lanes = GENERATE(1u, kLanes);
  Fixture fixture;
  const auto queue = Open<BytesQueue>(fixture.client, "d", {.lanes = lanes});
  for (int i = 0; i < 3'000; ++i) {
    RequireOk(queue.Push(std::to_string(i) + std::string(100, ' ')).status());
  }
  int next = 0;
  const auto take = [&](const ItemBatch::View& item) {
    return std::stoi(std::string(item.value)) == next++;
  };
  CHECK(queue.DrainLocal(take, {.items_max = 10}).value() == 10);
  CHECK(queue.Length()->ready == 2'990);
  CHECK(queue.DrainLocal(take).value() == 2'990);
  CHECK(queue.Length()->ready + queue.Length()->leased == 0);
  CHECK(queue.DrainLocal(take).value() == 0);
}

TEST_CASE("A drain that is stopped leaves the rest in its order", "[kinds]") {
  Fixture fixture;
  const auto queue = Open<Queue<int>>(fixture.client, "d");
  for (int i = 0; i < 100; ++i) RequireOk(queue.Push(i).status());
  const auto taken = queue.DrainLocal([](const TypedItem<int>& item) { return item.value < 7; });
  RequireOk(taken.status());
  CHECK(*taken == 7);
  for (int i = 7; i < 100; ++i) REQUIRE(queue.Pop()->value == i);
}

TEST_CASE("Items whose lease ran out while they were taken are not counted", "[kinds]") {
  Fixture fixture;
  const auto queue = Open<BytesQueue>(fixture.client, "d");
  RequireOk(queue.Push("a").status());
  const auto taken = queue.DrainLocal(
      [&](const ItemBatch::View&) {
        // Another consumer gets it meanwhile.
        return queue.Pop({.lease = 1h, .wait = kWait}).ok();
      },
      {.lease = 50ms});
  RequireOk(taken.status());
  CHECK(*taken == 0);
  CHECK(queue.Length()->leased == 1);
}

TEST_CASE("A program that dies in a drain loses nothing", "[fault][kinds]") {
  Fixture fixture;
  constexpr int kItems = 2'000;
  const auto queue = Open<BytesQueue>(fixture.client, "d");
  for (int i = 0; i < kItems; ++i) RequireOk(queue.Push(std::to_string(i)).status());
  Process drainer({ProgramPath("queue_client"), fixture.cluster.file(), "d", "drain", "500"}, {},
                  fixture.cluster.folder() + "/drainer");
  REQUIRE(WaitUntil([&] { return drainer.Output().size() > 2'000; }));
  drainer.Signal(SIGKILL);
  drainer.Wait();
  std::set<int> taken;
  std::istringstream output(drainer.Output());
  for (std::string line; std::getline(output, line) && !output.eof();) {
    taken.insert(std::stoi(line));
  }
  std::set<int> rest;
  std::uint64_t again = 0;
  for (;;) {
    const auto batch = queue.PopMany(1'000, {.lease = 1h, .wait = 2s});
    if (batch.code() == StatusCode::kDeadlineExceeded) break;
    RequireOk(batch.status());
    for (const ItemBatch::View& item : *batch) {
      const int value = std::stoi(std::string(item.value));
      CHECK(rest.insert(value).second);
      again += taken.contains(value) ? 1 : 0;
      if (taken.contains(value)) CHECK(item.deliveries == 2);
    }
  }
  for (int i = 0; i < kItems; ++i) CHECK((taken.contains(i) || rest.contains(i)));
  CHECK(!rest.empty());
  // Items of a single message: their acks were under way.
  CHECK(again < static_cast<std::uint64_t>(kItems));
}

}  // namespace
}  // namespace tidepool::testing
