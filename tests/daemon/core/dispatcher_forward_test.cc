// Forwarded groups: handed over once, whatever happens to the connection, and answered after the
// aggregator's answer. The aggregator is the test's own, so the test decides when it answers. The
// real aggregator is in node_aggregation_test.
#include <catch2/catch.hpp>
#include <deque>
#include <mutex>

#include "proto/wire/pack.h"
#include "tests/daemon/raw_client.h"

namespace tidepool::daemon {
namespace {

// Keeps the received frames.
class Holder : public wire::Aggregator {
 public:
  void Forward(wire::ForwardedFrame frame) override {
    const std::lock_guard lock(mutex_);
    frames_.push_back(std::move(frame));
  }
  void Stop() override {}

  wire::ForwardedFrame Take() {
    const std::lock_guard lock(mutex_);
    REQUIRE_FALSE(frames_.empty());
    wire::ForwardedFrame frame = std::move(frames_.front());
    frames_.pop_front();
    return frame;
  }
  std::size_t size() {
    const std::lock_guard lock(mutex_);
    return frames_.size();
  }

 private:
  std::mutex mutex_;
  std::deque<wire::ForwardedFrame> frames_;
};

struct Fixture {
  Holder holder;
  TestNode node{1, 256ull << 20, Kind::kHash, 0, "none", nullptr, &holder};
  RawClient client{node};
  Fixture() { client.Attach(); }

