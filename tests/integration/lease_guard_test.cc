// Daemons on etcd with leases of ten minutes: a death is known at once all the same, by the child
// process of each daemon that ends its lease.
#include <dirent.h>
#include <signal.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <string>

#include "tests/integration/etcd_harness.h"
#include "tests/integration/harness.h"
#include "tidepool/v1/cluster.pb.h"

namespace tidepool::testing {
namespace {

// Ten minutes, so that no test here waits for its end.
constexpr std::uint32_t kLongLeaseMs = 600'000;

TestClusterOptions WithLongLeases(std::uint32_t nodes) {
  TestClusterOptions options;
  options.nodes = nodes;
  options.lease_ms = kLongLeaseMs;
  options.store = "etcd";
  options.etcd = TestEtcd::Shared().endpoints();
  return options;
}

struct Seen {
  std::string name;
  char state = 'Z';  // The state of a process that is gone.
  pid_t parent = 0;
};

Seen Look(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  Seen seen;
  std::string number;
  file >> number >> seen.name >> seen.state >> seen.parent;
  return seen;
}

bool IsRunning(pid_t pid) { return Look(pid).state != 'Z'; }

// Returns the process kvd-guard with the parent `daemon`; 0: none.
pid_t GuardOf(pid_t daemon) {
  DIR* const folder = opendir("/proc");
  REQUIRE(folder != nullptr);
  pid_t found = 0;
  while (const dirent* const entry = readdir(folder)) {
    const pid_t pid = std::atoi(entry->d_name);
    if (pid == 0) continue;
    const Seen seen = Look(pid);
    if (seen.name == "(kvd-guard)" && seen.parent == daemon && seen.state != 'Z') found = pid;
  }
  closedir(folder);
  return found;
}

// Waits for the guard, until it has its name.
pid_t WaitForGuardOf(pid_t daemon) {
  pid_t guard = 0;
  REQUIRE(WaitUntil([&] { return (guard = GuardOf(daemon)) != 0; }));
  return guard;
}

std::size_t CoordinatorAt(TestCluster* cluster, std::size_t asked) {
  const std::uint32_t id = cluster->StatusFrom(asked).coordinator();
  for (std::size_t i = 0; i < cluster->size(); ++i) {
    if (cluster->node_id(i) == id) return i;
  }
  return SIZE_MAX;
}

TEST_CASE("AKilledMemberIsDownLongBeforeItsLeaseRunsOut") {
  TestCluster cluster(WithLongLeases(3));
  const std::size_t first = CoordinatorAt(&cluster, 0);
  REQUIRE(first < 3);
  const std::size_t member = first == 0 ? 1 : 0;
  const pid_t guard = WaitForGuardOf(cluster.process(member).pid());
  cluster.Kill(member);
  REQUIRE(cluster.WaitForNodeState(member, v1::NODE_STATE_DOWN, first));
  CHECK(WaitUntil([&] { return !IsRunning(guard); }));
  cluster.Start(member);
  cluster.WaitReady();
  REQUIRE(cluster.WaitForNodeState(member, v1::NODE_STATE_UP, first));
  CHECK(WaitForGuardOf(cluster.process(member).pid()) != guard);
}

TEST_CASE("AKilledCoordinatorIsReplacedLongBeforeItsLeaseRunsOut") {
  TestCluster cluster(WithLongLeases(3));
  const std::size_t first = CoordinatorAt(&cluster, 0);
  REQUIRE(first < 3);
  const std::size_t asked = first == 0 ? 1 : 0;
  cluster.Kill(first);
  REQUIRE(WaitUntil([&] {
    const std::size_t now = CoordinatorAt(&cluster, asked);
    return now != SIZE_MAX && now != first && cluster.CreateHash(asked, "after", 1000).ok();
  }));
  CHECK(cluster.WaitForNodeState(first, v1::NODE_STATE_DOWN, asked));
}

TEST_CASE("ADaemonThatIsOnlyStoppedKeepsItsLease") {
  TestCluster cluster(WithLongLeases(2));
  const std::size_t first = CoordinatorAt(&cluster, 0);
  REQUIRE(first < 2);
  const std::size_t member = 1 - first;
  const std::uint32_t id = cluster.node_id(member);
  cluster.Suspend(member);
  // Ten heartbeats are missing, and etcd was asked in between.
  const auto heard_ms = [&] {
    return cluster.StatusFrom(first).nodes(static_cast<int>(id)).node().last_heartbeat_ms();
  };
  const std::uint64_t last_ms = heard_ms();
  REQUIRE(WaitUntil([&] { return Clock::Real().WallMs() > last_ms + 1'000; }));
  CHECK(heard_ms() == last_ms);
  CHECK(cluster.WaitForNodeState(member, v1::NODE_STATE_UP, first));
  cluster.Resume(member);
  CHECK(WaitUntil([&] { return heard_ms() > last_ms; }));
  CHECK(cluster.StatusFrom(first).nodes(static_cast<int>(id)).node().state() == v1::NODE_STATE_UP);
}

TEST_CASE("ADaemonThatEndsInGoodOrderLeavesNoGuard") {
  TestCluster cluster(WithLongLeases(2));
  const pid_t guard = WaitForGuardOf(cluster.process(1).pid());
  CHECK(getpgid(guard) == guard);
  CHECK(cluster.Terminate(1) == 0);
  CHECK_FALSE(IsRunning(guard));
}

TEST_CASE("ADaemonWithoutItsGuardServesOn") {
  TestCluster cluster(WithLongLeases(2));
  for (std::size_t i = 0; i < 2; ++i) {
    const pid_t guard = WaitForGuardOf(cluster.process(i).pid());
    REQUIRE(kill(guard, SIGKILL) == 0);
    REQUIRE(WaitUntil([&] { return GuardOf(cluster.process(i).pid()) == 0; }));
  }
  CHECK(cluster.CreateHash(0, "after").ok());
  for (std::size_t i = 0; i < 2; ++i) CHECK(cluster.Terminate(i) == 0);
}

}  // namespace
}  // namespace tidepool::testing
