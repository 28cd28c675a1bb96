// Consumers and producers of queues that are stopped and killed. No item is lost.
#include <grpcpp/channel.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/client/api/queue_workers.h"
#include "tests/client/sdk_fixture.h"
#include "tidepool/tidepool.h"
#include "tidepool/v1/cluster.grpc.pb.h"

namespace tidepool::testing {
namespace {

using namespace std::chrono_literals;

struct Fixture {
  Fixture() : cluster({.nodes = 1}), client((cluster.WaitReady(), ConnectTo(cluster))) {}

  std::unique_ptr<Process> Run(const std::string& name, const std::string& what,
                               const std::string& lease_ms = "0") {
    const std::string stem = cluster.folder() + "/queue-client-" + std::to_string(started++);
    return std::make_unique<Process>(
        std::vector<std::string>{ProgramPath("queue_client"), cluster.file(), name, what, lease_ms},
        std::vector<std::string>{}, stem);
  }
  // Starts a consumer that waits in the daemon: the daemon has seen more of it than its connection.
  std::unique_ptr<Process> RunWaiting(const std::string& name, const std::string& lease_ms) {
    const std::uint64_t before = Frames();
    auto process = Run(name, "pop", lease_ms);
    REQUIRE(WaitUntil([&] { return LinesOf(*process).size() == 1; }));
    // A pop that found no item, and a pop that waits.
    REQUIRE(WaitUntil([&] { return Frames() >= before + 2; }));
    return process;
  }
  std::uint64_t Frames() {
    grpc::ClientContext call;
    cluster.Prepare(&call);
    v1::NodeStatusResponse status;
    const auto asked = v1::Cluster::NewStub(cluster.channel(0))->NodeStatus(&call, {}, &status);
    REQUIRE(asked.ok());
    std::uint64_t frames = 0;
    for (const v1::CoreStatus& core : status.cores()) frames += core.frames();
    return frames;
  }

