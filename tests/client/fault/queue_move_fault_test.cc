// Interrupted moves of queues: by the death of the target, the owner, a consumer or the caller, by
// a silent coordinator, or by a lack of memory. In the end one node serves, with all items, or
// reports its losses.
#include <grpcpp/channel.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "proto/convert/grpc_status.h"
#include "tests/client/api/queue_workers.h"
#include "tests/client/sdk_fixture.h"
#include "tests/support/random.h"
#include "tidepool/tidepool.h"
#include "tidepool/v1/cluster.pb.h"
#include "tidepool/v1/namespaces.grpc.pb.h"

namespace tidepool::testing {
namespace {

using namespace std::chrono_literals;

constexpr auto kWait = std::chrono::milliseconds(kPatienceMs);
// With this number a move lasts some 100 ms here; kMoveUs is longer.
constexpr int kItems = 4'000;
constexpr std::size_t kItemBytes = 12'000;
constexpr std::uint64_t kMoveUs = 400'000;

std::string ValueOf(int i) {
  std::string value = std::to_string(i) + ":";
  value.resize(kItemBytes, 'v');
  return value;
}

struct Fixture {
  // `memory_of_rest`: of all nodes but the first, which then surely is NodeId 0.
  explicit Fixture(TestClusterOptions options = {.nodes = 3, .cores = 1, .memory = "256MiB"},
                   const std::string& memory_of_rest = "")
      : cluster(std::move(options)), client(Begin(memory_of_rest)) {
    for (std::size_t i = 0; i < cluster.size(); ++i) index_of[cluster.node_id(i)] = i;
  }

  Client Begin(const std::string& memory_of_rest) {
    if (!memory_of_rest.empty()) {
      cluster.Start(0);
      REQUIRE(WaitUntil([&] { return access(cluster.file().c_str(), R_OK) == 0; }));
      for (std::size_t i = 1; i < cluster.size(); ++i) {
        cluster.Start(i, {"--memory=" + memory_of_rest});
      }
    }
    cluster.WaitReady();
    return ConnectTo(cluster);
  }

  // The queue on its home, full.
  BytesQueue Fill(std::uint32_t home, int items = kItems) {
    const auto queue = Open<BytesQueue>(client, "q", {.home = Home::Node(home)});
    for (int first = 0; first < items; first += 100) {
      std::vector<std::string> values;
      for (int i = first; i < first + 100; ++i) values.push_back(ValueOf(i));
      const std::vector<std::string_view> views(values.begin(), values.end());
      RequireOk(queue.MultiPush(views).FirstFailure());
    }
    return queue;
  }
  // A move by gRPC: the first message of progress is there when this returns.
  struct Move {
    grpc::ClientContext call;
    std::unique_ptr<v1::Namespaces::Stub> stub;
    std::unique_ptr<grpc::ClientReader<v1::MigrateNamespaceProgress>> reader;
    v1::MigrateNamespaceProgress progress;

