// Clusters with their state in a real etcd of three members, when a coordinator, etcd's leader or
// all of etcd dies, is stopped and continues. Also the effects of an embedded coordinator's death.
#include <grpcpp/channel.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <set>
#include <thread>

#include "proto/convert/grpc_status.h"
#include "tests/client/sdk_fixture.h"
#include "tests/integration/etcd_harness.h"
#include "tests/integration/harness.h"
#include "tidepool/v1/admin.grpc.pb.h"
#include "tidepool/v1/cluster.pb.h"
#include "tidepool/v1/data.grpc.pb.h"
#include "tidepool/v1/namespaces.grpc.pb.h"

namespace tidepool::testing {
namespace {

using Map = HashMap<std::string, std::string>;

constexpr std::uint32_t kLeaseMs = 2000;

TestClusterOptions OnEtcd(const TestEtcd& etcd) {
  TestClusterOptions options;
  options.nodes = 3;
  options.lease_ms = kLeaseMs;
  options.store = "etcd";
  options.etcd = etcd.endpoints();
  return options;
}

Status Drop(TestCluster* cluster, std::size_t index, const std::string& name) {
  grpc::ClientContext call;
  cluster->Prepare(&call);
  v1::DropNamespaceRequest request;
  request.set_name(name);
  v1::DropNamespaceResponse response;
  return convert::FromGrpc(
      v1::Namespaces::NewStub(cluster->channel(index))->Drop(&call, request, &response), "kvd");
}

std::set<std::string> NamesAt(TestCluster* cluster, std::size_t index) {
  grpc::ClientContext call;
  cluster->Prepare(&call);
  v1::ListNamespacesResponse response;
  REQUIRE(v1::Namespaces::NewStub(cluster->channel(index))
              ->List(&call, v1::ListNamespacesRequest(), &response)
              .ok());
  std::set<std::string> names;
  for (const auto& space : response.namespaces()) names.insert(space.name());
  return names;
}

// Returns the coordinator in daemon `asked`'s view; SIZE_MAX: none.
std::size_t CoordinatorBy(TestCluster* cluster, std::size_t asked) {
  const std::uint32_t id = cluster->StatusFrom(asked).coordinator();
  for (std::size_t i = 0; i < cluster->size(); ++i) {
    if (cluster->node_id(i) == id) return i;
  }
  return SIZE_MAX;
}

std::size_t OtherThan(std::set<std::size_t> not_these) {
  for (std::size_t i = 0; i < 3; ++i) {
    if (!not_these.contains(i)) return i;
  }
  FAIL("no other daemon");
  return 0;
}

// Keys of "load" that live on daemons other than `without`.
std::vector<std::string> KeysNotOn(TestCluster* cluster, std::size_t asked, std::size_t without) {
  std::vector<std::string> keys;
  for (int i = 0; keys.size() < 20 && i < 1000; ++i) {
    grpc::ClientContext call;
    cluster->Prepare(&call);
    v1::LocateRequest request;
    request.set_namespace_("load");
    request.set_key("key" + std::to_string(i));
    v1::LocateResponse place;
    REQUIRE(v1::Data::NewStub(cluster->channel(asked))->Locate(&call, request, &place).ok());
    if (place.node_id() != cluster->node_id(without)) keys.push_back(request.key());
  }
  return keys;
}

// Puts and gets by the data path, until it is destroyed. None may fail.
class Load {
 public:
  Load(const TestCluster& cluster, std::vector<std::string> keys)
      : client_(ConnectTo(cluster)),
        map_(Open<Map>(client_, "load")),
        keys_(std::move(keys)),
        thread_([this] { Run(); }) {}
  ~Load() { Stop(); }
  std::uint64_t rounds() const { return rounds_.load(); }
  // Returns the error; empty: no error.
  std::string Stop() {
    stopping_ = true;
    if (thread_.joinable()) thread_.join();
    return failure_;
  }

