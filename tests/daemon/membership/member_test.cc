#include "daemon/membership/member.h"

#include <atomic>
#include <catch2/catch.hpp>

#include "tests/daemon/membership/coordinator_fixture.h"
#include "tests/integration/harness.h"
#include "tidepool/v1/cluster.pb.h"
#include "tidepool/v1/moves.pb.h"

namespace tidepool::daemon {
namespace {

using testing::kPatienceMs;
using testing::WaitUntil;

// Forwards calls to a coordinator until the test makes it fail.
class BreakableLink final : public CoordinatorLink {
 public:
  explicit BreakableLink(Coordinator* coordinator) : inner_(coordinator) {}
  Result<v1::JoinResponse> Join(const v1::JoinRequest& request, Deadline deadline) override {
    ++joins;
    if (const Status broken = Broken(); !broken.ok()) return broken;
    return inner_.Join(request, deadline);
  }
  Result<v1::HeartbeatResponse> Heartbeat(const v1::HeartbeatRequest& request,
                                          Deadline deadline) override {
    ++heartbeats;
    if (const Status broken = Broken(); !broken.ok()) return broken;
    return inner_.Heartbeat(request, deadline);
  }
  Status Leave(const v1::LeaveRequest& request, Deadline deadline) override {
    return inner_.Leave(request, deadline);
  }
  Result<v1::PlacementMap> GetMap(Epoch known, Epoch wait_for, Deadline deadline) override {
    if (const Status broken = Broken(); !broken.ok()) return broken;
    return inner_.GetMap(known, wait_for, deadline);
  }
  Result<v1::ChangePartitionResponse> ChangePartition(const v1::ChangePartitionRequest& request,
                                                      Deadline deadline) override {
    return inner_.ChangePartition(request, deadline);
  }
  Result<v1::GrantPartitionResponse> GrantPartition(const v1::GrantPartitionRequest& request,
                                                    Deadline deadline) override {
    return inner_.GrantPartition(request, deadline);
  }
  void Close() override { inner_.Close(); }

  void Fail(StatusCode code) { failure_ = code; }
  std::atomic<int> joins{0};
  std::atomic<int> heartbeats{0};

 private:
  Status Broken() const {
    const StatusCode code = failure_;
    return code == StatusCode::kOk ? OkStatus() : Status(code, "broken by the test");
  }
  LocalLink inner_;
  std::atomic<StatusCode> failure_{StatusCode::kOk};
};

// A member of a real coordinator (on real time), without cores.
struct MemberFixture {
  MemberFixture() {
    auto opened = Coordinator::Open(&store, {1, true, kLeaseMs, 20});
    REQUIRE(opened.ok());
    coordinator = *std::move(opened);
    link = std::make_unique<BreakableLink>(coordinator.get());
    MemberCallbacks callbacks;
    callbacks.install = [this](placement::PlacementMapPtr installed, NodeId) {
      installed_epoch = installed->epoch.value();
      return OkStatus();
    };
    callbacks.progress = [] { return std::vector<std::uint64_t>{1}; };
    callbacks.fenced = [this](const Status&) { ++fenced; };
    member = std::make_unique<Member>(link.get(), &lease, &map, std::move(callbacks));
  }
  ~MemberFixture() { member->Stop(); }

  void JoinAndStart() {
    const auto joined =
        member->Join(CoordinatorFixture::RequestOf(1), Deadline::AfterMs(kPatienceMs));
    INFO(joined.status().ToString());
    REQUIRE(joined.ok());
    REQUIRE(member->Start().ok());
  }
  std::uint64_t NowNs() const { return Clock::Real().MonotonicNs(); }
  void WaitForHeartbeats(int more) {
    const int wanted = link->heartbeats + more;
    REQUIRE(WaitUntil([&] { return link->heartbeats >= wanted; }));
  }

