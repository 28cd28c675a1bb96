// Histories of three real daemons that are stopped, killed and restarted under load: each is
// linearizable.
//
// TP_HISTORIES=N: at least N histories. Default: as many as a minute allows.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/client/durable_cluster.h"
#include "tests/history/checker.h"
#include "tests/history/fault_round.h"
#include "tests/history/minimise.h"
#include "tests/support/random.h"
#include "tidepool/v1/cluster.pb.h"

namespace tidepool::history {
namespace {

using std::chrono::milliseconds;
using testing::DurableCluster;

constexpr std::uint32_t kNodes = 3;
constexpr std::uint32_t kLeaseMs = 600;
constexpr std::chrono::seconds kDefaultTime{50};

// A client of each way: by rings, by UCX, with direct reads, and with a thread of its own.
std::vector<Client> ClientsOf(testing::TestCluster& cluster) {
  std::vector<Client> clients;
  const auto connect = [&](ConnectOptions options) {
    clients.push_back(testing::ConnectTo(cluster, std::move(options)));
  };
  connect({.transport = Transport::kRing, .direct_read_bytes_max = 0});
  connect({.transport = Transport::kUcx});
  connect({.transport = Transport::kAuto});
  connect({.transport = Transport::kUcx, .background_progress = true});
  return clients;
}

// Faults of the daemons in a round.
class Faults {
 public:
  Faults(DurableCluster& cluster, test::Random& random) : cluster_(cluster), random_(random) {}

  void Run() {
    Pause(100, 400);
    const std::size_t victim = random_.Below(kNodes);
    const std::size_t other = (victim + 1 + random_.Below(kNodes - 1)) % kNodes;
    switch (random_.Below(6)) {
      case 0:
        return Stop(victim);
      case 1:
        return Kill(victim);
      case 2:  // Two daemons: a stop within the other's stop.
        said_ += " outer";
        cluster_->Suspend(victim);
        Stop(other);
        cluster_->Resume(victim);
        return;
      case 3:  // Killed while it stands still.
        said_ += " stopped, then";
        cluster_->Suspend(victim);
        Pause(kLeaseMs / 2, 2 * kLeaseMs);
        return Kill(victim);
      case 4:  // A kill beside a stop.
        said_ += " beside a stop of " + std::to_string(other);
        cluster_->Suspend(other);
        Kill(victim);
        Pause(0, kLeaseMs);
        cluster_->Resume(other);
        return;
      default:  // In a row.
        Stop(victim);
        Pause(0, 300);
        return Kill(other);
    }
  }
  const std::string& said() const { return said_; }

 private:
  void Pause(std::uint64_t least_ms, std::uint64_t most_ms) {
    std::this_thread::sleep_for(milliseconds(least_ms + random_.Below(most_ms - least_ms + 1)));
  }
  // Half a lease to three leases.
  void Stop(std::size_t victim) {
    said_ += " stop " + std::to_string(victim);
    cluster_->Suspend(victim);
    Pause(kLeaseMs / 2, 3 * kLeaseMs);
    cluster_->Resume(victim);
  }
  void Kill(std::size_t victim) {
    said_ += " kill " + std::to_string(victim);
    cluster_->Kill(victim);
    Pause(0, kLeaseMs);
    cluster_.Start(victim);
  }

  DurableCluster& cluster_;
  test::Random& random_;
  std::string said_;
};

void WaitAllUp(DurableCluster& cluster) {
  cluster->WaitReady();
  for (std::size_t i = 0; i < kNodes; ++i) {
    REQUIRE(cluster->WaitForNodeState(i, v1::NODE_STATE_UP));
  }
}

struct Totals {
  std::uint64_t histories = 0;
  std::uint64_t objects = 0;
  std::uint64_t operations = 0;
  std::uint64_t undecided = 0;
  Endings endings;
};

void CheckSpace(const FaultRound& round, const RoundSpace& space, std::uint64_t seed,
                Totals* totals) {
  const MapModel map;
  const QueueModel queue;
  const QueueModel priority(true);
  const Model& model = space.kind == RoundSpace::Kind::kQueue ? static_cast<const Model&>(queue)
                       : space.kind == RoundSpace::Kind::kPriority ? priority
                                                                   : static_cast<const Model&>(map);
  ++totals->histories;
  for (const auto& [object, part] : ByObject(round.HistoryOf(space))) {
    ++totals->objects;
    totals->operations += part.size();
    const CheckResult result = Check(model, part);
    if (result.verdict == Verdict::kLinearizable) continue;
    std::string name = object;
    std::replace(name.begin(), name.end(), '/', '-');
    const std::string path = SaveViolation(name, seed, model, part, result);
    INFO(object << ", kept in " << path << "\n" << Explain(model, part, result));
    CHECK(result.verdict == Verdict::kUndecided);
    totals->undecided += result.verdict == Verdict::kUndecided ? 1 : 0;
  }
}

TEST_CASE("Histories beside stopped, killed and restarted daemons are linearizable", "[copies]") {
  const char* given = std::getenv("TP_HISTORIES");
  const std::uint64_t wanted = given != nullptr ? std::strtoull(given, nullptr, 10) : 0;
  test::Random random("histories beside faults");
  DurableCluster cluster(kNodes, 1, {}, kLeaseMs);
  WaitAllUp(cluster);
  Totals totals;
  const auto begin = std::chrono::steady_clock::now();
  const auto goes_on = [&] {
    if (wanted != 0) return totals.histories < wanted;
    return std::chrono::steady_clock::now() - begin < kDefaultTime;
  };
  std::vector<Client> clients = ClientsOf(*cluster);
  for (int number = 0; goes_on(); ++number) {
    FaultRound round(&clients, number, &random);
    round.Start();
    Faults faults(cluster, random);
    faults.Run();
    WaitAllUp(cluster);
    round.Stop();
    round.ReadAll();
    INFO("round " << number << ":" << faults.said());
    REQUIRE(round.unexpected().empty());
    for (const RoundSpace& space : round.spaces()) {
      CheckSpace(round, space, random.seed(), &totals);
    }
    totals.endings += round.endings();
  }
  WARN(totals.histories << " histories of " << totals.objects << " objects, " << totals.operations
                        << " operations; " << totals.endings.answered << " answered, "
                        << totals.endings.unknown << " unknown, " << totals.endings.without_effect
                        << " without effect; " << totals.undecided << " objects undecided");
  CHECK(totals.endings.unknown > 0);
  CHECK(totals.undecided * 50 <= totals.objects);
}

}  // namespace
}  // namespace tidepool::history
