// A question to the coordinator that arrives after a later question was refused. The refused
// partition stays in its place, with all its data.
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/core/core.h"
#include "daemon/moving/range_splitter.h"
#include "daemon/moving/send_partition.h"
#include "daemon/services/moves_service.h"
#include "proto/convert/grpc_status.h"
#include "tests/daemon/membership/coordinator_fixture.h"
#include "tests/daemon/raw_client.h"
#include "tidepool/v1/namespaces.grpc.pb.h"

namespace tidepool::daemon {
namespace {

using wire::Argument;
using wire::Opcode;

Deadline Soon() { return Deadline::AfterMs(30'000); }

Options PlainOptions() {
  Options options;
  options.insecure = true;
  return options;
}

// A server of a single service, on its own port.
class TestServer {
 public:
  explicit TestServer(grpc::Service* service) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(service);
    server_ = builder.BuildAndStart();
    REQUIRE(server_ != nullptr);
    address_ = "127.0.0.1:" + std::to_string(port);
  }
  ~TestServer() { server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(10)); }
  const std::string& address() const { return address_; }

 private:
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

// Loses the coordinator's answer to the first question, and keeps the question here. Refuses the
// second question, as if the node had been silent for a while.
class LateLink final : public CoordinatorLink {
 public:
  explicit LateLink(Coordinator* coordinator) : inner_(coordinator) {}
  Result<v1::JoinResponse> Join(const v1::JoinRequest& request, Deadline deadline) override {
    return inner_.Join(request, deadline);
  }
  Result<v1::HeartbeatResponse> Heartbeat(const v1::HeartbeatRequest& request,
                                          Deadline deadline) override {
    return inner_.Heartbeat(request, deadline);
  }
  Status Leave(const v1::LeaveRequest& request, Deadline deadline) override {
    return inner_.Leave(request, deadline);
  }
  Result<v1::PlacementMap> GetMap(Epoch known, Epoch wait_for, Deadline deadline) override {
    return inner_.GetMap(known, wait_for, deadline);
  }
  Result<v1::ChangePartitionResponse> ChangePartition(const v1::ChangePartitionRequest& request,
                                                      Deadline deadline) override {
    return inner_.ChangePartition(request, deadline);
  }
  Result<v1::GrantPartitionResponse> GrantPartition(const v1::GrantPartitionRequest& request,
                                                    Deadline deadline) override {
    const std::lock_guard lock(mutex_);
    if (!late_.has_value()) {
      late_ = request;
      return Status(StatusCode::kDeadlineExceeded, "the coordinator did not answer in time");
    }
    if (++asked_ > 1) return inner_.GrantPartition(request, deadline);
    v1::GrantPartitionResponse refused;
    refused.set_code(static_cast<std::uint32_t>(StatusCode::kUnavailable));
    refused.set_what("the node is not up");
    return refused;
  }
  void Close() override { inner_.Close(); }
  v1::GrantPartitionRequest late() {
    const std::lock_guard lock(mutex_);
    return late_.value();
  }

 private:
  LocalLink inner_;
  std::mutex mutex_;
  std::optional<v1::GrantPartitionRequest> late_;
  int asked_ = 0;
};

// Cores and membership of a node of a coordinator's cluster.
struct TestPeer {
  TestPeer(Kind kind, std::unique_ptr<CoordinatorLink> to_coordinator)
      : node(1, 128ull << 20, kind), state(PlainOptions()), link(std::move(to_coordinator)) {
    MemberCallbacks callbacks;
    callbacks.install = [this](placement::PlacementMapPtr map, NodeId self) {
      return node.cores().InstallMap(std::move(map), self, Soon());
    };
    callbacks.progress = [] { return std::vector<std::uint64_t>{1}; };
    callbacks.fenced = [](const Status&) {};
    member = std::make_unique<Member>(link.get(), &lease, &state.map, std::move(callbacks));
    state.cores = &node.cores();
    state.incarnation = 1;
  }
  ~TestPeer() {
    state.moves.Stop();
    member->Stop();
  }
  void Join(int daemon, const std::string& address) {
    v1::JoinRequest request = CoordinatorFixture::RequestOf(daemon, 1, 1);
    request.set_control_address(address);
    REQUIRE(member->Join(request, Soon()).ok());
    state.member = member.get();
    REQUIRE(member->Start().ok());
  }
  Result<std::vector<OperationOutcome>> Execute(PartitionId partition, Term term,
                                                const std::vector<wire::Operation>& operations) {
    return node.cores().Execute(CoreId(0), partition, term, operations, 1024, Soon());
  }

  TestNode node;  // Only its cores: the coordinator's maps take the place of its own.
  NodeState state;
  Lease lease;
  std::unique_ptr<CoordinatorLink> link;
  std::unique_ptr<Member> member;
};

struct Fixture {
  Fixture() {
    auto opened = Coordinator::Open(&store, {2, true, 60'000, 20});
    REQUIRE(opened.ok());
    coordinator = *std::move(opened);
  }
  NamespaceId Create(Kind kind, const std::string& home) {
    placement::NamespaceOptions options;
    options.home = home;
    const auto made = coordinator->CreateNamespace("space", kind, options, Soon());
    INFO(made.status().ToString());
    REQUIRE(made.ok());
    return made->space->id;
  }
  placement::PartitionPlace PlaceOf(PartitionId partition) {
    return *coordinator->map().Get()->Find(partition);
  }

  MemoryStore store;
  std::unique_ptr<Coordinator> coordinator;
};

TEST_CASE("AMoveWhoseFirstQuestionArrivesAfterARefusalLosesNothing") {
  Fixture cluster;
  TestPeer owner(Kind::kQueue, std::make_unique<LocalLink>(cluster.coordinator.get()));
  auto late_link = std::make_unique<LateLink>(cluster.coordinator.get());
  LateLink& late = *late_link;
  TestPeer target(Kind::kQueue, std::move(late_link));
  MovesService service(&target.state);
  const TestServer server(&service);
  owner.Join(1, "127.0.0.1:1");
  target.Join(2, server.address());
  const PartitionId queue(cluster.Create(Kind::kQueue, "0"), 0);
  owner.member->Sync(Soon());
  target.member->Sync(Soon());
  wire::Operation push;
  push.opcode = Opcode::kPush;
  push.value = AsBytes("item");
  const Term before = cluster.PlaceOf(queue).term;
  REQUIRE(owner.Execute(queue, before, {push}).ok());

  v1::MovePartitionRequest request;
  request.set_namespace_id(queue.space().value());
  request.set_term(before.value());
  request.set_target_node(1);
  request.set_hold_ms(10'000);
  const auto moved = SendPartition(&owner.state, request, [](const auto&) {});
  CHECK(moved.code() == StatusCode::kUnavailable);
  const auto arrived = cluster.coordinator->GrantPartition(late.late());
  REQUIRE(arrived.ok());
  CHECK_FALSE(arrived->granted());

  owner.member->Sync(Soon());
  const placement::PartitionPlace place = cluster.PlaceOf(queue);
  REQUIRE(place.node == NodeId(0));
  wire::Operation pop;
  pop.opcode = Opcode::kPop;
  pop.set(Argument::kOperand, 1);
  const auto popped = owner.Execute(queue, place.term, {pop});
  REQUIRE(popped.ok());
  CHECK(popped->front().code == StatusCode::kOk);
  target.state.moves.Stop();
}

// Acts likewise for splits.
class LateNamespaces final : public v1::Namespaces::Service {
 public:
  explicit LateNamespaces(Coordinator* coordinator) : coordinator_(*coordinator) {}
  grpc::Status CommitSplit(grpc::ServerContext* call, const v1::CommitSplitRequest* request,
                           v1::CommitSplitResponse*) override {
    bool first = false;
    {
      const std::lock_guard lock(mutex_);
      first = !std::exchange(asked_, true);
      if (first) {
        late_ = {NamespaceId(request->namespace_id()),
                 request->partition(),
                 Term(request->term()),
                 NodeId(static_cast<std::uint16_t>(request->node_id())),
                 request->key(),
                 request->new_partition(),
                 CoreId(static_cast<std::uint16_t>(request->new_core()))};
      }
    }
    while (first && !call->IsCancelled()) std::this_thread::yield();
    return convert::ToGrpc(Status(StatusCode::kFailedPrecondition, "the node was not heard"));
  }
  Result<Epoch> Arrive() {
    const std::lock_guard lock(mutex_);
    return coordinator_.SplitPartition(late_);
  }

 private:
  Coordinator& coordinator_;
  std::mutex mutex_;
  bool asked_ = false;
  RangeSplit late_;
};

TEST_CASE("ASplitWhoseFirstQuestionArrivesAfterARefusalLosesNothing") {
  Fixture cluster;
  LateNamespaces service(cluster.coordinator.get());
  const TestServer server(&service);
  // The coordinator's node: nothing but its address.
  v1::JoinRequest first = CoordinatorFixture::RequestOf(1, 1, 1);
  first.set_control_address(server.address());
  REQUIRE(cluster.coordinator->Join(first).ok());
  TestPeer owner(Kind::kOrdered, std::make_unique<LocalLink>(cluster.coordinator.get()));
  owner.Join(2, "127.0.0.1:1");
  const PartitionId range(cluster.Create(Kind::kOrdered, "1"), 0);
  owner.member->Sync(Soon());
  const std::vector<std::string> keys = {"a", "b", "c", "d"};
  std::vector<wire::Operation> puts;
  std::vector<wire::Operation> gets;
  for (const std::string& key : keys) {
    puts.push_back(PutOp(key, "value"));
    gets.push_back(GetOp(key));
  }
  REQUIRE(owner.Execute(range, cluster.PlaceOf(range).term, puts).ok());

  RangeSplitter splitter(&owner.state);
  REQUIRE(splitter.Start().ok());
  const auto split = splitter.Split(range.space(), 0, "c", Soon());
  CHECK(split.code() == StatusCode::kFailedPrecondition);
  CHECK(split.status().ToString().find("not heard") != std::string::npos);
  CHECK_FALSE(service.Arrive().ok());

  owner.member->Sync(Soon());
  const auto found = owner.Execute(range, cluster.PlaceOf(range).term, gets);
  REQUIRE(found.ok());
  for (const OperationOutcome& outcome : *found) CHECK(outcome.code == StatusCode::kOk);
}

}  // namespace
}  // namespace tidepool::daemon
