// The rules of process groups, without a network.
#include "daemon/ops/process_groups.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/support/random.h"

namespace tidepool::daemon {
namespace {

using wire::Collective;
using wire::ElementType;

constexpr std::uint64_t kSecond = 1'000'000'000;

// A core's groups, and members that ask like their clients.
class Fixture {
 public:
  ProcessGroups groups;

  ProcessGroups::Place Place(std::uint64_t session, bool may_wait = true) const {
    return {PartitionId(NamespaceId(1), 0), "g", SessionId(session), Term(3), may_wait};
  }
  ProcessGroups::Outcome Join(std::uint64_t member, std::uint32_t size, std::int32_t rank = -1,
                              bool may_wait = true) {
    label_ = "m" + std::to_string(member);
    return groups.Join(Place(member, may_wait), {member, size, rank, label_});
  }
  // Forms members 1 to `size`; a member's rank is its number less 1.
  std::uint64_t Form(std::uint32_t size) {
    std::uint64_t instance = 0;
    for (std::uint32_t i = 0; i < size; ++i) {
      const auto outcome = Join(i + 1, size, static_cast<std::int32_t>(i));
      CHECK(outcome.waits == (i + 1 < size));
      if (!outcome.waits) instance = wire::LoadJoinReply(outcome.value)->instance;
    }
    REQUIRE(instance != 0);
    return instance;
  }
  ProcessGroups::Outcome Meet(std::uint64_t instance, std::uint64_t step, std::uint32_t rank,
                              wire::CollectiveCall call = {}, Bytes contribution = {},
                              bool may_wait = true) {
    call.bytes = call.collective == Collective::kBroadcast
                     ? 0
                     : static_cast<std::uint32_t>(contribution.size());
    return groups.Meet(Place(rank + 1, may_wait), {instance, step, rank, call, contribution});
  }
  ProcessGroups::Outcome Sum(std::uint64_t instance, std::uint64_t step, std::uint32_t rank,
                             std::int64_t number) {
    wire::CollectiveCall call;
    call.collective = Collective::kAllReduce;
    return Meet(instance, step, rank, call, AsBytesOf(number));
  }
  static Bytes AsBytesOf(const std::int64_t& number) {
    return {reinterpret_cast<const std::byte*>(&number), sizeof number};
  }
  static std::int64_t Number(const ProcessGroups::Outcome& outcome) {
    REQUIRE(outcome.code == StatusCode::kOk);
    REQUIRE(outcome.value.size() == 8);
    return LoadUnaligned<std::int64_t>(outcome.value.data());
  }

