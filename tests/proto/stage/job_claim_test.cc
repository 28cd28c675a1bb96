// The claim of a job while its owner answers, and when it does not any more.
#include "proto/stage/job_claim.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "proto/stage/job.h"

namespace tidepool::stage {
namespace {

constexpr std::uint64_t kMs = 1'000'000;

// Answers claims with the test's answers, and no other call.
class ClaimsOnly final : public Cluster {
 public:
  void Answer(Result<v1::ClaimStageResponse> answer) {
    const std::lock_guard lock(mutex_);
    answer_ = std::move(answer);
  }
  int asked() const {
    const std::lock_guard lock(mutex_);
    return asked_;
  }
  // The held_ms of the last renewal.
  std::uint64_t held_ms() const {
    const std::lock_guard lock(mutex_);
    return held_ms_;
  }
  int released() const {
    const std::lock_guard lock(mutex_);
    return released_;
  }

  Result<v1::ClaimStageResponse> Claim(const v1::ClaimStageRequest& request,
                                       Deadline /*deadline*/) const override {
    const std::lock_guard lock(mutex_);
    ++(request.release() ? released_ : asked_);
    if (request.renew()) held_ms_ = request.held_ms();
    return answer_;
  }

  const std::string& space_name() const override { return name_; }
  Status CheckNothingLost() const override { return OkStatus(); }
  NodeId OwnerOf(std::string_view /*key*/) const override { return NodeId(0); }
  Survey TakeSurvey() const override { return {}; }
  std::uint32_t PartitionOf(std::string_view /*key*/) const override { return 0; }
  std::vector<placement::Node> Movers(const std::vector<placement::Node>& owners) const override {
    return owners;
  }
  NodeId MoverOf(std::string_view /*key*/) const override { return NodeId(0); }
  Result<std::unique_ptr<PartLink>> OpenPart(const placement::Node& /*mover*/,
                                             const v1::RunPartStart& /*start*/,
                                             PartLink::Report /*report*/,
                                             std::function<void()> /*ended*/) const override {
    return Unused();
  }
  Result<std::vector<NodeTotals>> ListParts(const std::vector<placement::Node>& /*owners*/,
                                            v1::ListPartRequest::What /*what*/, Loss /*loss*/,
                                            const TakeItem& /*take*/) const override {
    return Unused();
  }
  Status MarkSaved(const placement::Node& /*node*/, std::uint64_t /*changes*/) const override {
    return Unused();
  }
  std::uint64_t ChangesOf(NodeId /*node*/) const override { return 0; }
  Status Put(const std::string& /*key*/, const std::string& /*value*/) const override {
    return Unused();
  }
  Status Delete(const std::string& /*key*/) const override { return Unused(); }
  Result<manifest::Mark> GetMark(bool* /*exists*/) const override { return Unused(); }

 private:
  static Status Unused() { return Status(StatusCode::kUnimplemented, "not asked by a claim"); }

  const std::string name_ = "tree";
  mutable std::mutex mutex_;
  mutable int asked_ = 0;
  mutable int released_ = 0;
  mutable std::uint64_t held_ms_ = 0;
  Result<v1::ClaimStageResponse> answer_ = Unused();
};

v1::ClaimStageResponse Granted() {
  v1::ClaimStageResponse response;
  response.set_granted(true);
  return response;
}

v1::ClaimStageRequest About() {
  v1::ClaimStageRequest about;
  about.set_job("00000000000000aa");
  about.mutable_request()->set_namespace_("tree");
  return about;
}

struct Fixture {
  ManualClock clock;
  ClaimsOnly cluster;
  JobState state{"00000000000000aa", Clock::Real()};
  JobClaim claim{&cluster, &state, About(), clock, 1};