 private:
  void Run() {
    while (!stopping_ && failure_.empty()) {
      const std::string value = std::to_string(rounds_.load());
      for (const std::string& key : keys_) {
        const auto put = map_.Put(key, value);
        if (!put.ok()) failure_ = "put: " + put.status().ToString();
        const auto got = map_.Get(key);
        if (!got.ok() || *got != value) failure_ = "get: " + got.status().ToString();
      }
      ++rounds_;
    }
  }

  Client client_;
  Map map_;
  const std::vector<std::string> keys_;
  std::atomic<bool> stopping_{false};
  std::atomic<std::uint64_t> rounds_{0};
  std::string failure_;
  std::thread thread_;
};

// Waits until daemon `asked` knows of another coordinator than `former` that does its work.
std::size_t WaitForAnother(TestCluster* cluster, std::size_t asked, std::size_t former) {
  std::size_t found = SIZE_MAX;
  CHECK(WaitUntil([&] {
    found = CoordinatorBy(cluster, asked);
    return found != SIZE_MAX && found != former &&
           cluster->CreateHash(asked, "by-" + std::to_string(found), 1000).ok();
  }));
  return found;
}

TEST_CASE("ACoordinatorKilledUnderLoadIsReplacedWithinThreeLeasesAndDataGoesOn") {
  TestEtcd etcd(3);
  TestCluster cluster(OnEtcd(etcd));
  const std::size_t first = CoordinatorBy(&cluster, 0);
  REQUIRE(first < 3);
  CHECK(cluster.node_id(first) == 0);
  const std::size_t asked = OtherThan({first});
  {
    Client client = ConnectTo(cluster);
    Open<Map>(client, "load");
  }
  Load load(cluster, KeysNotOn(&cluster, asked, first));
  REQUIRE(WaitUntil([&] { return load.rounds() > 2; }));

  cluster.Kill(first);
  const std::uint64_t killed_ns = Clock::Real().MonotonicNs();
  const std::uint64_t rounds_then = load.rounds();
  const std::size_t second = WaitForAnother(&cluster, asked, first);
  const std::uint64_t gap_ms = (Clock::Real().MonotonicNs() - killed_ns) / 1'000'000;
  INFO("a new coordinator after " << gap_ms << " ms");
  CHECK(gap_ms <= 3 * kLeaseMs);  // etcd's lease, 3 s, is the largest part.
  CHECK(load.rounds() > rounds_then + 1);
  REQUIRE(second < 3);

  // The new coordinator continues with the state, and the dead node is down. The file names the new
  // coordinator.
  REQUIRE(cluster.WaitForNodeState(first, v1::NODE_STATE_DOWN, asked));
  CHECK(WaitUntil([&] { return cluster.ReadFile().coordinator == cluster.node_id(second); }));
  CHECK(Drop(&cluster, asked, "by-" + std::to_string(second)).ok());
  CHECK(load.Stop() == "");

  // The former coordinator comes back in its new role: a member.
  const std::string uuid = cluster.ReadFile().cluster_uuid;
  cluster.Start(first);
  cluster.WaitReady();
  CHECK(cluster.node_id(first) == 0);
  REQUIRE(cluster.WaitForNodeState(first, v1::NODE_STATE_UP, asked));
  CHECK(CoordinatorBy(&cluster, first) == second);
  CHECK(cluster.ReadFile().cluster_uuid == uuid);
}

TEST_CASE("APausedCoordinatorThatWakesUpLateChangesNothing") {
  TestEtcd etcd(3);
  TestCluster cluster(OnEtcd(etcd));
  const std::size_t first = CoordinatorBy(&cluster, 0);
  REQUIRE(first < 3);
  const std::size_t asked = OtherThan({first});
  REQUIRE(cluster.CreateHash(asked, "before").ok());
  cluster.Suspend(first);
  const std::size_t second = WaitForAnother(&cluster, asked, first);
  REQUIRE(second < 3);
  REQUIRE(cluster.WaitForNodeState(first, v1::NODE_STATE_DOWN, asked));
  REQUIRE(cluster.CreateHash(asked, "meanwhile").ok());
  REQUIRE(Drop(&cluster, asked, "before").ok());
  const std::string key = cluster.file() + "/state";
  const std::uint64_t epoch = cluster.StatusFrom(asked).epoch();
  // Questions to it that it finds when it wakes up, as if it were the coordinator still.
  std::atomic<bool> is_answered{false};
  Status late;
  std::thread caller([&] {
    late = cluster.CreateHash(first, "late", 30'000);
    is_answered = true;
  });
  cluster.Resume(first);
  CHECK(WaitUntil([&] { return is_answered.load(); }));
  caller.join();
  INFO(late.ToString());
  // The call was forwarded to the present coordinator, or refused: the former coordinator never did
  // it.
  CHECK((late.ok() || late == StatusCode::kUnavailable));
  REQUIRE(cluster.WaitForNodeState(first, v1::NODE_STATE_UP, asked));
  CHECK(CoordinatorBy(&cluster, first) == second);
  CHECK(cluster.StatusFrom(asked).epoch() > epoch);
  const std::set<std::string> names = NamesAt(&cluster, asked);
  CHECK(names.contains("meanwhile"));
  CHECK_FALSE(names.contains("before"));
  CHECK(names.contains("late") == late.ok());
  for (std::size_t i = 0; i < 3; ++i) CHECK(NamesAt(&cluster, i) == names);
  CHECK(cluster.ReadFile().coordinator == cluster.node_id(second));
  // etcd has the present coordinator's version.
  CHECK(etcd.Ctl({"get", "--print-value-only", key}).find("\"before\"") == std::string::npos);
  CHECK(cluster.CreateHash(first, "after").ok());
}

TEST_CASE("ADeadLeaderOfEtcdStopsNothing") {
  TestEtcd etcd(3);
  TestClusterOptions options = OnEtcd(etcd);
  options.lease_ms = 5000;  // kvd's default. With 2,000 ms, etcd's own election may take all of it.
  TestCluster cluster(options);
  const std::size_t first = CoordinatorBy(&cluster, 0);
  {
    Client client = ConnectTo(cluster);
    Open<Map>(client, "load");
  }
  Load load(cluster, {"a", "b", "c", "d", "e", "f"});
  const std::size_t leader = etcd.Leader();
  etcd.Kill(leader);
  // Its successor is elected in less time than a lease takes to run out.
  CHECK(WaitUntil([&] { return cluster.CreateHash(0, "after").ok(); }));
  const std::uint64_t rounds = load.rounds();
  CHECK(WaitUntil([&] { return load.rounds() > rounds + 2; }));
  CHECK(CoordinatorBy(&cluster, 0) == first);
  etcd.Start(leader);
  etcd.WaitHealthy();
  CHECK(cluster.CreateHash(1, "later").ok());
  CHECK(load.Stop() == "");
}

TEST_CASE("WithoutEtcdDataStopsWhenTheLeasesRunOutAndGoesOnWhenItIsBack") {
  TestEtcd etcd(3);
  TestCluster cluster(OnEtcd(etcd));
  Client client = ConnectTo(cluster);
  const auto map = Open<Map>(client, "load");
  REQUIRE(map.Put("key", "value").ok());
  for (std::size_t i = 0; i < etcd.size(); ++i) etcd.Kill(i);
  Status refused;
  CHECK(WaitUntil([&] {
    refused = map.Get("key").status();
    return !refused.ok();
  }));
  INFO(refused.ToString());
  CHECK((refused == StatusCode::kUnavailable || refused == StatusCode::kDeadlineExceeded));
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(WaitUntil([&] {
      const std::string error = cluster.StatusFrom(i).store_error();
      return error.find("serves no data") != std::string::npos &&
             error.find("etcd at http://") != std::string::npos;
    }));
    CHECK(cluster.Log(i).find("this node's lease is not renewed") != std::string::npos);
  }
  const Status unmade = cluster.CreateHash(0, "unmade", 3000);
  INFO(unmade.ToString());
  CHECK_FALSE(unmade.ok());

  for (std::size_t i = 0; i < etcd.size(); ++i) etcd.Start(i);
  etcd.WaitHealthy();
  CHECK(WaitUntil([&] {
    const auto got = map.Get("key");
    return got.ok() && *got == "value";
  }));
  CHECK(WaitUntil([&] { return cluster.CreateHash(0, "made").ok(); }));
  CHECK(WaitUntil([&] { return cluster.StatusFrom(0).store_error().empty(); }));
}

// After the end of the leases each node still names the former coordinator, which names itself. No
// call may be forwarded for ever.
TEST_CASE("AServiceIsStoppedWithoutEtcd") {
  TestEtcd etcd(1);
  TestCluster cluster(OnEtcd(etcd));
  const std::size_t first = CoordinatorBy(&cluster, 0);
  REQUIRE(first < 3);
  etcd.Suspend(0);
  CHECK(WaitUntil([&] { return !cluster.StatusFrom(first).store_error().empty(); }));
  grpc::ClientContext call;
  cluster.Prepare(&call, 20'000);
  v1::StopRequest request;
  request.set_cluster(true);
  request.set_discard(true);
  v1::StopResponse response;
  const grpc::Status stopped =
      v1::Admin::NewStub(cluster.channel(OtherThan({first})))->Stop(&call, request, &response);
  INFO(stopped.error_message());
  CHECK(stopped.ok());
  for (std::size_t i = 0; i < 3; ++i) CHECK(cluster.process(i).Wait() == 0);
}

TEST_CASE("ACoordinatorThatLeavesIsReplacedAtOnce") {
  TestCluster cluster(OnEtcd(TestEtcd::Shared()));
  const std::size_t first = CoordinatorBy(&cluster, 0);
  REQUIRE(first < 3);
  const std::size_t asked = OtherThan({first});
  CHECK(cluster.Terminate(first) == 0);
  const std::size_t second = WaitForAnother(&cluster, asked, first);
  CHECK(second != first);
  CHECK(cluster.WaitForNodeState(first, v1::NODE_STATE_LEFT, asked));
  cluster.Start(first);
  cluster.WaitReady();
  CHECK(cluster.WaitForNodeState(first, v1::NODE_STATE_UP, asked));
}

TEST_CASE("AClusterThatWasKilledAsAWholeGoesOnWithItsState") {
  TestCluster cluster(OnEtcd(TestEtcd::Shared()));
  const std::string uuid = cluster.ReadFile().cluster_uuid;
  REQUIRE(cluster.CreateHash(1, "kept").ok());
  for (std::size_t i = 0; i < 3; ++i) cluster.Kill(i);
  // Not as at first: node 0 is the last to come.
  for (const std::size_t i : {2, 1, 0}) cluster.Start(i);
  cluster.WaitReady();
  CHECK(cluster.ReadFile().cluster_uuid == uuid);
  CHECK(NamesAt(&cluster, 0).contains("kept"));
  CHECK(WaitUntil([&] {
    const v1::StatusResponse status = cluster.StatusFrom(0);
    return std::all_of(status.nodes().begin(), status.nodes().end(),
                       [](const auto& node) { return node.node().state() == v1::NODE_STATE_UP; });
  }));
  CHECK(cluster.CreateHash(2, "new").ok());
}

TEST_CASE("ADaemonThatDoesNotKnowOfEtcdIsRefusedByName") {
  TestClusterOptions options = OnEtcd(TestEtcd::Shared());
  options.nodes = 1;
  TestCluster cluster(options);
  Process other({ProgramPath("kvd"), "--join=" + cluster.address(0), "--memory=64MiB",
                 "--data-dir=" + cluster.folder() + "/other", "--join-timeout-ms=5000"},
                {"TIDEPOOL_TOKEN=" + cluster.token()}, cluster.folder() + "/other");
  CHECK(other.Wait() == 1);
  INFO(other.Errors());
  CHECK(other.Errors().find("--store etcd") != std::string::npos);
}

TEST_CASE("ADaemonThatDoesNotReachEtcdSaysSoAndEnds") {
  TestCluster cluster({.nodes = 1, .start = false});
  cluster.Start(0, {"--store=etcd", "--etcd=http://127.0.0.1:1", "--etcd-prefix=/x",
                    "--join-timeout-ms=1500"});
  CHECK(cluster.process(0).Wait() == 1);
  INFO(cluster.Log(0));
  CHECK(cluster.Log(0).find("etcd at http://127.0.0.1:1 does not answer") != std::string::npos);
}

TEST_CASE("EtcdIsReachedByTlsWithACertificateAndNotWithout") {
  TestEtcd etcd(1, /*tls=*/true);
  TestClusterOptions options = OnEtcd(etcd);
  options.nodes = 1;
  options.start = false;
  TestCluster cluster(options);
  cluster.Start(0, {"--etcd-ca=" + etcd.ca(), "--join-timeout-ms=1500"});
  CHECK(cluster.process(0).Wait() == 1);
  cluster.Start(
      0, {"--etcd-ca=" + etcd.ca(), "--etcd-cert=" + etcd.cert(), "--etcd-key=" + etcd.key()});
  cluster.WaitReady();
  CHECK(cluster.CreateHash(0, "made").ok());
  CHECK(etcd.Ctl({"get", "--print-value-only", cluster.file() + "/state"}).find("\"made\"") !=
        std::string::npos);
}

TEST_CASE("AnEmbeddedCoordinatorsDeathStopsCreateDropAndJoinButNotDataAndSaysSo") {
  TestCluster cluster({.nodes = 3});
  const std::size_t first = cluster.coordinator_index();
  const std::size_t asked = OtherThan({first});
  const std::size_t third = OtherThan({first, asked});
  {
    Client client = ConnectTo(cluster);
    Open<Map>(client, "load");
  }
  REQUIRE(cluster.CreateHash(asked, "old").ok());
  CHECK(cluster.StatusFrom(asked).store_error().empty());
  Load load(cluster, [&] {
    std::vector<std::string> keys;
    for (const std::string& key : KeysNotOn(&cluster, asked, first)) {
      grpc::ClientContext call;
      cluster.Prepare(&call);
      v1::LocateRequest request;
      request.set_namespace_("load");
      request.set_key(key);
      v1::LocateResponse place;
      REQUIRE(v1::Data::NewStub(cluster.channel(asked))->Locate(&call, request, &place).ok());
      if (place.node_id() == cluster.node_id(asked)) keys.push_back(key);
    }
    return keys;
  }());
  cluster.Kill(first);
  CHECK(cluster.CreateHash(asked, "new", 3000) == StatusCode::kUnavailable);
  CHECK(Drop(&cluster, asked, "old") == StatusCode::kUnavailable);
  cluster.Kill(third);
  cluster.Start(third, {"--join-timeout-ms=2000"});
  CHECK(cluster.process(third).Wait() == 1);
  INFO(cluster.Log(third));
  CHECK(cluster.Log(third).find("could not join") != std::string::npos);
  // All the while, and beyond the lease, other nodes' data is served.
  CHECK(WaitUntil([&] {
    return cluster.StatusFrom(asked).store_error().find("has not answered for") !=
           std::string::npos;
  }));
  const Status unmade = cluster.CreateHash(asked, "new", 3000);
  INFO(unmade.ToString());
  CHECK(unmade.what().find("the coordinator, node 0") != std::string::npos);
  const std::uint64_t rounds = load.rounds();
  CHECK(WaitUntil([&] { return load.rounds() > rounds + 2; }));
  CHECK(load.Stop() == "");
}

}  // namespace
}  // namespace tidepool::testing
