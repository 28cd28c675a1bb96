// The claim on a namespace, also after the death of the node that kept it.
#include "daemon/staging/claims.h"

#include <catch2/catch.hpp>
#include <string>

#include "proto/stage/job_claim.h"

namespace tidepool::daemon::staging {
namespace {

constexpr std::uint64_t kMs = 1'000'000;
const NamespaceId kSpace(7);

v1::ClaimStageRequest First(const std::string& job) {
  v1::ClaimStageRequest request;
  request.set_job(job);
  return request;
}

v1::ClaimStageRequest Renewal(const std::string& job, std::uint64_t held_ms) {
  v1::ClaimStageRequest request = First(job);
  request.set_renew(true);
  request.set_held_ms(held_ms);
  return request;
}

v1::ClaimStageRequest Release(const std::string& job) {
  v1::ClaimStageRequest request = First(job);
  request.set_release(true);
  return request;
}

TEST_CASE("ANewKeeperGoesOnWithTheClaimOfARunningJob") {
  ManualClock clock;
  Claims keeper(clock);
  CHECK(keeper.Take(kSpace, Renewal("aa", 3'000)).granted());
  // From then on it is a claim as any other.
  const auto second = keeper.Take(kSpace, First("bb"));
  CHECK_FALSE(second.granted());
  CHECK(second.holder().job() == "aa");
  clock.AdvanceNs((stage::kClaimMs - 1) * kMs);
  CHECK(keeper.Take(kSpace, Renewal("aa", 13'000)).granted());
  CHECK(keeper.Take(kSpace, Release("aa")).granted());
  CHECK(keeper.Take(kSpace, First("bb")).granted());
}

TEST_CASE("ANewKeeperKnowsNoClaimThatHasLapsed") {
  ManualClock clock;
  Claims keeper(clock);
  const auto late = keeper.Take(kSpace, Renewal("aa", 0));
  CHECK_FALSE(late.granted());
  CHECK(late.holder().job().empty());
}

TEST_CASE("ANewKeeperThatHasGrantedTheClaimToAnotherJobNamesTheOther") {
  ManualClock clock;
  Claims keeper(clock);
  REQUIRE(keeper.Take(kSpace, First("bb")).granted());
  const auto refused = keeper.Take(kSpace, Renewal("aa", 3'000));
  CHECK_FALSE(refused.granted());
  CHECK(refused.holder().job() == "bb");
}

TEST_CASE("AnotherJobThatEndedMeanwhileCostsTheClaimAndAnEarlierJobDoesNot") {
  ManualClock clock;
  Claims keeper(clock);
  const bool released = GENERATE(true, false);
  REQUIRE(keeper.Take(kSpace, First("bb")).granted());
  if (released) {
    REQUIRE(keeper.Take(kSpace, Release("bb")).granted());
  } else {
    clock.AdvanceNs(stage::kClaimMs * kMs);
  }
  clock.AdvanceNs(2'000 * kMs);
  CHECK_FALSE(keeper.Take(kSpace, Renewal("aa", 2'001)).granted());
  CHECK(keeper.Take(kSpace, Renewal("aa", 2'000)).granted());
}

TEST_CASE("AKeeperThatRemembersALapsedClaimRenewsItUntilAnotherJobHasHadIt") {
  ManualClock clock;
  Claims keeper(clock);
  REQUIRE(keeper.Take(kSpace, First("aa")).granted());
  clock.AdvanceNs(5 * stage::kClaimMs * kMs);
  CHECK(keeper.Take(kSpace, Renewal("aa", 0)).granted());
  clock.AdvanceNs(2 * stage::kClaimMs * kMs);
  REQUIRE(keeper.Take(kSpace, First("bb")).granted());
  REQUIRE(keeper.Take(kSpace, Release("bb")).granted());
  CHECK_FALSE(keeper.Take(kSpace, Renewal("aa", 0)).granted());
}

TEST_CASE("ARenewalThatComesBehindTheReleaseRevivesNothing") {
  ManualClock clock;
  Claims keeper(clock);
  REQUIRE(keeper.Take(kSpace, First("aa")).granted());
  REQUIRE(keeper.Take(kSpace, Release("aa")).granted());
  CHECK_FALSE(keeper.Take(kSpace, Renewal("aa", 3'000)).granted());
  CHECK(keeper.Take(kSpace, First("bb")).granted());
}

}  // namespace
}  // namespace tidepool::daemon::staging