  // Returns when a request that began after this call has been answered.
  void WaitForRenewals() const {
    const int before = cluster.asked();
    const Deadline deadline = Deadline::AfterMs(30'000);
    while (cluster.asked() < before + 3) {
      REQUIRE_FALSE(deadline.Passed());
      std::this_thread::yield();
    }
  }
};

TEST_CASE("AClaimThatIsRenewedStaysHoweverLongTheJobTakes") {
  Fixture f;
  f.cluster.Answer(Granted());
  REQUIRE(f.claim.Take().ok());
  for (int i = 0; i < 5; ++i) {
    f.clock.AdvanceNs((kClaimMs - 1'000) * kMs);
    f.WaitForRenewals();
  }
  CHECK(f.claim.Check().ok());
  CHECK_FALSE(f.state.cancelled());
}

TEST_CASE("ARenewalSaysForHowLongTheClaimWasHeldUntilTheClaimHasLapsed") {
  Fixture f;
  f.cluster.Answer(Granted());
  REQUIRE(f.claim.Take().ok());
  f.WaitForRenewals();
  CHECK(f.cluster.held_ms() == 1);
  f.clock.AdvanceNs((kClaimMs - 1'000) * kMs);
  f.WaitForRenewals();
  f.clock.AdvanceNs((kClaimMs - 1'000) * kMs);
  f.WaitForRenewals();
  CHECK(f.cluster.held_ms() == 2 * (kClaimMs - 1'000) + 1);
}

TEST_CASE("ARenewalOfALapsedClaimSaysSo") {
  Fixture f;
  f.cluster.Answer(Granted());
  REQUIRE(f.claim.Take().ok());
  f.WaitForRenewals();
  f.cluster.Answer(Status(StatusCode::kUnavailable, "the keeper has died"));
  f.clock.AdvanceNs(kClaimMs * kMs);
  CHECK(f.claim.Check().code() == StatusCode::kAborted);
  CHECK(f.cluster.held_ms() == 0);
}

TEST_CASE("AnOwnerThatDoesNotAnswerForAWhileCostsNoClaim") {
  Fixture f;
  f.cluster.Answer(Granted());
  REQUIRE(f.claim.Take().ok());
  f.WaitForRenewals();
  f.cluster.Answer(Status(StatusCode::kWrongEpoch, "not here"));
  f.clock.AdvanceNs((kClaimMs - 1'000) * kMs);
  f.WaitForRenewals();
  CHECK(f.claim.Check().ok());
  CHECK_FALSE(f.state.cancelled());
  f.cluster.Answer(Granted());
  f.WaitForRenewals();
  f.clock.AdvanceNs((kClaimMs - 1'000) * kMs);
  CHECK(f.claim.Check().ok());
}

TEST_CASE("AClaimThatNobodyHasConfirmedForItsTimeIsLostAndTheJobCancelled") {
  const StatusCode code = GENERATE(StatusCode::kWrongEpoch, StatusCode::kUnavailable);
  Fixture f;
  f.cluster.Answer(Granted());
  REQUIRE(f.claim.Take().ok());
  f.WaitForRenewals();
  f.cluster.Answer(Status(code, "who was asked said so"));
  f.clock.AdvanceNs(kClaimMs * kMs);
  const Status lost = f.claim.Check();
  CHECK(lost.code() == StatusCode::kAborted);
  CHECK(std::string(lost.what()).find("who was asked said so") != std::string::npos);
  CHECK(f.state.cancelled());
}

TEST_CASE("AJobThatStoodStillGoesOnIfNobodyElseHasBegun") {
  Fixture f;
  f.cluster.Answer(Granted());
  REQUIRE(f.claim.Take().ok());
  f.clock.AdvanceNs(10 * kClaimMs * kMs);
  CHECK(f.claim.Check().ok());
  CHECK_FALSE(f.state.cancelled());
}

TEST_CASE("AJobWhoseClaimSomebodyElseHasIsCancelled") {
  Fixture f;
  f.cluster.Answer(Granted());
  REQUIRE(f.claim.Take().ok());
  v1::ClaimStageResponse refused;
  refused.mutable_holder()->set_job("00000000000000bb");
  f.cluster.Answer(refused);
  const Deadline deadline = Deadline::AfterMs(30'000);
  while (!f.state.cancelled() && !deadline.Passed()) std::this_thread::yield();
  const Status lost = f.claim.Check();
  CHECK(lost.code() == StatusCode::kAborted);
  CHECK(std::string(lost.what()).find("00000000000000bb") != std::string::npos);
}

TEST_CASE("AClaimWhoseAnswerWasLostIsGivenBack") {
  Fixture f;
  f.cluster.Answer(Status(StatusCode::kDeadlineExceeded, "the owner did not answer in time"));
  CHECK(f.claim.Take().code() == StatusCode::kDeadlineExceeded);
  CHECK(f.cluster.released() == 1);
}

}  // namespace
}  // namespace tidepool::stage