  TestCluster cluster;
  Client client;
  int started = 0;
};

TEMPLATE_TEST_CASE("An item leased by a consumer that is killed goes to the next", "[fault][kinds]",
                   BytesQueue, BytesPriorityQueue) {
  Fixture fixture;
  const auto queue = Open<TestType>(fixture.client, "q");
  RequireOk(PushTo(queue, "a").status());
  RequireOk(PushTo(queue, "b").status());
  auto consumer = fixture.Run("q", "pop", "400");
  REQUIRE(WaitUntil([&] { return LinesOf(*consumer).size() == 3; }));
  consumer->Signal(SIGKILL);
  consumer->Wait();
  for (const char* value : {"a", "b"}) {
    const auto item = queue.Pop({.lease = 1h, .wait = 60s});
    RequireOk(item.status());
    CHECK(item->value == value);
    CHECK(item->deliveries >= 2);
    RequireOk(queue.Ack(item->lease()));
  }
}

TEMPLATE_TEST_CASE("Items pass consumers by that were killed while they waited", "[fault][kinds]",
                   BytesQueue, BytesPriorityQueue) {
  Fixture fixture;
  const auto queue = Open<TestType>(fixture.client, "q");
  for (int round = 0; round < 5; ++round) {
    auto dead = fixture.RunWaiting("q", "0");
    dead->Signal(SIGKILL);
    dead->Wait();
    // Its connection breaks with its end, and later items go to other consumers.
    auto living = fixture.RunWaiting("q", "0");
    const std::string value = std::to_string(round);
    RequireOk(PushTo(queue, value).status());
    const bool served = WaitUntil([&] { return LinesOf(*living).size() == 2; });
    INFO("round " << round);
    REQUIRE(served);
    CHECK(LinesOf(*living)[1] == value);
    living->Signal(SIGKILL);
    living->Wait();
  }
}

TEMPLATE_TEST_CASE("An item given to a stopped consumer under a lease comes back", "[fault][kinds]",
                   BytesQueue, BytesPriorityQueue) {
  Fixture fixture;
  const auto queue = Open<TestType>(fixture.client, "q");
  auto stopped = fixture.RunWaiting("q", "300");
  stopped->Signal(SIGSTOP);
  RequireOk(PushTo(queue, "a").status());
  const auto item = queue.Pop({.lease = 1h, .wait = 60s});
  RequireOk(item.status());
  CHECK(item->value == "a");
  RequireOk(queue.Ack(item->lease()));
  stopped->Signal(SIGCONT);
  RequireOk(PushTo(queue, "b").status());
  CHECK(WaitUntil([&] {
    const auto lines = LinesOf(*stopped);
    return std::find(lines.begin(), lines.end(), "b") != lines.end();
  }));
}

TEST_CASE("A consumer that goes on after a stop gets what was given to it", "[fault][kinds]") {
  Fixture fixture;
  const BytesQueue queue = Open<BytesQueue>(fixture.client, "q");
  auto stopped = fixture.RunWaiting("q", "0");
  stopped->Signal(SIGSTOP);
  RequireOk(queue.Push("a").status());
  stopped->Signal(SIGCONT);
  CHECK(WaitUntil([&] { return LinesOf(*stopped).size() == 2; }));
  CHECK(queue.Pop().code() == StatusCode::kNotFound);
}

TEMPLATE_TEST_CASE("Workers killed again and again leave every item done once", "[fault][kinds]",
                   BytesQueue, BytesPriorityQueue) {
  constexpr int kItems = 400;
  constexpr int kWorkers = 3;
  Fixture fixture;
  const auto queue = Open<TestType>(fixture.client, "q");
  for (int i = 0; i < kItems; ++i) RequireOk(PushTo(queue, std::to_string(i)).status());
  QueueWorkers workers(fixture.cluster, "q", "300", kWorkers);
  const auto left = [&] {
    const auto length = queue.Length();
    RequireOk(length.status());
    return length->ready + length->leased;
  };
  for (int kill = 0; kill < 12 && left() > 0; ++kill) {
    const int victim = kill % kWorkers;
    const std::size_t lines = workers.LinesWritten(victim);
    const auto goes_on = [&] { return workers.LinesWritten(victim) > lines + 3 || left() == 0; };
    if (!WaitUntil(goes_on)) break;
    workers.KillAndReplace(victim);
  }
  REQUIRE(WaitUntil([&] { return left() == 0; }));
  // A kill may come after the ack of an item and before its line: at most one item per kill.
  CHECK(workers.End() >= kItems - 12 - kWorkers);
}

TEST_CASE("What a killed producer was told is there, in its order", "[fault][kinds]") {
  Fixture fixture;
  const BytesQueue queue = Open<BytesQueue>(fixture.client, "q", {.capacity = 300});
  auto producer = fixture.Run("q", "push");
  // It waits for room in the end, and is killed there or on the way.
  REQUIRE(WaitUntil([&] { return LinesOf(*producer).size() > 100; }));
  producer->Signal(SIGKILL);
  producer->Wait();
  const std::size_t told = LinesOf(*producer).size();
  const auto items = queue.PopMany(1000);
  RequireOk(items.status());
  CHECK(items->size() >= told);
  CHECK(items->size() <= told + 1);
  for (std::size_t i = 0; i < items->size(); ++i) CHECK((*items)[i].value == std::to_string(i));
  CHECK(queue.Push("next").ok());
}

// The numbers of all items that are there, which it takes.
template <typename Handle>
void TakeNumbers(const Handle& queue, std::vector<int>* numbers) {
  for (;;) {
    const auto items = queue.PopMany(1'000);
    RequireOk(items.status());
    if (items->empty()) return;
    for (const ItemBatch::View& item : *items) {
      numbers->push_back(std::stoi(std::string(item.value)));
    }
  }
}

TEMPLATE_TEST_CASE("Of a producer killed in the middle of buffered pushes a prefix has come",
                   "[fault][kinds]", BytesQueue, BytesPriorityQueue) {
  constexpr int kKills = 20;
  struct Round {
    TestType queue;
    int told = 0;
    std::vector<int> numbers;
  };
  Fixture fixture;
  std::vector<Round> rounds;
  for (int kill = 0; kill < kKills; ++kill) {
    const std::string name = "q" + std::to_string(kill);
    Round round{Open<TestType>(fixture.client, name), 0, {}};
    auto producer = fixture.Run(name, "push-buffered");
    // At another moment of its flush each time: as many items as the queue may hold by then.
    const auto items = static_cast<std::uint64_t>(1'000 + 337 * kill);
    REQUIRE(WaitUntil([&] { return round.queue.Length().value_or(QueueLength{}).ready > items; }));
    producer->Signal(SIGKILL);
    producer->Wait();
    INFO(producer->Errors());
    const std::vector<std::string> lines = LinesOf(*producer);
    if (!lines.empty()) round.told = std::stoi(lines.back());
    TakeNumbers(round.queue, &round.numbers);
    rounds.push_back(std::move(round));
  }
  std::size_t in_mid_flush = 0;
  for (Round& round : rounds) {
    // Items that were still on their way when their sender had gone.
    TakeNumbers(round.queue, &round.numbers);
    std::vector<int> prefix(round.numbers.size());
    std::iota(prefix.begin(), prefix.end(), 0);
    CHECK(round.numbers == prefix);
    CHECK(prefix.size() >= static_cast<std::size_t>(round.told));
    in_mid_flush += prefix.size() % 1'000 != 0 ? 1 : 0;
    RequireOk(PushTo(round.queue, "next").status());
  }
  CHECK(in_mid_flush > 0);
}

// Their last answers take more of the daemon's heap than it keeps, so their sessions end. They have
// these answers and only attach again.
TEST_CASE("Idle consumers with large last answers go on later as if nothing had been",
          "[fault][kinds]") {
  constexpr std::size_t kConsumers = 48;
  constexpr std::size_t kPops = 16;  // Under way at once, of two items each: 960 kB.
  const bool background_progress = GENERATE(false, true);
  TestCluster cluster({.nodes = 1, .cores = 1, .memory = "256MiB"});  // It keeps 32 MiB.
  cluster.WaitReady();
  Client client = ConnectTo(cluster);
  const auto queue = Open<BytesQueue>(client, "q");
  const std::string value(30'000, 'v');
  auto buffered = queue.Buffered();
  for (std::size_t i = 0; i < kConsumers * (2 * kPops + 1); ++i) buffered.Push(value);
  RequireOk(buffered.Flush());
  std::vector<Client> clients;
  std::vector<BytesQueue> consumers;
  for (std::size_t i = 0; i < kConsumers; ++i) {
    clients.push_back(ConnectTo(cluster, {.background_progress = background_progress}));
    consumers.push_back(Open<BytesQueue>(clients.back(), "q"));
    std::vector<Future<ItemBatch>> pops;
    for (std::size_t pop = 0; pop < kPops; ++pop) {
      pops.push_back(consumers.back().PopManyAsync(2));
    }
    for (Future<ItemBatch>& pop : pops) {
      const auto items = pop.Wait();
      RequireOk(items.status());
      REQUIRE(items->size() == 2);
    }
  }
  std::uint64_t attached_anew = 0;
  for (std::size_t i = 0; i < kConsumers; ++i) {
    const std::uint64_t before = clients[i].Stats().attaches;
    const auto item = consumers[i].Pop();
    INFO("consumer " << i << ": " << item.status().ToString());
    REQUIRE(item.ok());
    attached_anew += clients[i].Stats().attaches - before;
    CHECK(clients[i].Stats().operations_unknown == 0);
  }
  CHECK(attached_anew > 0);
  CHECK(queue.Length()->ready == 0);
}

TEST_CASE("A daemon that comes back without its items says so", "[fault][kinds]") {
  Fixture fixture;
  const BytesQueue queue = Open<BytesQueue>(fixture.client, "q");
  const BytesQueue careless =
      Open<BytesQueue>(fixture.client, "careless", {.on_loss = OnLoss::kEmpty});
  for (const BytesQueue& each : {queue, careless}) RequireOk(each.Push("a").status());
  const auto lost = careless.Pop({.lease = 1h});
  RequireOk(lost.status());
  Future<Item> waiter = Open<BytesQueue>(fixture.client, "idle").PopAsync({.wait = 60s});
  CHECK(waiter.Wait(50ms).code() == StatusCode::kDeadlineExceeded);
  fixture.cluster.Kill(0);
  fixture.cluster.Start(0);
  fixture.cluster.WaitReady();
  // The outcome is unknown: an item could have been on the way.
  CHECK(waiter.Wait().code() == StatusCode::kUnknown);
  CHECK(WaitUntil([&] { return queue.Pop().code() == StatusCode::kDataLoss; }));
  CHECK(WaitUntil([&] { return careless.Pop().code() == StatusCode::kNotFound; }));
  // New items have other names, so a consumer of a lost item cannot ack another consumer's item.
  RequireOk(careless.Push("b").status());
  const auto next = careless.Pop({.lease = 1h});
  RequireOk(next.status());
  CHECK(next->deliveries == lost->deliveries);
  CHECK(next->id > lost->id);
  CHECK(careless.Ack(lost->lease()).code() == StatusCode::kNotFound);
  RequireOk(careless.Ack(next->lease()));
}

TEST_CASE("Who waits for room in vain hears so, however late the first answer comes",
          "[fault][kinds]") {
  Fixture fixture;
  const BytesQueue queue = Open<BytesQueue>(fixture.client, "q", {.capacity = 1});
  RequireOk(queue.Push("a").status());
  fixture.cluster.process(0).Signal(SIGSTOP);
  std::thread later([&] {
    std::this_thread::sleep_for(100ms);
    fixture.cluster.process(0).Signal(SIGCONT);
  });
  const std::vector<std::string_view> items{"b", "c"};
  const PushBatch pushed = queue.MultiPush(items, {.wait = 1ms});
  later.join();
  CHECK(pushed.FirstFailure().code() == StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace tidepool::testing
