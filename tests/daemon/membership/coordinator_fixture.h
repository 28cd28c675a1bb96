// A coordinator over a store in memory, or over etcd with TIDEPOOL_TEST_STORE=etcd, with time moved
// by hand.
#pragma once

#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/membership/coordinator.h"
#include "tests/daemon/membership/etcd_place.h"

namespace tidepool::daemon {

// A complete store without a disk.
class MemoryStore final : public ClusterStore {
 public:
  Result<std::optional<ClusterState>> Load() override {
    if (!text_.has_value()) return std::optional<ClusterState>();
    auto state = DecodeState(*text_, "memory");
    if (!state.ok()) return state.status();
    return std::optional<ClusterState>(*std::move(state));
  }
  Status Save(const ClusterState& next, Epoch previous) override {
    if (previous != saved_) return Status(StatusCode::kAborted, "another epoch is saved");
    text_ = EncodeState(next);
    saved_ = next.map.epoch;
    return OkStatus();
  }
  Status Retire() override {
    text_.reset();
    saved_ = Epoch(0);
    return OkStatus();
  }
  std::string Describe() const override { return "memory"; }

 private:
  std::optional<std::string> text_;
  Epoch saved_;
};

// Forwards all calls to the store of the test's choice. Fails on demand, like a full disk.
class TestStore final : public ClusterStore {
 public:
  TestStore() {
    const char* kind = std::getenv("TIDEPOOL_TEST_STORE");
    if (kind == nullptr || std::string(kind) != "etcd") {
      inner_ = std::make_unique<MemoryStore>();
      return;
    }
    place_ = std::make_unique<EtcdPlace>();
    inner_ = place_->Open();
  }
  Result<std::optional<ClusterState>> Load() override { return inner_->Load(); }
  Status Save(const ClusterState& next, Epoch previous) override {
    if (fails) return Status(StatusCode::kResourceExhausted, "the disk is full");
    return Counted(inner_->Save(next, previous));
  }
  Status SaveIfDead(const ClusterState& next, Epoch previous,
                    const std::vector<DeadProcess>& dead) override {
    for (const DeadProcess& process : dead) {
      if (registers_meanwhile.contains(process.uuid)) {
        return Status(StatusCode::kUnavailable, "the process has registered again");
      }
    }
    dead_of_last = dead;
    if (place_ == nullptr || fails) return Save(next, previous);
    return Counted(inner_->SaveIfDead(next, previous, dead));
  }
  Status Retire() override { return inner_->Retire(); }
  Result<bool> KnowsAlive(const placement::Node& node) override {
    const auto known = alive.find(node.uuid);
    return known == alive.end() ? inner_->KnowsAlive(node) : known->second;
  }
  bool HearsOfDeaths() const override { return hears_of_deaths; }
  bool must_reload() const override { return reloads; }
  std::string Describe() const override { return inner_->Describe(); }

  bool hears_of_deaths = false;
  bool reloads = false;  // See ClusterStore::must_reload.
  bool fails = false;
  int saves = 0;
  std::map<std::string, Result<bool>> alive;  // Replaces the store's knowledge.
  std::set<std::string> registers_meanwhile;  // Nodes, between the look and the save.
  std::vector<DeadProcess> dead_of_last;      // Processes that the last save required to be gone.

 private:
  Status Counted(Status saved) {
    saves += saved.ok() ? 1 : 0;
    return saved;
  }

  std::unique_ptr<EtcdPlace> place_;
  std::unique_ptr<ClusterStore> inner_;
};

struct CoordinatorFixture {
  static constexpr std::uint32_t kLeaseMs = 1000;
  static constexpr std::uint32_t kHeartbeatMs = 100;

  explicit CoordinatorFixture(std::uint32_t nodes = 1) : nodes_expected(nodes) { Open(); }

  // (Re)starts the coordinator on its store.
  void Open() {
    coordinator.reset();
    auto opened = Coordinator::Open(&store, {nodes_expected, true, kLeaseMs, kHeartbeatMs}, clock);
    INFO(opened.status().ToString());
    REQUIRE(opened.ok());
    coordinator = *std::move(opened);
  }

  static std::string UuidOf(int daemon) {
    const std::string digits = std::to_string(daemon);
    return "00000000-0000-4000-8000-" + std::string(12 - digits.size(), '0') + digits;
  }
  static v1::JoinRequest RequestOf(int daemon, std::uint64_t incarnation = 1,
                                   std::uint32_t cores = 2) {
    v1::JoinRequest request;
    request.set_uuid(UuidOf(daemon));
    request.set_incarnation(incarnation);
    request.set_control_address("127.0.0.1:" + std::to_string(1000 + daemon));
    request.set_host("host" + std::to_string(daemon));
    request.set_cores(cores);
    request.set_version("1");
    request.set_pid(static_cast<std::uint32_t>(100 * daemon + static_cast<int>(incarnation)));
    request.set_directory("/data" + std::to_string(daemon));
    request.set_directory_device(1);
    request.set_directory_inode(static_cast<std::uint64_t>(daemon));
    return request;
  }

  void Join(int daemon, std::uint64_t incarnation = 1, std::uint32_t cores = 2) {
    const auto joined = coordinator->Join(RequestOf(daemon, incarnation, cores));
    INFO(joined.status().ToString());
    REQUIRE(joined.ok());
  }
  Status Heartbeat(std::uint32_t node, std::uint64_t incarnation = 1) {
    v1::HeartbeatRequest request;
    request.set_node_id(node);
    request.set_incarnation(incarnation);
    return coordinator->Heartbeat(request).status();
  }
  Status Leave(std::uint32_t node, std::uint64_t incarnation = 1,
               std::vector<std::uint32_t> empty = {}) {
    v1::LeaveRequest request;
    request.set_node_id(node);
    request.set_incarnation(incarnation);
    for (const std::uint32_t id : empty) request.add_empty_namespaces(id);
    return coordinator->Leave(request);
  }
  // Time passes; the nodes in `alive` send heartbeats, the coordinator ticks.
  void Pass(std::uint64_t ms, std::vector<std::uint32_t> alive, std::uint64_t incarnation = 1) {
    for (std::uint64_t passed = 0; passed < ms; passed += kHeartbeatMs) {
      clock.AdvanceNs(kHeartbeatMs * 1'000'000ull);
      for (const std::uint32_t node : alive) REQUIRE(Heartbeat(node, incarnation).ok());
      coordinator->Tick();
    }
  }
  std::shared_ptr<const placement::Namespace> Create(const std::string& name,
                                                     placement::NamespaceOptions options = {}) {
    auto made =
        coordinator->CreateNamespace(name, placement::Kind::kHash, options, Deadline::AfterMs(0));
    INFO(made.status().ToString());
    REQUIRE(made.ok());
    return made->space;
  }
  placement::PlacementMapPtr Map() { return coordinator->map().Get(); }
  placement::NodeState StateOf(std::size_t node) { return Map()->nodes.at(node).state; }
  // How many partitions of `name` that belong to `node` are in `state`.
  int Count(const std::string& name, std::uint16_t node, placement::PartitionState state) {
    int count = 0;
    const auto space = Map()->Find(name);
    for (const auto& place : space->partitions) {
      if (place.node == NodeId(node) && place.state == state) ++count;
    }
    return count;
  }

  ManualClock clock;
  TestStore store;
  std::uint32_t nodes_expected;
  std::unique_ptr<Coordinator> coordinator;
};

}  // namespace tidepool::daemon
