// Namespaces with replicas on real daemons and a real etcd: what is answered outlives the owner.
#include <grpcpp/channel.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "proto/convert/grpc_status.h"
#include "tests/client/sdk_fixture.h"
#include "tests/integration/etcd_harness.h"
#include "tests/integration/harness.h"
#include "tidepool/v1/cluster.grpc.pb.h"

namespace tidepool::testing {
namespace {

using std::chrono::milliseconds;
using SteadyTime = std::chrono::steady_clock;
using Map = HashMap<std::string, std::int64_t>;

constexpr std::uint32_t kNodes = 3;
constexpr std::uint32_t kLeaseMs = 2000;
constexpr int kKeysOfWriter = 24;

TestClusterOptions OnSharedEtcd() {
  TestClusterOptions options;
  options.nodes = kNodes;
  options.lease_ms = kLeaseMs;
  options.store = "etcd";
  options.etcd = TestEtcd::Shared().endpoints();
  return options;
}

NamespaceOptions WithCopies(std::uint32_t replicas = 2) {
  NamespaceOptions options;
  options.replicas = replicas;
  options.partitions = 12;
  return options;
}

double MsSince(SteadyTime::time_point begin) {
  return std::chrono::duration<double, std::milli>(SteadyTime::now() - begin).count();
}

v1::NamespaceMap MapOf(TestCluster* cluster, std::size_t asked, const std::string& name) {
  grpc::ClientContext call;
  cluster->Prepare(&call);
  v1::GetMapResponse response;
  if (!v1::Cluster::NewStub(cluster->channel(asked))
           ->GetMap(&call, v1::GetMapRequest(), &response)
           .ok()) {
    return {};
  }
  for (const auto& space : response.map().namespaces()) {
    if (space.name() == name) return space;
  }
  return {};
}

// Each partition is served, and has a copy in sync on another node.
bool IsWhole(TestCluster* cluster, std::size_t asked, const std::string& name) {
  const v1::NamespaceMap space = MapOf(cluster, asked, name);
  for (const v1::Partition& partition : space.partitions()) {
    if (partition.state() != v1::PARTITION_STATE_ACTIVE || partition.copies_size() != 1 ||
        !partition.copies(0).in_sync() || partition.copies(0).node_id() == partition.node_id()) {
      return false;
    }
  }
  return space.partitions_size() > 0;
}

void WaitWhole(TestCluster* cluster, std::size_t asked, const std::string& name) {
  const auto begin = SteadyTime::now();
  const bool whole = WaitUntil([&] { return IsWhole(cluster, asked, name); });
  INFO(MapOf(cluster, asked, name).DebugString());
  REQUIRE(whole);
  INFO("whole after " << MsSince(begin) << " ms");
}

// Counts up in keys of its own until it is stopped. A key's value lies between what was answered
// last and what was sent last.
class Writer {
 public:
  Writer(const TestCluster& cluster, int number, const std::string& name)
      : client_(ConnectTo(cluster)), map_(Open<Map>(client_, name, WithCopies())) {
    for (int i = 0; i < kKeysOfWriter; ++i) {
      keys_.push_back("w" + std::to_string(number) + "-" + std::to_string(i));
    }
    thread_ = std::thread([this] { Run(); });
  }
  ~Writer() { Stop(); }

  void Stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  std::uint64_t answered() const { return answered_.load(); }
  std::uint64_t unknown() const { return unknown_.load(); }
  // The longest time that a key was not answered.
  double longest_ms() const { return longest_ms_.load(); }
  void ForgetLongest() { longest_ms_ = 0; }
  const std::string& failure() const { return failure_; }

  // After Stop: each key against its bounds. Empty: all is there.
  std::string Check() {
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      const auto got = map_.Get(keys_[i]);
      const std::int64_t value = got.ok() ? *got : 0;
      if (!got.ok() && got.code() != StatusCode::kNotFound) return got.status().ToString();
      if (value < low_[i] || value > high_[i]) {
        return keys_[i] + " is " + std::to_string(value) + ", not " + std::to_string(low_[i]) +
               ".." + std::to_string(high_[i]);
      }
    }
    return {};
  }

