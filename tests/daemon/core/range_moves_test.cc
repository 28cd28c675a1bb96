// The two sides of a range that moves between cores, without a splitter: each side when the other
// side fails to do its part.
#include "daemon/core/range_moves.h"

#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/core/core.h"
#include "daemon/core/range_parcel.h"
#include "tests/daemon/raw_client.h"

namespace tidepool::daemon {
namespace {

using Stage = RangeMove::Stage;

struct Fixture {
  explicit Fixture(std::uint64_t memory_bytes = 512ull << 20)
      : node(1, memory_bytes, Kind::kOrdered), client(node) {
    client.Attach();
    move->from = PartitionId(TestNode::space(), 0);
    move->term = node.term();
    move->to = PartitionId(TestNode::space(), 1);
    move->key = "m";
    move->post = [this](CoreId core, std::function<void(Core&)> task) {
      return node.cores().Post(core, std::move(task));
    };
  }
  ~Fixture() {
    OnCore([&](Core& core) {
      core.dispatcher().range_moves().CancelSource(*move);
      core.dispatcher().range_moves().CancelTarget(*move);
    });
  }
  void OnCore(const std::function<void(Core&)>& task) {
    REQUIRE(node.cores().Run(CoreId(0), task, Deadline::AfterMs(10'000)).ok());
  }
  void Put(const std::string& key, const std::string& value) {
    client.Call({PutOp(key, value)});
    const OwnedAnswer answer = client.WaitAnswer();
    REQUIRE(answer.answer.code == StatusCode::kOk);
    client.ack_watermark = answer.frame_id + 1;
  }

  TestNode node;
  RawClient client;
  const RangeMovePtr move = std::make_shared<RangeMove>();
};

TEST_CASE("AMoveWhoseTargetIsGoneFailsAndLeavesNothingUnapplied") {
  Fixture fixture;
  for (int i = 0; i < 100; ++i) fixture.Put("n" + std::to_string(i), std::string(1'000, 'v'));
  fixture.OnCore([&](Core& core) {
    RangeMoves& moves = core.dispatcher().range_moves();
    REQUIRE(moves.StartTarget(fixture.move).ok());
    REQUIRE(moves.StartSource(fixture.move).ok());
    // Like a map that gives its number to another node.
    core.dispatcher().ownership().CancelImport(fixture.move->to);
  });
  const Deadline deadline = Deadline::AfterMs(30'000);
  while (fixture.move->stage.load() != Stage::kFailed ||
         fixture.move->unapplied_bytes.load() != 0) {
    REQUIRE_FALSE(deadline.Passed());
    fixture.OnCore([](Core&) {});
  }
  // The source serves on as if nothing had been.
  fixture.Put("n1", "new");
  CHECK(fixture.move->unapplied_bytes.load() == 0);
}

TEST_CASE("ChangesAreHeldBackWhileTheTargetIsTooFarBehind") {
  Fixture fixture;
  const std::string value(8'000, 'v');
  const std::vector<wire::Operation> puts(16, PutOp("n", value));
  const auto put = [&] {
    return fixture.node.cores()
        .Execute(CoreId(0), fixture.move->from, fixture.move->term, puts, 1024,
                 Deadline::AfterMs(10'000))
        .code();
  };
  // No target: sent changes are never applied.
  fixture.OnCore(
      [&](Core& core) { REQUIRE(core.dispatcher().range_moves().StartSource(fixture.move).ok()); });
  const std::uint64_t step = puts.size() * value.size();
  for (std::uint64_t sent = 0; put() == StatusCode::kOk; sent += step) {
    REQUIRE(sent < 2 * RangeMove::kUnappliedBytesHold);
  }
  CHECK(put() == StatusCode::kWrongEpoch);  // Over gRPC the caller must ask again.
  CHECK(fixture.move->unapplied_bytes.load() < RangeMove::kUnappliedBytesHold + 2 * step);
  // As if the target had caught up.
  fixture.move->unapplied_bytes = 0;
  const Deadline deadline = Deadline::AfterMs(30'000);
  while (put() != StatusCode::kOk) REQUIRE_FALSE(deadline.Passed());
  // And with the end of the move.
  while (put() == StatusCode::kOk) REQUIRE_FALSE(deadline.Passed());
  fixture.OnCore([&](Core& core) { core.dispatcher().range_moves().CancelSource(*fixture.move); });
  CHECK(put() == StatusCode::kOk);
}

TEST_CASE("WhatHasLeftMakesRoomForLargeValuesThatAreStillToCome") {
  Fixture fixture(160ull << 20);
  const std::string value(8'000, 'v');
  std::vector<std::string> keys;
  for (int i = 0; i < 3'600; ++i) keys.push_back("n" + std::to_string(i));
  for (std::size_t i = 0; i < keys.size(); i += 16) {
    std::vector<wire::Operation> puts;
    for (std::size_t k = i; k < i + 16; ++k) puts.push_back(PutOp(keys[k], value));
    REQUIRE(fixture.node.cores()
                .Execute(CoreId(0), fixture.move->from, fixture.move->term, puts, 1024,
                         Deadline::AfterMs(10'000))
                .ok());
  }
  fixture.OnCore([&](Core& core) {
    REQUIRE(core.dispatcher().range_moves().StartTarget(fixture.move).ok());
    REQUIRE(core.dispatcher().range_moves().StartSource(fixture.move).ok());
  });
  const auto wait_until = [&](const char* what, const std::function<bool()>& condition) {
    const Deadline deadline = Deadline::AfterMs(30'000);
    while (!condition()) {
      INFO("waiting for " << what);
      REQUIRE_FALSE(deadline.Passed());
      fixture.OnCore([](Core&) {});
    }
  };
  wait_until("the copy", [&] { return fixture.move->stage.load() == Stage::kFollowing; });
  // All small records are there twice, and this record has no room to be there twice.
  const std::string large(40u << 20, 'l');
  UploadValue(fixture.client, 1, large);
  wire::Operation put = PutOp("z", "");
  put.set(wire::Argument::kUpload, 1);
  fixture.client.Call({put});
  REQUIRE(fixture.client.WaitAnswer().answer.code == StatusCode::kOk);
  wait_until("a full memory", [&] { return fixture.move->out_of_memory.load(); });
  fixture.node.SetRanges({"", "m"});
  wait_until("the end", [&] { return fixture.move->stage.load() == Stage::kDone; });
  fixture.client.Call({GetOp("z")});
  const OwnedAnswer found = fixture.client.WaitAnswer();
  CHECK(found.answer.code == StatusCode::kOk);
  CHECK(found.answer.number == large.size());
  // In the end no moved-out record is there twice.
  const auto records_of = [&](PartitionId partition) {
    std::size_t records = 0;
    fixture.OnCore([&](Core& core) { records = core.store().Find(partition)->store().size(); });
    return records;
  };
  wait_until("the removal", [&] { return records_of(fixture.move->from) == 0; });
  CHECK(records_of(fixture.move->to) == keys.size() + 1);
}

TEST_CASE("ATargetThatIsFarBehindIsUrgentBeforeTheCutToo") {
  Fixture fixture;
  bool urgent_when_close = true;
  bool urgent_when_behind = false;
  fixture.OnCore([&](Core& core) {
    RangeMoves& moves = core.dispatcher().range_moves();
    REQUIRE(moves.StartTarget(fixture.move).ok());
    auto parcel = std::make_shared<std::vector<std::byte>>();
    AppendItem({.kind = RangeItem::Kind::kDelete, .key = AsBytes("n")}, parcel.get());
    moves.Receive(fixture.move->to, parcel);
    fixture.move->unapplied_bytes = RangeMove::kUnappliedBytesMax;
    urgent_when_close = moves.urgent();
    fixture.move->unapplied_bytes = RangeMove::kUnappliedBytesMax + 1;
    urgent_when_behind = moves.urgent();
  });
  CHECK_FALSE(urgent_when_close);
  CHECK(urgent_when_behind);
}

}  // namespace
}  // namespace tidepool::daemon