    Status End() {
      while (reader->Read(&progress)) {
      }
      return convert::FromGrpc(reader->Finish(), "the daemon");
    }
  };
  std::unique_ptr<Move> Start(std::uint32_t asked, std::uint32_t to, std::uint64_t hold_ms = 0) {
    auto move = std::make_unique<Move>();
    cluster.Prepare(&move->call, kPatienceMs);
    move->stub = v1::Namespaces::NewStub(cluster.channel(index_of.at(asked)));
    v1::MigrateNamespaceRequest request;
    request.set_name("q");
    request.set_node(std::to_string(to));
    request.set_hold_ms(hold_ms);
    move->reader = move->stub->Migrate(&move->call, request);
    return move;
  }
  // All that was filled in is there, in its order, once, whoever serves it.
  void ExpectAll(const BytesQueue& queue, int items = kItems) {
    int next = 0;
    while (next < items) {
      const auto batch = queue.PopMany(1'000, {.wait = kWait, .timeout = kWait});
      RequireOk(batch.status());
      for (const ItemBatch::View& item : *batch) REQUIRE(item.value == ValueOf(next++));
    }
    CHECK(queue.Pop().code() == StatusCode::kNotFound);
    RequireOk(queue.Push("goes on").status());
    CHECK(queue.Pop()->value == "goes on");
  }
  std::uint32_t HomeNow() {
    grpc::ClientContext call;
    cluster.Prepare(&call);
    v1::DescribeNamespaceRequest request;
    request.set_name("q");
    v1::DescribeNamespaceResponse response;
    REQUIRE(v1::Namespaces::NewStub(cluster.channel(index_of.at(0)))
                ->Describe(&call, request, &response)
                .ok());
    return response.namespace_().partitions(0).node_id();
  }

  TestCluster cluster;
  Client client;
  std::map<std::uint32_t, std::size_t> index_of;  // NodeId -> index.
};

TEST_CASE("The target dies in the middle, and the owner serves on", "[fault][kinds]") {
  Fixture fixture;
  const BytesQueue queue = fixture.Fill(1);
  fixture.cluster.Suspend(fixture.index_of[2]);
  auto move = fixture.Start(1, 2);
  // Operations that are held back by then continue at the owner.
  Future<ItemId> held = queue.PushAsync("held", {.timeout = kWait});
  CHECK(held.Wait(100ms).ok());  // Nothing is held back before the target is ready.
  fixture.cluster.Kill(fixture.index_of[2]);
  CHECK_FALSE(move->End().ok());
  CHECK(fixture.HomeNow() == 1);
  for (int i = 0; i < kItems; ++i) REQUIRE(queue.Pop()->value == ValueOf(i));
  CHECK(queue.Pop()->value == "held");
}

TEST_CASE("The target is killed at any moment, and nothing is lost in silence", "[fault][kinds]") {
  test::Random random("The target is killed at any moment");
  for (int round = 0; round < 5; ++round) {
    Fixture fixture;
    const BytesQueue queue = fixture.Fill(1);
    auto move = fixture.Start(1, 2);
    // Copying has begun, or is over.
    if (random.OneIn(2)) move->reader->Read(&move->progress);
    std::this_thread::sleep_for(std::chrono::microseconds(random.Below(kMoveUs)));
    fixture.cluster.Kill(fixture.index_of[2]);
    const Status end = move->End();
    const std::uint32_t home = fixture.HomeNow();
    UNSCOPED_INFO("round " << round << ": home " << home << ", " << end.ToString());
    if (home == 1) {
      CHECK_FALSE(end.ok());
      fixture.ExpectAll(queue);
    } else {
      // It was the target's before it died, as everything else that it held.
      CHECK(WaitUntil([&] { return queue.Pop().code() == StatusCode::kUnavailable; }));
      fixture.cluster.Start(fixture.index_of[2]);
      CHECK(WaitUntil([&] { return queue.Pop().code() == StatusCode::kDataLoss; }));
    }
  }
}

TEST_CASE("The owner is killed at any moment, and the target has all or nothing",
          "[fault][kinds]") {
  test::Random random("The owner is killed at any moment");
  for (int round = 0; round < 5; ++round) {
    Fixture fixture;
    const BytesQueue queue = fixture.Fill(1);
    auto move = fixture.Start(0, 2);
    if (random.OneIn(2)) move->reader->Read(&move->progress);
    std::this_thread::sleep_for(std::chrono::microseconds(random.Below(kMoveUs)));
    fixture.cluster.Kill(fixture.index_of[1]);
    (void)move->End();
    // Until the map has settled: the target may still be asking.
    REQUIRE(fixture.cluster.WaitForNodeState(fixture.index_of[1], v1::NODE_STATE_DOWN));
    const std::uint32_t home = fixture.HomeNow();
    UNSCOPED_INFO("round " << round << ": home " << home);
    if (home == 2) {
      // A client that does not know the old owner: changes sent there end unknown.
      Client fresh = ConnectTo(fixture.cluster);
      fixture.ExpectAll(Open<BytesQueue>(fresh, "q"));
    } else {
      CHECK(WaitUntil([&] { return queue.Pop().code() == StatusCode::kUnavailable; }));
      fixture.cluster.Start(fixture.index_of[1]);
      CHECK(WaitUntil([&] { return queue.Pop().code() == StatusCode::kDataLoss; }));
      CHECK(fixture.HomeNow() == 1);
    }
  }
}

TEST_CASE("A coordinator that does not answer decides when it is back", "[fault][kinds]") {
  Fixture fixture;
  const BytesQueue queue = fixture.Fill(1, 100);
  fixture.cluster.Suspend(fixture.index_of[0]);
  auto move = fixture.Start(1, 2, 1'000);
  // All is sent. Waits longer than operations may be held back, so that both owner and target ask.
  REQUIRE(move->reader->Read(&move->progress));
  CHECK(queue.Push("early", {.timeout = 6s}).code() != StatusCode::kOk);
  fixture.cluster.Resume(fixture.index_of[0]);
  (void)move->End();
  int next = 0;
  while (next < 100) {
    const auto item = queue.Pop({.timeout = kWait});
    RequireOk(item.status());
    REQUIRE(item->value == ValueOf(next++));
  }
  // The item of an unknown push may be there, once.
  const auto rest = queue.PopMany(9, {.timeout = kWait});
  RequireOk(rest.status());
  CHECK(rest->size() <= 1);
  RequireOk(queue.Push("goes on", {.timeout = kWait}).status());
}

TEST_CASE("A target without memory for it refuses it", "[fault][kinds]") {
  // Node 0, which begins the cluster, has more memory.
  Fixture fixture({.nodes = 2, .cores = 1, .memory = "256MiB", .start = false}, "64MiB");
  const BytesQueue queue = fixture.Fill(0, 6'000);  // 72 MB.
  const Status refused = fixture.client.Migrate("q", Home::Node(1));
  CHECK(refused.code() == StatusCode::kResourceExhausted);
  CHECK(fixture.HomeNow() == 0);
  fixture.ExpectAll(queue, 6'000);
  // Memory that the move had taken is free again.
  const BytesQueue small = fixture.Fill(0, 1'000);
  RequireOk(fixture.client.Migrate("q", Home::Node(1)));
  fixture.ExpectAll(small, 1'000);
}

TEST_CASE("A move that takes longer than it may is given up", "[fault][kinds]") {
  Fixture fixture;
  const BytesQueue queue = fixture.Fill(1, 8'000);
  const Status end = fixture.client.Migrate("q", Home::Node(2), 1ms);
  CHECK(end.code() == StatusCode::kDeadlineExceeded);
  CHECK(fixture.HomeNow() == 1);
  fixture.ExpectAll(queue, 8'000);
}

TEST_CASE("A move ends by itself when its caller has gone", "[fault][kinds]") {
  Fixture fixture;
  const BytesQueue queue = fixture.Fill(1);
  auto move = fixture.Start(0, 2);
  move->reader->Read(&move->progress);
  move->call.TryCancel();
  (void)move->End();
  CHECK(WaitUntil([&] { return fixture.HomeNow() == 2; }));
  fixture.ExpectAll(queue);
}

TEST_CASE("A move whose owner has stopped does not keep its caller for ever", "[fault][kinds]") {
  Fixture fixture;
  const BytesQueue queue = fixture.Fill(1, 100);
  // Node 0 then has a connection to it; a new connection would take too long.
  RequireOk(fixture.Start(0, 2)->End());
  RequireOk(fixture.Start(0, 1)->End());
  fixture.cluster.Suspend(fixture.index_of[1]);
  auto move = fixture.Start(0, 2);
  const Status end = move->End();
  fixture.cluster.Resume(fixture.index_of[1]);
  // Not the patience of the test.
  CHECK(end.code() == StatusCode::kUnknown);
  CHECK(WaitUntil([&] { return queue.Length({.timeout = kWait}).ok(); }));
  fixture.ExpectAll(queue, 100);
}

TEMPLATE_TEST_CASE("Workers are killed with leases while their queue moves, and every item is done",
                   "[fault][kinds]", BytesQueue, BytesPriorityQueue) {
  constexpr int kJobs = 300;
  Fixture fixture;
  const auto queue = Open<TestType>(fixture.client, "q", {.home = Home::Node(0)});
  for (int i = 0; i < kJobs; ++i) RequireOk(PushTo(queue, std::to_string(i)).status());
  QueueWorkers workers(fixture.cluster, "q", "500", 3);
  const auto left = [&] {
    const auto length = queue.Length({.timeout = kWait});
    RequireOk(length.status());
    return length->ready + length->leased;
  };
  int kills = 0;
  for (std::uint32_t move = 1; left() > 0 && move < 200; ++move) {
    RequireOk(fixture.client.Migrate("q", Home::Node(move % 3)));
    if (move % 4 == 0) workers.KillAndReplace(kills++ % 3);
  }
  REQUIRE(WaitUntil([&] { return left() == 0; }));
  // A kill may come after the ack of an item and before its line: at most one item per kill.
  CHECK(workers.End() >= kJobs - kills - 3);
}

}  // namespace
}  // namespace tidepool::testing
