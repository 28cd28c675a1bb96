// Histories of a namespace with replicas, whose daemons are killed and stopped one at a time: each
// is linearizable, and nothing is lost.
//
// TP_HISTORIES=N: N rounds. Default: 12.
#include <grpcpp/channel.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/client/sdk_fixture.h"
#include "tests/history/checker.h"
#include "tests/history/fault_round.h"
#include "tests/history/minimise.h"
#include "tests/integration/etcd_harness.h"
#include "tests/support/random.h"
#include "tidepool/v1/cluster.grpc.pb.h"

namespace tidepool::history {
namespace {

using std::chrono::milliseconds;
using testing::TestCluster;

constexpr std::uint32_t kReplicaNodes = 3;
constexpr std::uint32_t kReplicaLeaseMs = 2'000;

testing::TestClusterOptions OnEtcd() {
  testing::TestClusterOptions options;
  options.nodes = kReplicaNodes;
  options.lease_ms = kReplicaLeaseMs;
  options.store = "etcd";
  options.etcd = testing::TestEtcd::Shared().endpoints();
  return options;
}

bool IsWholeAt(TestCluster* cluster, std::size_t asked, const std::string& name) {
  grpc::ClientContext call;
  cluster->Prepare(&call);
  v1::GetMapResponse response;
  const auto stub = v1::Cluster::NewStub(cluster->channel(asked));
  if (!stub->GetMap(&call, v1::GetMapRequest(), &response).ok()) return false;
  for (const auto& space : response.map().namespaces()) {
    if (space.name() != name) continue;
    return std::all_of(space.partitions().begin(), space.partitions().end(), [](const auto& each) {
      return each.state() == v1::PARTITION_STATE_ACTIVE && each.copies_size() == 1 &&
             each.copies(0).in_sync();
    });
  }
  return false;
}

void Pause(test::Random* random, std::uint64_t least_ms, std::uint64_t most_ms) {
  std::this_thread::sleep_for(milliseconds(least_ms + random->Below(most_ms - least_ms + 1)));
}

// One daemon is killed, or stands still for half a lease to three leases.
std::string Fault(TestCluster* cluster, test::Random* random) {
  Pause(random, 50, 300);
  const std::size_t victim = random->Below(kReplicaNodes);
  if (random->Below(3) != 0) {
    cluster->Kill(victim);
    Pause(random, 0, kReplicaLeaseMs);
    cluster->Start(victim);
    return "kill " + std::to_string(victim);
  }
  cluster->Suspend(victim);
  Pause(random, kReplicaLeaseMs / 2, 3 * kReplicaLeaseMs);
  cluster->Resume(victim);
  return "stop " + std::to_string(victim);
}

TEST_CASE("Histories of a namespace with replicas are linearizable beside single faults") {
  const char* const given = std::getenv("TP_HISTORIES");
  const int rounds = given == nullptr ? 12 : std::atoi(given);
  test::Random random("histories of replicas");
  TestCluster cluster(OnEtcd());
  cluster.WaitReady();
  std::vector<Client> clients;
  for (const Transport transport : {Transport::kRing, Transport::kUcx, Transport::kAuto}) {
    clients.push_back(testing::ConnectTo(cluster, {.transport = transport}));
  }
  Endings endings;
  std::size_t operations = 0;
  std::size_t undecided = 0;
  for (int number = 0; number < rounds; ++number) {
    RoundSpace space;
    space.name = "replicas-" + std::to_string(number);
    space.replicas = 2;
    FaultRound round(&clients, {space}, &random);
    round.Start();
    std::string said;
    for (int fault = 0; fault < 2; ++fault) {
      REQUIRE(testing::WaitUntil([&] { return IsWholeAt(&cluster, 0, space.name); }));
      said += Fault(&cluster, &random) + "; ";
      cluster.WaitReady();
    }
    REQUIRE(testing::WaitUntil([&] { return IsWholeAt(&cluster, 0, space.name); }));
    round.Stop();
    round.ReadAll();
    INFO("round " << number << ": " << said);
    REQUIRE(round.unexpected().empty());
    const MapModel model;
    for (const auto& [object, part] : ByObject(round.HistoryOf(space))) {
      operations += part.size();
      const CheckResult result = Check(model, part);
      if (result.verdict == Verdict::kLinearizable) continue;
      std::string name = object;
      std::replace(name.begin(), name.end(), '/', '-');
      const std::string path = SaveViolation(name, random.seed(), model, part, result);
      INFO(object << ", kept in " << path << "\n" << Explain(model, part, result));
      CHECK(result.verdict == Verdict::kUndecided);
      ++undecided;
    }
    const auto opened = clients[0].Open<BytesMap>(space.name);
    REQUIRE(opened.ok());
    for (std::uint32_t key = 0; key < kHashKeys; ++key) {
      const auto got = opened->Contains(space.name + "/k" + std::to_string(key));
      INFO(got.status().ToString());
      CHECK(got.ok());  // Of any key: its partition has not been lost.
    }
    endings += round.endings();
  }
  WARN(rounds << " histories, " << operations << " operations; " << endings.answered
              << " answered, " << endings.unknown << " unknown, " << endings.without_effect
              << " without effect; " << undecided << " objects undecided");
}

}  // namespace
}  // namespace tidepool::history