 private:
  void Run() {
    low_.resize(keys_.size());
    high_.resize(keys_.size());
    std::vector<SteadyTime::time_point> last(keys_.size(), SteadyTime::now());
    for (std::size_t i = 0; !stop_ && failure_.empty(); i = (i + 1) % keys_.size()) {
      const std::int64_t next = high_[i] + 1;
      high_[i] = next;
      const Status put = map_.Put(keys_[i], next, {.timeout = milliseconds(5'000)}).status();
      if (put.ok()) {
        low_[i] = next;
        ++answered_;
        const auto read = map_.Get(keys_[i], {.timeout = milliseconds(5'000)});
        if (read.ok() && *read != next) failure_ = keys_[i] + " has another value than was put";
        const double ms = MsSince(last[i]);
        if (ms > longest_ms_) longest_ms_ = ms;
        last[i] = SteadyTime::now();
      } else if (put.code() == StatusCode::kUnknown) {
        ++unknown_;
      } else if (put.code() != StatusCode::kUnavailable &&
                 put.code() != StatusCode::kDeadlineExceeded) {
        failure_ = put.ToString();
      }
    }
  }

  Client client_;
  Map map_;
  std::vector<std::string> keys_;
  std::vector<std::int64_t> low_;   // Answered.
  std::vector<std::int64_t> high_;  // Sent.
  std::atomic<bool> stop_{false};
  std::atomic<std::uint64_t> answered_{0};
  std::atomic<std::uint64_t> unknown_{0};
  std::atomic<double> longest_ms_{0};
  std::string failure_;
  std::thread thread_;
};

void KillRounds(int rounds) {
  TestCluster cluster(OnSharedEtcd());
  cluster.WaitReady();
  std::vector<std::unique_ptr<Writer>> writers;
  for (int i = 0; i < 3; ++i) writers.push_back(std::make_unique<Writer>(cluster, i, "kept"));
  std::uint64_t unknown = 0;
  for (int round = 0; round < rounds; ++round) {
    INFO("round " << round);
    const std::size_t victim = static_cast<std::size_t>(round) % kNodes;
    const std::size_t asked = (victim + 1) % kNodes;
    WaitWhole(&cluster, asked, "kept");
    const std::uint64_t before = writers[0]->answered();
    REQUIRE(WaitUntil([&] { return writers[0]->answered() > before + 200; }));
    for (auto& writer : writers) writer->ForgetLongest();
    const std::uint32_t dead = cluster.node_id(victim);
    const auto killed = SteadyTime::now();
    cluster.Kill(victim);
    REQUIRE(WaitUntil([&] {
      const v1::NamespaceMap space = MapOf(&cluster, asked, "kept");
      for (const v1::Partition& partition : space.partitions()) {
        if (partition.node_id() == dead || partition.state() != v1::PARTITION_STATE_ACTIVE) {
          return false;
        }
      }
      return space.partitions_size() > 0;
    }));
    const double taken_over_ms = MsSince(killed);
    // Without a third node's return: the copies of two nodes are whole again.
    WaitWhole(&cluster, asked, "kept");
    const double whole_ms = MsSince(killed);
    const std::uint64_t now = writers[0]->answered();
    REQUIRE(WaitUntil([&] { return writers[0]->answered() > now + 200; }));
    double longest_ms = 0;
    for (auto& writer : writers) {
      longest_ms = std::max(longest_ms, writer->longest_ms());
      CHECK(writer->failure().empty());
      INFO(writer->failure());
    }
    WARN("round " << round << ": taken over after " << taken_over_ms << " ms, whole again after "
                  << whole_ms << " ms, a key unanswered for at most " << longest_ms << " ms");
    cluster.Start(victim);
    cluster.WaitReady();
  }
  for (auto& writer : writers) {
    writer->Stop();
    INFO(writer->failure());
    CHECK(writer->failure().empty());
    CHECK(writer->Check() == "");
    unknown += writer->unknown();
    WARN(writer->answered() << " answered, " << writer->unknown() << " unknown");
  }
}

TEST_CASE("WhatIsAnsweredOutlivesItsOwner") { KillRounds(10); }

TEST_CASE("WhatIsAnsweredOutlivesManyOwners", "[.long]") {
  const char* const rounds = std::getenv("TP_ROUNDS");
  KillRounds(rounds == nullptr ? 100 : std::atoi(rounds));
}

TEST_CASE("ACopyThatStandsStillIsDroppedAndWritesGoOn") {
  TestCluster cluster(OnSharedEtcd());
  cluster.WaitReady();
  Writer writer(cluster, 0, "kept");
  WaitWhole(&cluster, 0, "kept");
  // A member that is not the coordinator, so that only copies are at stake. It owns partitions too,
  // which wait for it.
  Client client = ConnectTo(cluster);
  const auto begin = SteadyTime::now();
  cluster.Suspend(2);
  const std::uint32_t stopped = cluster.node_id(2);
  REQUIRE(WaitUntil([&] {
    const v1::NamespaceMap space = MapOf(&cluster, 0, "kept");
    for (const v1::Partition& partition : space.partitions()) {
      for (const v1::PartitionCopy& copy : partition.copies()) {
        if (copy.node_id() == stopped) return false;
      }
      if (partition.node_id() == stopped) return false;
    }
    return space.partitions_size() > 0;
  }));
  WARN("copies dropped and partitions taken over after " << MsSince(begin) << " ms");
  const std::uint64_t now = writer.answered();
  REQUIRE(WaitUntil([&] { return writer.answered() > now + 200; }));
  cluster.Resume(2);
  WaitWhole(&cluster, 0, "kept");
  writer.Stop();
  INFO(writer.failure());
  CHECK(writer.failure().empty());
  CHECK(writer.Check() == "");
}

TEST_CASE("LargeValuesOutliveTheirOwner") {
  TestCluster cluster(OnSharedEtcd());
  cluster.WaitReady();
  Client client = ConnectTo(cluster);
  auto map = Open<HashMap<std::string, std::string>>(client, "large", WithCopies());
  WaitWhole(&cluster, 0, "large");
  std::map<std::string, std::string> values;
  for (int i = 0; i < 12; ++i) {
    const std::string key = "k" + std::to_string(i);
    for (const std::size_t bytes :
         {std::size_t{100}, std::size_t{40'000}, std::size_t{1'500'000}}) {
      values[key] = std::string(bytes + static_cast<std::size_t>(i), static_cast<char>('a' + i));
      RequireOk(map.Put(key, values[key]).status());
    }
  }
  cluster.Kill(1);
  for (const auto& [key, value] : values) {
    const auto got = map.Get(key, {.timeout = milliseconds(10'000)});
    INFO(key << ": " << got.status().ToString());
    REQUIRE(got.ok());
    CHECK(*got == value);
  }
}

TEST_CASE("APartitionWithoutACopyIsLostWithItsOwnerAndSaysSo") {
  TestCluster cluster(OnSharedEtcd());
  cluster.WaitReady();
  Client client = ConnectTo(cluster);
  auto map = Open<Map>(client, "kept", WithCopies());
  WaitWhole(&cluster, 0, "kept");
  for (int i = 0; i < 60; ++i) RequireOk(map.Put("k" + std::to_string(i), i).status());
  // Two of three at once: what lay on both of them is gone, and nothing else.
  cluster.process(1).Signal(SIGKILL);
  cluster.process(2).Signal(SIGKILL);
  cluster.Kill(1);
  cluster.Kill(2);
  cluster.Start(1);
  cluster.Start(2);
  cluster.WaitReady();
  REQUIRE(WaitUntil([&] {
    int undecided = 0;
    for (int i = 0; i < 60; ++i) {
      const auto got = map.Get("k" + std::to_string(i), {.timeout = milliseconds(2'000)});
      const bool is_there = got.ok() && *got == i;
      const bool is_lost = got.code() == StatusCode::kDataLoss;
      undecided += is_there || is_lost ? 0 : 1;
      if (got.ok()) CHECK(*got == i);
      CHECK(got.code() != StatusCode::kNotFound);
    }
    return undecided == 0;
  }));
}

}  // namespace
}  // namespace tidepool::testing