  static constexpr std::uint32_t kLeaseMs = 60'000;
  MemoryStore store;
  std::unique_ptr<Coordinator> coordinator;
  std::unique_ptr<BreakableLink> link;
  Lease lease;
  MapHolder map;
  std::atomic<std::uint64_t> installed_epoch{0};
  std::atomic<int> fenced{0};
  std::unique_ptr<Member> member;
};

TEST_CASE("AMemberServesNothingBeforeItHasJoined") {
  MemberFixture node;
  CHECK_FALSE(node.lease.ValidAt(node.NowNs()));
  const std::uint64_t before_ns = node.NowNs();
  node.JoinAndStart();
  CHECK(node.lease.ValidAt(node.NowNs()));
  CHECK(node.map.Get()->epoch.value() == node.installed_epoch);
  CHECK(node.lease.until_ns() >= before_ns + MemberFixture::kLeaseMs * 1'000'000ull);
}

TEST_CASE("JoiningIsTriedUntilTheCoordinatorAnswers") {
  MemberFixture node;
  node.link->Fail(StatusCode::kUnavailable);
  std::thread joiner([&] { node.JoinAndStart(); });
  CHECK(WaitUntil([&] { return node.link->joins >= 3; }));
  node.link->Fail(StatusCode::kOk);
  joiner.join();
  CHECK(node.lease.ValidAt(node.NowNs()));
}

TEST_CASE("ARefusalToJoinIsFinal") {
  MemberFixture node;
  node.link->Fail(StatusCode::kFailedPrecondition);
  const auto joined =
      node.member->Join(CoordinatorFixture::RequestOf(1), Deadline::AfterMs(kPatienceMs));
  CHECK(joined.code() == StatusCode::kFailedPrecondition);
  CHECK(node.link->joins == 1);
  CHECK(node.lease.until_ns() == 0);
}

TEST_CASE("AJoinEndsAtItsDeadlineAndAtAnInterruption") {
  MemberFixture node;
  node.link->Fail(StatusCode::kUnavailable);
  CHECK(node.member->Join(CoordinatorFixture::RequestOf(1), Deadline::AfterMs(20)).code() ==
        StatusCode::kUnavailable);
  std::thread stopper([&] { node.member->Interrupt(); });
  CHECK(
      node.member->Join(CoordinatorFixture::RequestOf(1), Deadline::AfterMs(kPatienceMs)).code() ==
      StatusCode::kCancelled);
  stopper.join();
}

TEST_CASE("HeartbeatsExtendTheLease") {
  MemberFixture node;
  node.JoinAndStart();
  const std::uint64_t first_ns = node.lease.until_ns();
  CHECK(WaitUntil([&] { return node.lease.until_ns() > first_ns; }));
}

TEST_CASE("AMemberThatCannotReachTheCoordinatorServesOn") {
  MemberFixture node;
  node.JoinAndStart();
  node.WaitForHeartbeats(1);
  node.link->Fail(StatusCode::kUnavailable);
  node.WaitForHeartbeats(2);
  const std::uint64_t cut_ns = node.lease.until_ns();
  CHECK(WaitUntil([&] { return node.lease.until_ns() > cut_ns; }));
  CHECK(node.fenced == 0);
}

TEST_CASE("AMemberThatIsToldToEndServesNothingMore") {
  MemberFixture node;
  node.JoinAndStart();
  // Another process of the same node has joined.
  REQUIRE(node.coordinator->Join(CoordinatorFixture::RequestOf(1, 2)).ok());
  CHECK(WaitUntil([&] { return node.fenced == 1; }));
  CHECK_FALSE(node.lease.ValidAt(node.NowNs()));
  // Nor by a renewal that was on its way.
  node.lease.ExtendTo(node.NowNs() + 1'000'000'000);
  CHECK_FALSE(node.lease.ValidAt(node.NowNs()));
}

TEST_CASE("NewMapsArriveWithoutWaitingForAHeartbeat") {
  MemberFixture node;
  node.JoinAndStart();
  const auto made = node.coordinator->CreateNamespace("x", placement::Kind::kHash, {},
                                                      Deadline::AfterMs(kPatienceMs));
  REQUIRE(made.ok());
  CHECK(node.map.WaitFor(made->epoch, Deadline::AfterMs(kPatienceMs)));
  CHECK(node.map.Get()->Find("x") != nullptr);
  CHECK(node.installed_epoch == made->epoch.value());
}

TEST_CASE("LeavingGivesTheLeaseUp") {
  MemberFixture node;
  node.JoinAndStart();
  node.member->Stop();
  REQUIRE(node.member->Leave({}, Deadline::AfterMs(kPatienceMs)).ok());
  CHECK_FALSE(node.lease.ValidAt(node.NowNs()));
  CHECK(node.coordinator->map().Get()->nodes[0].state == placement::NodeState::kLeft);
}

}  // namespace
}  // namespace tidepool::daemon
