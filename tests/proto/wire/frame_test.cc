#include "proto/wire/frame.h"

#include <catch2/catch.hpp>

#include "tests/proto/wire/samples.h"

namespace tidepool::wire {
namespace {

using test::Frame;

Frame FrameOf(FrameHeader header, std::size_t bytes = limits::kFrameHeaderBytes) {
  Frame frame(bytes);
  header.bytes = static_cast<std::uint32_t>(bytes);
  StoreHeader(frame.data(), header);
  return frame;
}

bool Decodes(const Frame& frame) {
  FrameHeader header;
  const Status status = DecodeHeader(frame, &header);
  CHECK((status.ok() || status.code() == StatusCode::kInvalidArgument));
  return status.ok();
}

TEST_CASE("AHeaderComesBackAsItWasStored") {
  test::Random random("AHeaderComesBackAsItWasStored");
  for (int i = 0; i < 1'000; ++i) {
    FrameHeader stored = test::RandomHeader(random);
    stored.type = static_cast<FrameType>(1 + random.Below(kFrameTypeMax));
    const Frame frame = FrameOf(stored);
    FrameHeader decoded;
    REQUIRE(DecodeHeader(frame, &decoded).ok());
    stored.bytes = static_cast<std::uint32_t>(frame.size());
    REQUIRE(std::memcmp(&stored, &decoded, sizeof stored) == 0);
  }
}

TEST_CASE("AHeaderCutOffAnywhereIsRefused") {
  const Frame whole = FrameOf({});
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    CHECK_FALSE(Decodes(Frame(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes))));
  }
  CHECK(Decodes(whole));
}

TEST_CASE("AFrameOfTheLargestSizeIsAcceptedAndOneByteMoreIsNot") {
  CHECK(Decodes(FrameOf({}, limits::kFrameBytesMax)));
  CHECK_FALSE(Decodes(FrameOf({}, limits::kFrameBytesMax + 1)));
}

TEST_CASE("AForeignMagicIsRefused") {
  FrameHeader header;
  header.magic ^= 1;
  CHECK_FALSE(Decodes(FrameOf(header)));
}

TEST_CASE("AnotherWireVersionIsRefusedAndSaysWhatToDo") {
  FrameHeader header;
  header.version = kWireVersion + 1;
  FrameHeader decoded;
  const Status status = DecodeHeader(FrameOf(header), &decoded);
  CHECK(status.code() == StatusCode::kInvalidArgument);
  CHECK_FALSE(status.remedy().empty());
}

TEST_CASE("OnlyKnownFrameTypesAreAccepted") {
  for (int type = 0; type <= 255; ++type) {
    FrameHeader header;
    header.type = static_cast<FrameType>(type);
    CHECK(Decodes(FrameOf(header)) == (type >= 1 && type <= kFrameTypeMax));
  }
}

TEST_CASE("AFrameThatSaysAnotherSizeThanItHasIsRefused") {
  for (const int difference : {-1, 1, 1'000}) {
    Frame frame = FrameOf({}, 100);
    FrameHeader header;
    header.bytes = static_cast<std::uint32_t>(100 + difference);
    StoreHeader(frame.data(), header);
    CHECK_FALSE(Decodes(frame));
  }
}

TEST_CASE("FieldsLieWhereTheWireHasThem") {
  // Fixed for ever: another release, and other languages, count on these bytes.
  static_assert(offsetof(FrameHeader, version) == 4 && offsetof(FrameHeader, type) == 5);
  static_assert(offsetof(FrameHeader, core) == 6 && offsetof(FrameHeader, bytes) == 8);
  static_assert(offsetof(FrameHeader, connection) == 12 && offsetof(FrameHeader, session) == 16);
  static_assert(offsetof(FrameHeader, frame_id) == 24 && offsetof(FrameHeader, map_epoch) == 32);
  static_assert(offsetof(FrameHeader, ack_watermark) == 40);
  static_assert(offsetof(FrameHeader, time_left_us) == 48);
  static_assert(offsetof(FrameHeader, reply_bytes_max) == 52);
  static_assert(offsetof(FrameHeader, operation_count) == 56);
  static_assert(offsetof(FrameHeader, group_count) == 60 &&
                offsetof(FrameHeader, checkpoint) == 64);
  const Frame frame = FrameOf({});
  CHECK(AsText(Bytes(frame).first(4)) == "TPF1");
}

TEST_CASE("AMarkStampTellsItsTimes") {
  const auto packed = [](std::uint64_t at_ms, std::uint64_t durable_at_ms) {
    return CheckpointStamp::Unpack(CheckpointStamp{at_ms, durable_at_ms}.Pack());
  };
  CHECK(packed(1'800'000'000'123, 1'799'999'999'000).at_ms == 1'800'000'000'123);
  CHECK(packed(1'800'000'000'123, 1'799'999'999'000).durable_at_ms == 1'799'999'999'000);
  CHECK(packed(1'800'000'000'123, 1'800'000'000'123).durable_at_ms == 1'800'000'000'123);
  // No checkpoint, a checkpoint of an hour ago, and words that no writer makes.
  CHECK(packed(1'800'000'000'123, 0).at_ms == 1'800'000'000'123);
  CHECK(packed(1'800'000'000'123, 0).durable_at_ms == 0);
  CHECK(packed(1'800'000'000'123, 1'799'996'400'000).durable_at_ms == 0);
  CHECK(CheckpointStamp::Unpack(0).at_ms == 0);
  CHECK(CheckpointStamp::Unpack(1000).durable_at_ms == 0);
}

}  // namespace
}  // namespace tidepool::wire
