// Hash namespaces that move from node to node while programs change them, also when a node dies
// during the move. Each acknowledged change counts once, and one node serves in the end.
#include <grpcpp/channel.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "proto/convert/grpc_status.h"
#include "tests/client/sdk_fixture.h"
#include "tidepool/tidepool.h"
#include "tidepool/v1/cluster.pb.h"
#include "tidepool/v1/namespaces.grpc.pb.h"

namespace tidepool::testing {
namespace {

using namespace std::chrono_literals;

constexpr auto kWait = std::chrono::milliseconds(kPatienceMs);
constexpr int kCounters = 64;
constexpr int kWriters = 3;
constexpr std::size_t kValueBytes = 4'000;

std::string CounterOf(int i) { return "counter" + std::to_string(i); }
std::string KeyOf(int i) { return "key" + std::to_string(i); }
std::string ValueOf(int i, std::size_t bytes = kValueBytes) {
  std::string value = std::to_string(i) + ":";
  value.resize(bytes, static_cast<char>('a' + i % 26));
  return value;
}

// Adds to counters until it is stopped, and knows the bounds of each counter.
class Writers {
 public:
  explicit Writers(BytesMap map, std::chrono::milliseconds timeout = kWait)
      : map_(std::move(map)), timeout_(timeout) {
    for (int i = 0; i < kWriters; ++i) threads_.emplace_back([this, i] { Run(i); });
  }
  ~Writers() { Stop(); }
  void Stop() {
    stopping_ = true;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  std::uint64_t acknowledged() const { return acknowledged_; }
  std::uint64_t failed() const { return failed_; }
  std::string failure() {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  std::chrono::microseconds longest() const { return std::chrono::microseconds(longest_us_); }
  // REQUIRES: Stop was called. The counters have all acknowledged adds, and some or all unknown
  // adds.
  void ExpectCounted() {
    for (int i = 0; i < kCounters; ++i) {
      const auto value = map_.FetchAdd(CounterOf(i), 0, {.timeout = kWait});
      INFO(CounterOf(i) << ": " << value.status().ToString());
      REQUIRE(value.ok());
      REQUIRE(*value >= added_[i].load());
      REQUIRE(*value <= added_[i].load() + unknown_[i].load());
    }
  }

 private:
  void Run(int writer) {
    std::uint64_t n = static_cast<std::uint64_t>(writer);
    while (!stopping_) {
      const int i = static_cast<int>((n += 7) % kCounters);
      const auto begin = std::chrono::steady_clock::now();
      const auto added = map_.FetchAdd(CounterOf(i), 1, {.timeout = timeout_});
      const auto took = std::chrono::duration_cast<std::chrono::microseconds>(
          std::chrono::steady_clock::now() - begin);
      if (added.ok()) {
        ++added_[i];
        ++acknowledged_;
        if (took.count() > longest_us_) longest_us_ = took.count();
        continue;
      }
      ++failed_;
      if (added.code() == StatusCode::kUnknown) ++unknown_[i];
      {
        const std::lock_guard lock(mutex_);
        if (failure_.empty()) failure_ = added.status().ToString();
      }
      std::this_thread::sleep_for(1ms);
    }
  }

  const BytesMap map_;
  const std::chrono::milliseconds timeout_;
  std::atomic<bool> stopping_{false};
  std::atomic<std::int64_t> added_[kCounters] = {};
  std::atomic<std::int64_t> unknown_[kCounters] = {};
  std::atomic<std::uint64_t> acknowledged_{0};
  std::atomic<std::uint64_t> failed_{0};
  std::atomic<std::int64_t> longest_us_{0};
  std::mutex mutex_;
  std::string failure_;
  std::vector<std::thread> threads_;
};

struct Fixture {
  explicit Fixture(TestClusterOptions options = {.nodes = 3, .cores = 1, .memory = "256MiB"},
                   const std::string& memory_of_rest = "")
      : cluster(std::move(options)), client(Begin(memory_of_rest)) {
    for (std::size_t i = 0; i < cluster.size(); ++i) index_of[cluster.node_id(i)] = i;
  }
  // The first daemon starts first, so it is surely NodeId 0: the coordinator.
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
  BytesMap Fill(std::uint32_t home, int records, NamespaceOptions options = {}) {
    options.home = Home::Node(home);
    const auto map = Open<BytesMap>(client, "m", options);
    for (int first = 0; first < records; first += 100) {
      std::vector<std::string> keys;
      std::vector<std::string> values;
      for (int i = first; i < std::min(first + 100, records); ++i) {
        keys.push_back(KeyOf(i));
        values.push_back(ValueOf(i));
      }
      std::vector<KeyValue> batch;
      for (std::size_t i = 0; i < keys.size(); ++i) batch.push_back({keys[i], values[i]});
      RequireOk(map.MultiPut(batch).FirstFailure());
    }
    return map;
  }
  void ExpectFilled(const BytesMap& map, int records) {
    for (int i = 0; i < records; ++i) {
      const auto value = map.Get(KeyOf(i), {.timeout = kWait});
      INFO(KeyOf(i) << ": " << value.status().ToString());
      REQUIRE(value.ok());
      REQUIRE(value->bytes == ValueOf(i));
    }
  }

  struct Move {
    grpc::ClientContext call;
    std::unique_ptr<v1::Namespaces::Stub> stub;
    std::unique_ptr<grpc::ClientReader<v1::MigrateNamespaceProgress>> reader;
    v1::MigrateNamespaceProgress progress;

    // Until records are on their way.
    bool Begun() {
      while (reader->Read(&progress)) {
        if (progress.entries_done() > 0) return true;
      }
      return false;
    }
    Status End() {
      while (reader->Read(&progress)) {
      }
      return convert::FromGrpc(reader->Finish(), "the daemon");
    }
  };
  std::unique_ptr<Move> Start(std::uint32_t asked, std::uint32_t to, int from = -1,
                              const std::string& name = "m") {
    auto move = std::make_unique<Move>();
    cluster.Prepare(&move->call, 3 * kPatienceMs);
    move->stub = v1::Namespaces::NewStub(cluster.channel(index_of.at(asked)));
    v1::MigrateNamespaceRequest request;
    request.set_name(name);
    request.set_node(std::to_string(to));
    if (from >= 0) request.set_from_node(static_cast<std::uint32_t>(from));
    move->reader = move->stub->Migrate(&move->call, request);
    return move;
  }
  // Partitions by node.
  std::map<std::uint32_t, int> Homes(const std::string& name = "m") {
    grpc::ClientContext call;
    cluster.Prepare(&call);
    v1::DescribeNamespaceRequest request;
    request.set_name(name);
    v1::DescribeNamespaceResponse response;
    REQUIRE(v1::Namespaces::NewStub(cluster.channel(index_of.at(0)))
                ->Describe(&call, request, &response)
                .ok());
    std::map<std::uint32_t, int> homes;
    for (const auto& partition : response.namespace_().partitions()) ++homes[partition.node_id()];
    return homes;
  }

  TestCluster cluster;
  Client client;
  std::map<std::uint32_t, std::size_t> index_of;  // NodeId -> index.
};

void MoveUnderLoad(const TestClusterOptions& options) {
  Fixture fixture(options);
  constexpr int kRecords = 2'000;
  const BytesMap map = fixture.Fill(1, kRecords);
  Writers writers(map);
  for (const std::uint32_t to : {2u, 0u, 1u, 2u}) {
    const Status moved = fixture.Start(0, to)->End();
    INFO(moved.ToString());
    REQUIRE(moved.ok());
    CHECK(fixture.Homes().size() == 1);
    CHECK(fixture.Homes().contains(to));
  }
  // The move continues at the last partition.
  const std::uint64_t before = writers.acknowledged();
  CHECK(WaitUntil([&] { return writers.acknowledged() > before + 100; }));
  writers.Stop();
  INFO(writers.failure());
  CHECK(writers.failed() == 0);
  WARN(writers.acknowledged() << " changes, the longest " << writers.longest().count() << " us");
  writers.ExpectCounted();
  fixture.ExpectFilled(map, kRecords);
}

TEST_CASE("A hash namespace moves under load, and each change counts once", "[copies]") {
  MoveUnderLoad({.nodes = 3, .cores = 1, .memory = "256MiB"});
}

TEST_CASE("The same over UCX, with two cores", "[copies]") {
  MoveUnderLoad({.nodes = 3, .cores = 2, .memory = "256MiB", .flags = {"--transport=ucx"}});
}

TEST_CASE("Values of all sizes, expiry and deletes move", "[copies]") {
  Fixture fixture;
  const BytesMap map = fixture.Fill(1, 10);
  const std::vector<std::size_t> sizes = {0,       1,         300,       32'768,    32'769,
                                          100'000, 1'000'000, 1'048'576, 1'048'577, 3'000'000};
  int i = 1'000;
  for (const std::size_t bytes : sizes) {
    RequireOk(
        map.Put(KeyOf(i), ValueOf(i, std::max<std::size_t>(bytes, 8)).substr(0, bytes)).status());
    ++i;
  }
  RequireOk(map.Put("stays", "a", {.ttl = 1h}).status());
  RequireOk(map.Put("goes", "a", {.ttl = 50ms}).status());
  RequireOk(map.Delete(KeyOf(3)));
  std::atomic<bool> stop{false};
  // Large values change while they are copied.
  std::thread writer([&] {
    for (int n = 0; !stop; ++n) {
      (void)map.Put("changing", ValueOf(n, n % 2 == 0 ? 2'000'000 : 60'000), {.timeout = kWait});
      (void)map.Append("growing", "x", {.timeout = kWait});
    }
  });
  const Status moved = fixture.Start(0, 2)->End();
  stop = true;
  writer.join();
  INFO(moved.ToString());
  REQUIRE(moved.ok());
  i = 1'000;
  for (const std::size_t bytes : sizes) {
    const auto value = map.Get(KeyOf(i));
    RequireOk(value.status());
    CHECK(value->bytes == ValueOf(i, std::max<std::size_t>(bytes, 8)).substr(0, bytes));
    ++i;
  }
  CHECK(map.Get(KeyOf(3)).code() == StatusCode::kNotFound);
  const auto left = map.Ttl("stays");
  RequireOk(left.status());
  CHECK(WaitUntil([&] { return map.Get("goes").code() == StatusCode::kNotFound; }));
  RequireOk(map.Get("changing").status());
}

TEST_CASE("The target dies in the middle, and the owner serves on", "[copies]") {
  Fixture fixture;
  // A partition that takes longer than the first report of progress, so it has not moved yet.
  constexpr int kRecords = 25'000;
  const BytesMap map = fixture.Fill(1, kRecords, {.partitions = 1});
  Writers writers(map);
  auto move = fixture.Start(0, 2);
  REQUIRE(move->Begun());
  fixture.cluster.Kill(fixture.index_of[2]);
  const Status ended = move->End();
  CHECK_FALSE(ended.ok());
  // Partitions that moved before are lost with the target. The rest are served.
  const auto homes = fixture.Homes();
  INFO("moved before: " << (homes.contains(2) ? homes.at(2) : 0));
  if (!homes.contains(2)) {
    const std::uint64_t before = writers.acknowledged();
    CHECK(WaitUntil([&] { return writers.acknowledged() > before + 100; }));
    writers.Stop();
    INFO(writers.failure());
    CHECK(writers.failed() == 0);
    writers.ExpectCounted();
    fixture.ExpectFilled(map, kRecords);
  }
  // The node comes back as another process and takes it.
  writers.Stop();
  fixture.cluster.Start(fixture.index_of[2]);
  fixture.cluster.WaitReady();
  REQUIRE(fixture.cluster.WaitForNodeState(fixture.index_of[2], v1::NODE_STATE_UP));
  const Status again = fixture.Start(0, 2)->End();
  INFO(again.ToString());
  CHECK(again.ok());
}

TEST_CASE("The owner dies in the middle: it is down as without a move", "[copies]") {
  Fixture fixture;
  const BytesMap map = fixture.Fill(1, 10'000);
  auto move = fixture.Start(0, 2);
  REQUIRE(move->Begun());
  const auto before = fixture.Homes();
  fixture.cluster.Kill(fixture.index_of[1]);
  CHECK_FALSE(move->End().ok());
  const auto homes = fixture.Homes();
  REQUIRE(homes.contains(1));
  REQUIRE(fixture.cluster.WaitForNodeState(fixture.index_of[1], v1::NODE_STATE_DOWN));
  fixture.cluster.Start(fixture.index_of[1]);
  REQUIRE(fixture.cluster.WaitForNodeState(fixture.index_of[1], v1::NODE_STATE_UP));
  // No node serves half of a copy: the owner's data is reported as lost.
  bool told = false;
  for (int i = 0; i < 200 && !told; ++i) {
    told = map.Get(KeyOf(i), {.timeout = kWait}).code() == StatusCode::kDataLoss;
  }
  CHECK(told);
  {
    grpc::ClientContext call;
    fixture.cluster.Prepare(&call);
    v1::AcceptLossRequest request;
    request.set_name("m");
    v1::AcceptLossResponse response;
    REQUIRE(v1::Namespaces::NewStub(fixture.cluster.channel(fixture.index_of[0]))
                ->AcceptLoss(&call, request, &response)
                .ok());
  }
  // The client hears of it with its next map.
  REQUIRE(WaitUntil([&] { return map.Put("new", "1", {.timeout = kWait}).ok(); }));
  const Status moved = fixture.Start(0, 2, 1)->End();
  INFO(moved.ToString());
  CHECK(moved.ok());
  CHECK(map.Get("new", {.timeout = kWait})->bytes == "1");
}

TEST_CASE("The coordinator dies in the middle, and the move ends when it is back", "[copies]") {
  Fixture fixture({.nodes = 3, .cores = 1, .memory = "256MiB", .start = false}, "256MiB");
  constexpr int kRecords = 10'000;
  const BytesMap map = fixture.Fill(1, kRecords);
  Writers writers(map);
  auto move = fixture.Start(1, 2);  // Asked is the owner.
  REQUIRE(move->Begun());
  fixture.cluster.Kill(fixture.index_of[0]);
  // The groups of a partition may be held back until the coordinator is there again.
  fixture.cluster.Start(fixture.index_of[0]);
  const Status moved = move->End();
  const std::uint64_t before = writers.acknowledged();
  CHECK(WaitUntil([&] { return writers.acknowledged() > before + 100; }));
  INFO(moved.ToString());
  writers.Stop();
  INFO(writers.failure());
  CHECK(writers.failed() == 0);
  writers.ExpectCounted();
  fixture.ExpectFilled(map, kRecords);
  fixture.cluster.WaitReady();
  if (!moved.ok()) {
    const Status again = fixture.Start(1, 2)->End();
    INFO(again.ToString());
    REQUIRE(again.ok());
  }
  CHECK(fixture.Homes() == std::map<std::uint32_t, int>{{2, fixture.Homes().at(2)}});
}

TEST_CASE("A move is cancelled, and can be asked for again", "[copies]") {
  Fixture fixture;
  constexpr int kRecords = 10'000;
  const BytesMap map = fixture.Fill(1, kRecords);
  Writers writers(map);
  auto move = fixture.Start(0, 2);
  REQUIRE(move->Begun());
  move->call.TryCancel();
  CHECK_FALSE(move->End().ok());
  const std::uint64_t before = writers.acknowledged();
  CHECK(WaitUntil([&] { return writers.acknowledged() > before + 100; }));
  Status again;
  REQUIRE(WaitUntil([&] { return (again = fixture.Start(0, 2)->End()).ok(); }));
  writers.Stop();
  INFO(writers.failure());
  CHECK(writers.failed() == 0);
  writers.ExpectCounted();
  fixture.ExpectFilled(map, kRecords);
}

TEST_CASE("A target that fills up ends the move, and the owner serves on", "[copies]") {
  Fixture fixture({.nodes = 3, .cores = 1, .memory = "256MiB", .start = false}, "64MiB");
  constexpr int kRecords = 25'000;  // 100 MB.
  const BytesMap map = fixture.Fill(0, kRecords, {.partitions = 1});
  Writers writers(map);
  const Status moved = fixture.Start(0, 1)->End();
  CHECK(moved.code() == StatusCode::kResourceExhausted);
  CHECK(moved.ToString().find("no memory on node 1") != std::string::npos);
  writers.Stop();
  CHECK(writers.failed() == 0);
  writers.ExpectCounted();
  fixture.ExpectFilled(map, kRecords);
  CHECK(fixture.Homes() == std::map<std::uint32_t, int>{{0, 1}});
}

TEST_CASE("What cannot move is refused by name", "[copies]") {
  Fixture fixture;
  (void)fixture.Fill(1, 10);
  CHECK(fixture.Start(0, 9)->End().code() == StatusCode::kInvalidArgument);
  CHECK(fixture.Start(0, 2, 9)->End().code() == StatusCode::kInvalidArgument);
  CHECK(fixture.Start(0, 2, -1, "nothing")->End().code() == StatusCode::kNotFound);
  (void)Open<BytesMap>(fixture.client, "sighted",
                       {.expected_items = 1'000, .prefilter = Prefilter::kAdmit});
  const Status refused = fixture.Start(0, 2, -1, "sighted")->End();
  CHECK(refused.code() == StatusCode::kUnimplemented);
  CHECK(refused.ToString().find("prefilter admit") != std::string::npos);
  // All of it is there already.
  CHECK(fixture.Start(0, 1)->End().ok());
}

}  // namespace
}  // namespace tidepool::testing
