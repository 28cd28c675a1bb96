// The list of groups that wait for a map.
#include "daemon/core/map_waiters.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <vector>

namespace tidepool::daemon {
namespace {

MapWaiter Waiter(std::uint64_t session, std::uint64_t frame_id, std::uint16_t group,
                 std::uint64_t deadline_ns = 1'000) {
  MapWaiter waiter;
  waiter.session = SessionId(session);
  waiter.frame_id = frame_id;
  waiter.group = group;
  waiter.credit = 1;
  waiter.deadline_ns = deadline_ns;
  waiter.frame = std::make_shared<const std::vector<std::byte>>(8);
  return waiter;
}

std::vector<std::uint64_t> FramesOf(MapWaiters& waiters) {
  std::vector<std::uint64_t> frames;
  waiters.Retry([&frames](const MapWaiter& each) {
    frames.push_back(each.frame_id);
    return true;
  });
  return frames;
}

TEST_CASE("groups that wait for a map are tried in the order of arrival, and stay in it") {
  MapWaiters waiters;
  for (std::uint64_t frame = 1; frame <= 6; ++frame) waiters.Add(Waiter(1, frame, 0));
  std::vector<std::uint64_t> tried;
  waiters.Retry([&tried](const MapWaiter& each) {
    tried.push_back(each.frame_id);
    return each.frame_id % 2 == 0;
  });
  CHECK(tried == std::vector<std::uint64_t>{1, 2, 3, 4, 5, 6});
  CHECK(FramesOf(waiters) == std::vector<std::uint64_t>{2, 4, 6});
  CHECK(waiters.size() == 3);
}

TEST_CASE("a group that must wait again while others are tried comes behind those before it") {
  MapWaiters waiters;
  for (std::uint64_t frame = 1; frame <= 3; ++frame) waiters.Add(Waiter(1, frame, 0));
  unsigned attempts = 0;
  waiters.Retry([&](const MapWaiter& each) {
    ++attempts;
    if (each.frame_id != 2) return true;
    waiters.Add(Waiter(each.session.value(), each.frame_id, each.group));
    return false;
  });
  CHECK(attempts == 3);  // The addition is not tried in the same walk.
  CHECK(FramesOf(waiters) == std::vector<std::uint64_t>{1, 2, 3});
}

TEST_CASE("frames that a client has finished wait no more, those of other clients do") {
  MapWaiters waiters;
  waiters.Add(Waiter(1, 1, 0));
  waiters.Add(Waiter(1, 1, 1));
  waiters.Add(Waiter(2, 1, 0));
  waiters.Add(Waiter(1, 2, 0));
  std::vector<std::uint16_t> dropped;
  waiters.DropBelow(SessionId(1), 2, [&dropped](const MapWaiter& each) {
    CHECK(each.session == SessionId(1));
    CHECK(each.frame_id == 1);
    dropped.push_back(each.group);
  });
  CHECK(dropped == std::vector<std::uint16_t>{0, 1});
  CHECK(FramesOf(waiters) == std::vector<std::uint64_t>{1, 2});
  waiters.Clear();
  CHECK(waiters.empty());
}

TEST_CASE("the next deadline is the earliest of all groups that wait for a map") {
  MapWaiters waiters;
  CHECK(waiters.NextDeadlineNs() == UINT64_MAX);
  waiters.Add(Waiter(1, 1, 0, 300));
  waiters.Add(Waiter(1, 2, 0, 100));
  waiters.Add(Waiter(1, 3, 0, 200));
  CHECK(waiters.NextDeadlineNs() == 100);
  waiters.Retry([](const MapWaiter& each) { return each.frame_id != 2; });
  CHECK(waiters.NextDeadlineNs() == 200);
}

}  // namespace
}  // namespace tidepool::daemon
