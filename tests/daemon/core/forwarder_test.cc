// Frames that the forwarder gives to the aggregator, and its memory of them.
#include "daemon/core/forwarder.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace tidepool::daemon {
namespace {

class Recorder final : public wire::Aggregator {
 public:
  void Forward(wire::ForwardedFrame frame) override { frames.push_back(std::move(frame)); }
  void Stop() override {}
  std::vector<wire::ForwardedFrame> frames;
};

wire::Group Group(std::uint32_t first, std::uint32_t count) {
  wire::Group group;
  group.partition = PartitionId(NamespaceId(1), first);
  group.first_operation = first;
  group.operation_count = count;
  return group;
}

struct Fixture {
  Recorder aggregator;
  Forwarder forwarder;
  std::shared_ptr<std::uint64_t> held_bytes = std::make_shared<std::uint64_t>(0);

  Fixture() { forwarder.set_aggregator(&aggregator); }
  // Sends a frame of one group with two operations; returns its ticket.
  std::uint64_t Send(std::uint64_t session, std::uint64_t frame_id) {
    RequestAtHand at_hand;
    at_hand.request.header.frame_id = frame_id;
    at_hand.request.header.map_epoch = 7;
    at_hand.copy = std::make_shared<const std::vector<std::byte>>(16);
    at_hand.held = std::make_shared<const HeldBytes>(held_bytes, 16);
    forwarder.Plan(0, Group(0, 2), Bytes(*at_hand.copy).first(4));
    forwarder.Send(CoreId(3), SessionId(session), at_hand, 1'000);
    return aggregator.frames.back().ticket;
  }
};

TEST_CASE("all forwarded groups of a frame go together under one ticket") {
  Fixture fixture;
  RequestAtHand at_hand;
  at_hand.request.header.frame_id = 5;
  at_hand.request.header.map_epoch = 9;
  at_hand.copy = std::make_shared<const std::vector<std::byte>>(16);
  CHECK_FALSE(fixture.forwarder.has_planned());
  fixture.forwarder.Plan(1, Group(0, 2), Bytes(*at_hand.copy).first(4));
  fixture.forwarder.Plan(4, Group(2, 3), Bytes(*at_hand.copy).subspan(4, 8));
  CHECK(fixture.forwarder.has_planned());
  fixture.forwarder.Send(CoreId(3), SessionId(6), at_hand, 1'000);
  CHECK_FALSE(fixture.forwarder.has_planned());

  REQUIRE(fixture.aggregator.frames.size() == 1);
  const wire::ForwardedFrame& sent = fixture.aggregator.frames[0];
  CHECK(sent.core == CoreId(3));
  CHECK(sent.session == SessionId(6));
  CHECK(sent.epoch == Epoch(9));
  CHECK(sent.deadline_ns == 1'000);
  CHECK(sent.bytes == at_hand.copy);
  REQUIRE(sent.groups.size() == 2);
  CHECK(sent.groups[1].first == 2);
  CHECK(sent.groups[1].count == 3);

  const std::optional<ForwardedGroups> taken = fixture.forwarder.Take(sent.ticket);
  REQUIRE(taken.has_value());
  CHECK(taken->frame_id == 5);
  CHECK(taken->credit == Group(0, 2).credit() + Group(2, 3).credit());
  REQUIRE(taken->groups.size() == 2);
  CHECK(taken->groups[1].number == 4);
}

TEST_CASE("an outcome is taken once, and unknown tickets are passed over") {
  Fixture fixture;
  const std::uint64_t first = fixture.Send(1, 1);
  const std::uint64_t second = fixture.Send(1, 2);
  CHECK(first != second);
  CHECK_FALSE(fixture.forwarder.Take(second + 1).has_value());
  CHECK(fixture.forwarder.Take(first).has_value());
  CHECK_FALSE(fixture.forwarder.Take(first).has_value());
  CHECK(fixture.forwarder.size() == 1);
}

TEST_CASE(
    "a frame that its client has given up returns its credit once and waits for its outcome") {
  Fixture fixture;
  const std::uint64_t given_up = fixture.Send(1, 1);
  fixture.Send(1, 2);
  fixture.Send(2, 1);
  const std::uint32_t credit = Group(0, 2).credit();
  CHECK(*fixture.held_bytes == 3 * 16);
  CHECK(fixture.forwarder.ReleaseBelow(SessionId(1), 2) == credit);
  CHECK(*fixture.held_bytes == 2 * 16);
  CHECK(fixture.forwarder.ReleaseBelow(SessionId(1), 2) == 0);
  const std::optional<ForwardedGroups> taken = fixture.forwarder.Take(given_up);
  REQUIRE(taken.has_value());
  CHECK(taken->credit == 0);
  CHECK(fixture.forwarder.size() == 2);
}

}  // namespace
}  // namespace tidepool::daemon