 private:
  std::string label_;
};

TEST_CASE("AGroupFormsWhenAllHaveComeAndRanksAreDistinct") {
  Fixture f;
  CHECK(f.Join(1, 3).waits);
  CHECK(f.Join(2, 3, 0).waits);
  const auto last = f.Join(3, 3);
  CHECK(last.wakes);
  const auto third = *wire::LoadJoinReply(last.value);
  CHECK(third.rank == 2);
  CHECK(wire::LoadJoinReply(f.Join(1, 3).value)->rank == 1);
  CHECK(wire::LoadJoinReply(f.Join(2, 3, 0).value)->rank == 0);
  CHECK(wire::LoadJoinReply(f.Join(2, 3, 0).value)->instance == third.instance);
}

TEST_CASE("AJoinThatComesAgainIsCountedOnce") {
  Fixture f;
  CHECK(f.Join(1, 2).waits);
  CHECK(f.Join(1, 2).waits);
  CHECK_FALSE(f.Join(2, 2).waits);
}

TEST_CASE("AnotherSizeOrATakenRankIsRefused") {
  Fixture f;
  CHECK(f.Join(1, 3, 1).waits);
  CHECK(f.Join(2, 4).code == StatusCode::kInvalidArgument);
  const auto taken = f.Join(2, 3, 1);
  CHECK(taken.code == StatusCode::kAlreadyExists);
  CHECK(taken.text == "rank 1 (m1) is there already");
}

TEST_CASE("AJoinThatMayNotWaitSaysWhoIsMissing") {
  Fixture f;
  CHECK(f.Join(1, 4, 1).waits);
  const auto ranked = f.Join(2, 4, 3, false);
  CHECK(ranked.code == StatusCode::kDeadlineExceeded);
  CHECK(ranked.text == "2 of 4 members have come; missing: rank 0, rank 2");
  CHECK(f.Join(3, 4, -1, false).text.find("3 of 4 members have come: rank 1 (m1)") == 0);
}

TEST_CASE("WhoJoinsAFormedGroupMakesTheNext") {
  Fixture f;
  const std::uint64_t first = f.Form(2);
  CHECK(f.Join(11, 2).waits);
  const auto second = *wire::LoadJoinReply(f.Join(12, 2).value);
  CHECK(second.instance != first);
  CHECK(f.Meet(first, 1, 0).waits);
  CHECK_FALSE(f.Meet(first, 1, 1).waits);
}

TEST_CASE("ABarrierEndsWhenTheLastHasCome") {
  Fixture f;
  const std::uint64_t group = f.Form(3);
  CHECK(f.Meet(group, 1, 2).waits);
  CHECK(f.Meet(group, 1, 0).waits);
  CHECK(f.Meet(group, 1, 0).waits);  // Again.
  const auto last = f.Meet(group, 1, 1);
  CHECK_FALSE(last.waits);
  CHECK(last.wakes);
  CHECK_FALSE(f.Meet(group, 1, 2).waits);
  CHECK(f.Meet(group, 2, 2).waits);
  const auto missing = f.Meet(group, 2, 2, {}, {}, false);
  CHECK(missing.code == StatusCode::kDeadlineExceeded);
  CHECK(missing.text == "not come to the barrier: rank 0 (m1), rank 1 (m2)");
}

TEST_CASE("EachContributionCountsOnce") {
  Fixture f;
  const std::uint64_t group = f.Form(2);
  CHECK(f.Sum(group, 1, 0, 5).waits);
  CHECK(f.Sum(group, 1, 0, 5).waits);
  CHECK(Fixture::Number(f.Sum(group, 1, 1, 7)) == 12);
  CHECK(Fixture::Number(f.Sum(group, 1, 1, 7)) == 12);
  CHECK(Fixture::Number(f.Sum(group, 1, 0, 5)) == 12);
}

TEST_CASE("ReductionsOfAllTypes") {
  Fixture f;
  const std::uint64_t group = f.Form(3);
  std::uint64_t step = 0;
  const auto combine = [&](ElementType type, wire::Reduction reduction, const auto& numbers) {
    wire::CollectiveCall call{Collective::kAllReduce, reduction, type, 0, 0};
    ++step;
    ProcessGroups::Outcome outcome;
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      outcome =
          f.Meet(group, step, rank, call, {reinterpret_cast<const std::byte*>(&numbers[rank]), 8});
    }
    REQUIRE(outcome.value.size() == 8);
    return LoadUnaligned<std::decay_t<decltype(numbers[0])>>(outcome.value.data());
  };
  const std::int64_t signed_numbers[] = {-7, 3, 1};
  const std::uint64_t unsigned_numbers[] = {~0ull, 1, 5};
  const double reals[] = {0.5, -2.25, 8};
  CHECK(combine(ElementType::kI64, wire::Reduction::kSum, signed_numbers) == -3);
  CHECK(combine(ElementType::kI64, wire::Reduction::kMin, signed_numbers) == -7);
  CHECK(combine(ElementType::kI64, wire::Reduction::kMax, signed_numbers) == 3);
  CHECK(combine(ElementType::kU64, wire::Reduction::kSum, unsigned_numbers) == 5);
  CHECK(combine(ElementType::kU64, wire::Reduction::kMax, unsigned_numbers) == ~0ull);
  CHECK(combine(ElementType::kF64, wire::Reduction::kSum, reals) == 6.25);
  CHECK(combine(ElementType::kF64, wire::Reduction::kMin, reals) == -2.25);
}

TEST_CASE("ABroadcastGivesEverybodyTheRootsValue") {
  Fixture f;
  const std::uint64_t group = f.Form(3);
  wire::CollectiveCall call;
  call.collective = Collective::kBroadcast;
  call.root = 1;
  CHECK(f.Meet(group, 1, 0, call).waits);
  CHECK(f.Meet(group, 1, 1, call, AsBytes("news")).waits);
  CHECK(AsText(f.Meet(group, 1, 2, call).value) == "news");
  CHECK(AsText(f.Meet(group, 1, 0, call).value) == "news");
}

TEST_CASE("AReductionToOneIsEmptyElsewhere") {
  Fixture f;
  const std::uint64_t group = f.Form(2);
  wire::CollectiveCall call;
  call.collective = Collective::kReduce;
  call.root = 1;
  const std::int64_t number = 4;
  CHECK(f.Meet(group, 1, 0, call, Fixture::AsBytesOf(number)).waits);
  CHECK(Fixture::Number(f.Meet(group, 1, 1, call, Fixture::AsBytesOf(number))) == 8);
  CHECK(f.Meet(group, 1, 0, call, Fixture::AsBytesOf(number)).value.empty());
}

TEST_CASE("DifferentCallsBreakTheGroupForAllAndBothAreNamed") {
  Fixture f;
  const std::uint64_t group = f.Form(3);
  CHECK(f.Meet(group, 1, 0).waits);
  const auto other = f.Sum(group, 1, 2, 1);
  CHECK(other.code == StatusCode::kInvalidArgument);
  CHECK(other.text ==
        "rank 2 (m3) calls allreduce (sum of 1 x i64) where rank 0 (m1) calls barrier");
  CHECK(other.wakes);
  CHECK(f.Meet(group, 1, 0).text == other.text);
  CHECK(f.Meet(group, 1, 1).code == StatusCode::kInvalidArgument);
}

TEST_CASE("WhoLeavesBreaksTheGroupForTheOthers") {
  Fixture f;
  const std::uint64_t group = f.Form(2);
  CHECK(f.Meet(group, 1, 0).waits);
  CHECK(f.Meet(group, 1, 1).wakes);
  CHECK(f.groups.Leave(f.Place(2), {group, 2}).wakes);
  CHECK(f.Meet(group, 1, 0).code == StatusCode::kOk);  // A complete meeting stays complete.
  const auto next = f.Meet(group, 2, 0);
  CHECK(next.code == StatusCode::kAborted);
  CHECK(next.text == "rank 1 (m2) has left the group");
  f.groups.Leave(f.Place(1), {group, 1});
  CHECK(f.Meet(group, 2, 0).text.find("not known any more") != std::string::npos);
}

TEST_CASE("WhoGivesUpJoiningIsNotCounted") {
  Fixture f;
  CHECK(f.Join(1, 2).waits);
  f.groups.Leave(f.Place(1), {0, 1});
  CHECK(f.Join(2, 2).waits);
  CHECK_FALSE(f.Join(3, 2).waits);
}

TEST_CASE("ALostConnectionBreaksTheGroupAfterAWhile") {
  Fixture f;
  const std::uint64_t group = f.Form(2);
  CHECK(f.Meet(group, 1, 0).waits);
  f.groups.Suspect(SessionId(2), 10 * kSecond);
  const auto nobody = [](SessionId) { return false; };
  CHECK(f.groups.CheckSuspects(11 * kSecond, nobody).empty());
  CHECK(f.Meet(group, 1, 0).waits);
  CHECK(f.groups.CheckSuspects(13 * kSecond, nobody).size() == 1);
  CHECK(f.Meet(group, 1, 0).text == "rank 1 (m2) has lost its connection");
}

TEST_CASE("WhoIsBackInTimeIsNotLost") {
  Fixture f;
  const std::uint64_t group = f.Form(2);
  CHECK(f.Meet(group, 1, 0).waits);
  f.groups.Suspect(SessionId(2), 10 * kSecond);
  CHECK(f.groups.CheckSuspects(20 * kSecond, [](SessionId) { return true; }).empty());
  CHECK_FALSE(f.Meet(group, 1, 1).waits);
}

TEST_CASE("NumbersOutOfRangeAreRefused") {
  Fixture f;
  const std::uint64_t group = f.Form(2);
  CHECK(f.Meet(group, 1, 2).code == StatusCode::kInvalidArgument);
  CHECK(f.Meet(group, 9, 1).code == StatusCode::kInvalidArgument);
  CHECK(f.Meet(group + 1, 1, 1).code == StatusCode::kAborted);
  CHECK(f.Meet(0, 1, 1).code == StatusCode::kAborted);
}

TEST_CASE("ContributionsAreBounded") {
  Fixture f;
  const std::vector<std::byte> contribution(wire::kContributionBytesMax);
  wire::CollectiveCall call;
  call.collective = Collective::kAllReduce;
  constexpr std::uint32_t kSize = ProcessGroups::kContributedBytesMax / wire::kContributionBytesMax;
  const std::uint64_t group = f.Form(kSize + 2);
  for (std::uint32_t rank = 0; rank < kSize; ++rank) {
    REQUIRE(f.Meet(group, 1, rank, call, contribution).waits);
  }
  CHECK(f.Meet(group, 1, kSize, call, contribution).code == StatusCode::kResourceExhausted);
}

TEST_CASE("GroupsBeyondTheBoundReplaceThoseThatNobodyMeetsInAnyMore") {
  Fixture f;
  const std::uint64_t first = f.Form(1);
  std::uint64_t last = 0;
  for (std::uint64_t i = 0; i < ProcessGroups::kInstancesMax; ++i) {
    last = wire::LoadJoinReply(f.Join(100 + i, 1).value)->instance;
  }
  CHECK(f.Meet(first, 1, 0).code == StatusCode::kAborted);
  CHECK(f.Meet(last, 1, 0).code == StatusCode::kOk);
}

TEST_CASE("AReductionAddsUpWhateverNumbersMembersGoBy") {
  Fixture f;  // Member 0 is refused before it comes here; nothing depends on it.
  CHECK(f.Join(0, 2).waits);
  const auto group = wire::LoadJoinReply(f.Join(5, 2).value);
  REQUIRE(group.ok());
  CHECK(group->rank == 1);
  CHECK(f.Sum(group->instance, 1, 0, 3).waits);
  CHECK(Fixture::Number(f.Sum(group->instance, 1, 1, 4)) == 7);
}

TEST_CASE("WhoGoesOnToAnotherCallDoesNotGetTheResultOfTheLast") {
  Fixture f;
  const std::uint64_t group = f.Form(3);
  // Rank 0 stops waiting for a barrier, which the other members then complete, and makes another
  // call.
  CHECK(f.Meet(group, 1, 0, {}, {}, false).code == StatusCode::kDeadlineExceeded);
  CHECK(f.Meet(group, 1, 1).waits);
  CHECK_FALSE(f.Meet(group, 1, 2).waits);
  const auto other = f.Sum(group, 1, 0, 7);
  CHECK(other.code == StatusCode::kInvalidArgument);
  CHECK(other.text ==
        "rank 0 (m1) calls allreduce (sum of 1 x i64) where the others have called barrier");
  CHECK(other.wakes);
  CHECK(f.Meet(group, 2, 1).text == other.text);
}

TEST_CASE("WhoGoesOnToAnotherCallBeforeTheOthersComeBreaksTheGroupAtOnce") {
  Fixture f;
  const std::uint64_t group = f.Form(2);
  CHECK(f.Meet(group, 1, 0, {}, {}, false).code == StatusCode::kDeadlineExceeded);
  const auto other = f.Sum(group, 1, 0, 7);
  CHECK(other.text == "rank 0 (m1) calls allreduce (sum of 1 x i64) where it calls barrier");
  CHECK(f.Meet(group, 1, 1).code == StatusCode::kInvalidArgument);
}

TEST_CASE("WhoGivesUpJoiningLeavesAGroupThatHasFormedMeanwhile") {
  Fixture f;
  CHECK(f.Join(1, 2, 0).waits);
  const auto group = wire::LoadJoinReply(f.Join(2, 2, 1).value);
  REQUIRE(group.ok());
  CHECK(f.Meet(group->instance, 1, 1).waits);
  CHECK(f.groups.Leave(f.Place(1), {0, 1}).wakes);
  CHECK(f.Meet(group->instance, 1, 1).text == "rank 0 (m1) has left the group");
}

TEST_CASE("ManyThatComeAndGoLeaveTheRestInItsOrder") {
  test::Random random("ManyThatComeAndGoLeaveTheRestInItsOrder");
  Fixture f;
  constexpr std::uint32_t kSize = 40;
  std::vector<std::uint64_t> there;
  std::uint64_t next = 0;
  while (there.size() + 1 < kSize) {
    if (!there.empty() && random.Below(5) < 2) {
      const auto gone = there.begin() + static_cast<std::ptrdiff_t>(random.Below(there.size()));
      f.groups.Leave(f.Place(*gone), {0, *gone});
      there.erase(gone);
      continue;
    }
    there.push_back(++next);
    REQUIRE(f.Join(next, kSize).waits);
  }
  const auto text = f.Join(there[0], kSize, -1, false).text;
  CHECK(text.find("39 of 40 members have come: a member (m" + std::to_string(there[0]) + "), ") ==
        0);
  CHECK(text.find(" and 31 more") != std::string::npos);
  there.push_back(++next);
  REQUIRE_FALSE(f.Join(next, kSize).waits);
  for (std::uint32_t i = 0; i < kSize; ++i) {
    CHECK(wire::LoadJoinReply(f.Join(there[i], kSize).value)->rank == i);
  }
}

TEST_CASE("TheMissingAreNamedAsTheyAreNow") {
  Fixture f;
  constexpr std::uint32_t kSize = 12;
  const std::uint64_t group = f.Form(kSize);
  CHECK(f.Meet(group, 1, 0, {}, {}, false).text.find("rank 8 (m9) and 3 more") !=
        std::string::npos);
  for (std::uint32_t rank = 1; rank + 1 < kSize; ++rank) CHECK(f.Meet(group, 1, rank).waits);
  CHECK(f.Meet(group, 1, 0, {}, {}, false).text == "not come to the barrier: rank 11 (m12)");
  CHECK_FALSE(f.Meet(group, 1, kSize - 1).waits);
  CHECK(f.Sum(group, 2, 0, 1).waits);
  CHECK(f.Meet(group, 2, 0, {Collective::kAllReduce, {}, {}, 0, 0}, Fixture::AsBytesOf(1), false)
            .text.find("not come to the allreduce (sum of 1 x i64): rank 1 (m2)") == 0);
}

// Each of the members that wait asks again every second.
TEST_CASE("AskingAgainCostsTheSameInALargeGroup") {
  Fixture f;
  constexpr std::uint32_t kSize = wire::kProcessGroupSizeMax;
  for (std::uint32_t i = 0; i + 1 < kSize; ++i) {
    if (!f.Join(i + 1, kSize, static_cast<std::int32_t>(i)).waits) FAIL("member " << i);
  }
  // With a step per member in each this would be 8e9.
  for (std::uint32_t i = 0; i + 1 < kSize; ++i) {
    const auto missing = f.Join(i + 1, kSize, static_cast<std::int32_t>(i), false);
    if (missing.text != "65535 of 65536 members have come; missing: rank 65535") {
      FAIL(missing.text);
    }
  }
  CHECK_FALSE(f.Join(kSize, kSize).waits);
}

TEST_CASE("MembersAreBounded") {
  Fixture f;
  std::uint64_t member = 0;
  const auto join = [&](const std::string& name, std::uint32_t size) {
    ++member;
    ProcessGroups::Place place = f.Place(member);
    place.name = name;
    return f.groups.Join(place, {member, size, -1, "label"});
  };
  constexpr std::uint32_t kSize = wire::kProcessGroupSizeMax;
  for (std::size_t i = 0; i < ProcessGroups::kMembersMax; ++i) {
    const auto outcome = join(std::to_string(i / (kSize - 1)), kSize);
    if (!outcome.waits) FAIL("member " << i << ": " << outcome.text);
  }
  CHECK(join("other", 2).code == StatusCode::kResourceExhausted);
  ProcessGroups::Place place = f.Place(1);
  place.name = "0";
  CHECK(f.groups.Join(place, {1, kSize, -1, "label"}).waits);  // A label that exists already.
  f.groups.Leave(place, {0, 1});
  CHECK(join("other", 2).code == StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace tidepool::daemon
