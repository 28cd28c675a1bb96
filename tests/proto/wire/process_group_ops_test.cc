#include "proto/wire/process_group_ops.h"

#include <array>
#include <catch2/catch.hpp>
#include <vector>

#include "tests/support/random.h"

namespace tidepool::wire {
namespace {

TEST_CASE("RequestsOfGroupsComeBackAsTheyWere") {
  std::array<std::byte, kMeetHeaderBytes + 8> bytes{};
  MeetRequest meet;
  meet.instance = 1ull << 40;
  meet.step = 7;
  meet.rank = 3;
  meet.call = {Collective::kReduce, Reduction::kMax, ElementType::kF64, 2, 8};
  StoreMeetHeader(meet, bytes.data());
  const auto loaded = LoadMeet(bytes);
  REQUIRE(loaded.ok());
  CHECK(loaded->instance == meet.instance);
  CHECK(loaded->step == meet.step);
  CHECK(loaded->rank == meet.rank);
  CHECK(loaded->call == meet.call);
  CHECK(Describe(loaded->call) == "reduce (max of 1 x f64 at rank 2)");
  StoreJoinReply({9, 1, 2}, bytes.data());
  CHECK(LoadJoinReply(Bytes(bytes).first(kJoinReplyBytes))->rank == 1);
  StoreLeave({5, 6}, bytes.data());
  CHECK(LoadLeave(Bytes(bytes).first(kLeaveBytes))->member == 6);
}

TEST_CASE("NoMemberHasTheNumber0") {
  std::array<std::byte, kJoinHeaderBytes> bytes{};
  StoreJoinHeader({1, 1, -1, {}}, bytes.data());
  CHECK(LoadJoin(bytes).ok());
  StoreJoinHeader({0, 1, -1, {}}, bytes.data());
  CHECK(LoadJoin(bytes).code() == StatusCode::kInvalidArgument);
}

TEST_CASE("WhatIsNoRequestOfAGroupIsRefused") {
  std::array<std::byte, kMeetHeaderBytes + 8> bytes{};
  StoreMeetHeader({1, 1, 0, {}, {}}, bytes.data());
  CHECK(LoadMeet(Bytes(bytes).first(kMeetHeaderBytes)).ok());
  CHECK_FALSE(LoadMeet(Bytes(bytes).first(kMeetHeaderBytes - 1)).ok());
  CHECK_FALSE(LoadMeet(bytes).ok());  // A barrier carries nothing.
  bytes[24] = std::byte{9};
  CHECK_FALSE(LoadMeet(bytes).ok());
  StoreMeetHeader({1, 1, 0, {Collective::kAllReduce, {}, {}, 0, 8}, {}}, bytes.data());
  CHECK(LoadMeet(bytes).ok());
  CHECK_FALSE(LoadMeet(Bytes(bytes).first(kMeetHeaderBytes + 7)).ok());
  CHECK_FALSE(LoadMeet(Bytes(bytes).first(kMeetHeaderBytes)).ok());
  StoreMeetHeader({1, 1, 0, {Collective::kBroadcast, {}, {}, 1, 0}, {}}, bytes.data());
  CHECK_FALSE(LoadMeet(bytes).ok());  // A value that is not the root's.
  const auto join = [&](std::uint32_t size, std::int32_t rank) {
    StoreJoinHeader({1, size, rank, {}}, bytes.data());
    return LoadJoin(Bytes(bytes).first(kJoinHeaderBytes)).ok();
  };
  CHECK(join(2, 1));
  CHECK_FALSE(join(0, -1));
  CHECK_FALSE(join(2, 2));
  CHECK_FALSE(join(2, -2));
  CHECK_FALSE(join(kProcessGroupSizeMax + 1, 0));
}

TEST_CASE("AnyBytesAreARequestOfAGroupOrRefused") {
  test::Random random("AnyBytesAreARequestOfAGroupOrRefused");
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::byte> bytes(random.Below(80));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.Below(4));
    (void)LoadJoin(bytes).ok();
    (void)LoadJoinReply(bytes).ok();
    (void)LoadLeave(bytes).ok();
    if (const auto meet = LoadMeet(bytes); meet.ok()) CHECK_FALSE(Describe(meet->call).empty());
  }
}

}  // namespace
}  // namespace tidepool::wire
