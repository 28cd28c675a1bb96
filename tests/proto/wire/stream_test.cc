#include "proto/wire/stream.h"

#include <catch2/catch.hpp>
#include <string>

#include "tests/proto/wire/samples.h"

namespace tidepool::wire {
namespace {

using test::Frame;

Frame FrameOf(FrameType type, const StreamHeader& stream, std::string_view data) {
  FrameHeader header;
  header.type = type;
  Frame frame(limits::kFrameHeaderBytes + sizeof stream + data.size());
  CHECK(EncodeStream(header, stream, AsBytes(data), frame) == frame.size());
  return frame;
}

StreamHeader PartOf(std::uint32_t total_bytes, std::uint64_t offset) {
  StreamHeader stream;
  stream.stream = 9;
  stream.total_bytes = total_bytes;
  stream.offset = offset;
  stream.upload = 1;
  return stream;
}

bool Decodes(const Frame& frame) {
  StreamFrame decoded;
  const Status status = DecodeStream(frame, &decoded);
  CHECK((status.ok() || status.code() == StatusCode::kInvalidArgument));
  return status.ok();
}

constexpr std::size_t kStreamAt = limits::kFrameHeaderBytes;

template <typename T>
Frame Poked(Frame frame, std::size_t at, T value) {
  StoreUnaligned(frame.data() + at, value);
  return frame;
}

TEST_CASE("APartComesBackAsItWasWritten") {
  const Frame frame = FrameOf(FrameType::kStreamPart, PartOf(100, 40), "data");
  StreamFrame decoded;
  REQUIRE(DecodeStream(frame, &decoded).ok());
  CHECK(decoded.stream.stream == 9);
  CHECK(decoded.stream.offset == 40);
  CHECK(decoded.stream.total_bytes == 100);
  CHECK(decoded.stream.upload == 1);
  CHECK(AsText(decoded.data) == "data");
}

TEST_CASE("RandomStreamFramesComeBackByteForByte") {
  test::Random random("RandomStreamFramesComeBackByteForByte");
  for (int i = 0; i < 5'000; ++i) {
    const Frame frame = test::RandomStream(random, limits::kFrameBytesMax);
    StreamFrame decoded;
    REQUIRE(DecodeStream(frame, &decoded).ok());
    Frame again(frame.size());
    REQUIRE(EncodeStream(decoded.header, decoded.stream, decoded.data, again) == frame.size());
    REQUIRE(again == frame);
  }
}

TEST_CASE("AStreamFrameCutOffInItsHeaderIsRefused") {
  const Frame whole = FrameOf(FrameType::kStreamPart, PartOf(4, 0), "data");
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    Frame cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes));
    CHECK_FALSE(Decodes(cut));
    if (bytes < limits::kFrameHeaderBytes) continue;
    cut = Poked(cut, offsetof(FrameHeader, bytes), static_cast<std::uint32_t>(bytes));
    // A part with fewer bytes of data is a part.
    CHECK(Decodes(cut) == (bytes >= kStreamAt + sizeof(StreamHeader)));
  }
}

TEST_CASE("APartBehindTheValuesEndIsRefused") {
  CHECK(Decodes(FrameOf(FrameType::kStreamPart, PartOf(10, 6), "data")));
  CHECK_FALSE(Decodes(FrameOf(FrameType::kStreamPart, PartOf(10, 7), "data")));
  CHECK(Decodes(FrameOf(FrameType::kStreamPart, PartOf(10, 10), "")));
  CHECK_FALSE(Decodes(FrameOf(FrameType::kStreamPart, PartOf(10, 11), "")));
  CHECK_FALSE(Decodes(FrameOf(FrameType::kStreamPart, PartOf(10, ~std::uint64_t{0}), "data")));
}

TEST_CASE("AValueAboveTheLimitIsRefused") {
  CHECK(Decodes(FrameOf(FrameType::kStreamAck, PartOf(limits::kValueBytesMax, 0), "")));
  CHECK_FALSE(Decodes(FrameOf(FrameType::kStreamAck, PartOf(limits::kValueBytesMax + 1, 0), "")));
}

TEST_CASE("AnAckHasNoData") {
  Frame frame = FrameOf(FrameType::kStreamPart, PartOf(10, 0), "data");
  const auto ack = static_cast<std::uint8_t>(FrameType::kStreamAck);
  CHECK_FALSE(Decodes(Poked(frame, offsetof(FrameHeader, type), ack)));
}

TEST_CASE("UnknownCodesAndReservedBitsOfStreamsAreRefused") {
  const Frame frame = FrameOf(FrameType::kStreamPart, PartOf(10, 0), "data");
  const std::size_t code = kStreamAt + offsetof(StreamHeader, code);
  CHECK(Decodes(Poked(frame, code, std::uint8_t{kStatusCodeCount - 1})));
  CHECK_FALSE(Decodes(Poked(frame, code, std::uint8_t{kStatusCodeCount})));
  CHECK_FALSE(Decodes(Poked(frame, kStreamAt + offsetof(StreamHeader, upload), std::uint8_t{2})));
  CHECK_FALSE(
      Decodes(Poked(frame, kStreamAt + offsetof(StreamHeader, reserved), std::uint16_t{1})));
}

TEST_CASE("OtherFramesAreNoStreamFrames") {
  const Frame frame = FrameOf(FrameType::kStreamPart, PartOf(10, 0), "data");
  for (const auto type : {FrameType::kRequest, FrameType::kAnswer, FrameType::kDetach}) {
    CHECK_FALSE(
        Decodes(Poked(frame, offsetof(FrameHeader, type), static_cast<std::uint8_t>(type))));
  }
}

TEST_CASE("TheLargestPartFitsAFrame") {
  const std::string data(limits::kStreamPartBytesMax, 'd');
  CHECK(Decodes(FrameOf(FrameType::kStreamPart, PartOf(limits::kStreamPartBytesMax, 0), data)));
}

}  // namespace
}  // namespace tidepool::wire