  // Returns a frame with groups of `counts` adds for other owners' partitions.
  static std::string Request(const wire::FrameHeader& header,
                             const std::vector<std::uint32_t>& counts) {
    std::string frame(limits::kFrameBytesMax, '\0');
    wire::RequestWriter writer({reinterpret_cast<std::byte*>(frame.data()), frame.size()});
    std::uint32_t partition = 77;
    for (const std::uint32_t count : counts) {
      wire::Pack pack;
      for (std::uint32_t i = 0; i < count; ++i) {
        const wire::Operation add = AddOp("n", 1);
        pack.Add(wire::HeaderOf(add), add.get(wire::Argument::kOperand), add.key, add.value);
      }
      REQUIRE(writer.AddEncodedGroup(PartitionId(partition++), Term(1), true, pack.count(),
                                     pack.uniform(), pack.bytes(), true));
    }
    frame.resize(writer.Finish(header));
    return frame;
  }
  // Returns the frame that the core has handed over.
  wire::ForwardedFrame Forwarded() {
    client.Settle();
    return holder.Take();
  }
  void End(const wire::ForwardedFrame& frame, std::vector<wire::ForwardedFailure> failures = {}) {
    node.cores().OnForwarded(frame.core, {{frame.ticket, 1, std::move(failures)}});
  }
  void CheckAllOk(std::uint16_t count) {
    for (std::uint16_t i = 0; i < count; ++i) {
      const OwnedAnswer answer = client.WaitAnswer();
      CHECK(answer.answer.index == i);
      CHECK(answer.answer.code == StatusCode::kOk);
    }
  }
};

TEST_CASE_METHOD(Fixture, "ForwardedGroupsAreAnsweredWhenTheAggregatorHas") {
  client.Send(Request(client.NextHeader(), {3, 2}));
  const wire::ForwardedFrame frame = Forwarded();
  REQUIRE(frame.groups.size() == 2);
  CHECK(frame.groups[0].partition == PartitionId(77));
  CHECK(frame.groups[1].partition == PartitionId(78));
  CHECK(frame.groups[1].first == 3);
  CHECK(frame.groups[1].count == 2);
  CHECK(AsText(wire::KeyInPack(frame.groups[1].body, frame.groups[1].uniform, 1)) == "n");
  client.Settle();
  CHECK_FALSE(client.HasAnswer());
  End(frame);
  CheckAllOk(5);
  CHECK(client.runs() == 1);
}

TEST_CASE_METHOD(Fixture, "FailuresOfForwardedOperationsAreToldByIndex") {
  client.Send(Request(client.NextHeader(), {3, 3}));
  End(Forwarded(), {{1, 1, StatusCode::kInvalidArgument, "no counter"},
                    {2, 3, StatusCode::kUnknown, "no answer"}});
  for (std::uint16_t i = 0; i < 6; ++i) {
    const OwnedAnswer answer = client.WaitAnswer();
    CHECK(answer.answer.index == i);
    const bool unknown = i >= 2 && i < 5;
    CHECK(answer.answer.code == (i == 1    ? StatusCode::kInvalidArgument
                                 : unknown ? StatusCode::kUnknown
                                           : StatusCode::kOk));
    CHECK(answer.value == (i == 1 ? "no counter" : unknown ? "no answer" : ""));
  }
}

TEST_CASE_METHOD(Fixture, "AForwardedFrameThatComesAgainIsHandedOverOnceAndAnsweredAlike") {
  const wire::FrameHeader header = client.NextHeader();
  client.Send(Request(header, {4}));
  const wire::ForwardedFrame frame = Forwarded();
  // Again before its outcome, over a new connection,
  client.CutConnection();
  REQUIRE(client.Attach());
  wire::FrameHeader again = header;
  again.connection = client.attached().connection;
  client.Send(Request(again, {4}));
  client.Settle();
  CHECK(holder.size() == 0);
  End(frame, {{1, 1, StatusCode::kUnknown, "no answer"}});
  // and after it.
  for (int round = 0; round < 2; ++round) {
    for (std::uint16_t i = 0; i < 4; ++i) {
      const OwnedAnswer answer = client.WaitAnswer();
      CHECK(answer.answer.index == i);
      CHECK(answer.answer.code == (i == 1 ? StatusCode::kUnknown : StatusCode::kOk));
    }
    if (round == 0) client.Send(Request(again, {4}));
  }
  CHECK(holder.size() == 0);
}

TEST_CASE_METHOD(Fixture, "AnOutcomeThatNobodyWaitsForIsDropped") {
  const wire::FrameHeader header = client.NextHeader();
  client.Send(Request(header, {2}));
  const wire::ForwardedFrame given_up = Forwarded();
  client.ack_watermark = header.frame_id + 1;  // The client's deadline has passed.
  client.Send(Request(client.NextHeader(), {2}));
  const wire::ForwardedFrame next = Forwarded();
  End(given_up);
  End(given_up);  // The ticket is unknown by now.
  End(next);
  CheckAllOk(2);
  client.Settle();
  CHECK_FALSE(client.HasAnswer());
}

TEST_CASE_METHOD(Fixture, "ForwardedGroupsTakeCreditUntilTheyAreAnsweredOrGivenUp") {
  // All but a few of the credit, in frames of 16 groups.
  const std::vector<std::uint32_t> groups(16, 1);
  const std::uint32_t frames = client.attached().credit_operations / 16 - 1;
  const auto send = [&] {
    wire::FrameHeader last;
    for (std::uint32_t i = 0; i < frames; ++i) {
      last = client.NextHeader();
      client.Send(Request(last, groups));
    }
    client.Settle();
    return last.frame_id;
  };
  const std::uint64_t last = send();
  REQUIRE_FALSE(client.lost());
  REQUIRE(holder.size() == frames);
  // Given up: there is room for as many again, and not for more.
  client.ack_watermark = last + 1;
  (void)send();
  REQUIRE_FALSE(client.lost());
  REQUIRE(holder.size() == 2 * frames);
  client.Send(Request(client.NextHeader(), groups));
  client.Send(Request(client.NextHeader(), groups));
  client.WaitLost();
}

TEST_CASE("WithoutAnAggregatorForwardedGroupsAreRefused") {
  TestNode node;
  RawClient client(node);
  client.Attach();
  client.Send(Fixture::Request(client.NextHeader(), {2}));
  const OwnedAnswer refusal = client.WaitAnswer();
  CHECK(refusal.answer.scope == wire::Answer::Scope::kGroup);
  CHECK(refusal.answer.code == StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace tidepool::daemon
