#include "proto/wire/answer.h"

#include <catch2/catch.hpp>
#include <optional>
#include <string>

#include "tests/proto/wire/samples.h"

namespace tidepool::wire {
namespace {

using test::Frame;

bool Same(const Answer& a, const Answer& b) {
  return a.index == b.index && a.scope == b.scope && a.code == b.code &&
         a.value_kind == b.value_kind && a.has_version == b.has_version &&
         a.has_number == b.has_number && a.streamed == b.streamed && a.version == b.version &&
         a.number == b.number && AsText(a.value) == AsText(b.value);
}

Answer ValueAt(std::uint16_t index, std::string_view value) {
  Answer answer;
  answer.index = index;
  answer.value = AsBytes(value);
  return answer;
}

Frame FrameOf(const std::vector<Answer>& answers) {
  Frame frame(limits::kFrameBytesMax);
  AnswerWriter writer(frame);
  for (const Answer& answer : answers) REQUIRE(writer.Add(answer));
  frame.resize(writer.Finish({}));
  return frame;
}

// All entries, or nothing if the frame is refused anywhere.
std::optional<std::vector<Answer>> Decode(const Frame& frame) {
  AnswerReader reader;
  const Status opened = reader.Open(frame);
  if (!opened.ok()) {
    CHECK(opened.code() == StatusCode::kInvalidArgument);
    CHECK(reader.Done());
    return std::nullopt;
  }
  std::vector<Answer> answers;
  while (!reader.Done()) {
    const Status status = reader.Next(&answers.emplace_back());
    if (status.ok()) continue;
    CHECK(status.code() == StatusCode::kInvalidArgument);
    CHECK(reader.Done());
    return std::nullopt;
  }
  return answers;
}

constexpr std::size_t kEntryAt = limits::kFrameHeaderBytes;

template <typename T>
Frame Poked(Frame frame, std::size_t at, T value) {
  StoreUnaligned(frame.data() + at, value);
  return frame;
}

void SetBytes(Frame& frame) {
  auto header = LoadUnaligned<FrameHeader>(frame.data());
  header.bytes = static_cast<std::uint32_t>(frame.size());
  StoreHeader(frame.data(), header);
}

TEST_CASE("RandomAnswersComeBackAsTheyWereWritten") {
  test::Random random("RandomAnswersComeBackAsTheyWereWritten");
  const Frame pool = random.Bytes(limits::kFrameBytesMax);
  for (int round = 0; round < 2'000; ++round) {
    Frame frame(limits::kFrameBytesMax);
    AnswerWriter writer(frame);
    std::vector<Answer> written;
    for (std::uint64_t i = 0; i < random.Below(16); ++i) {
      const Answer answer = test::RandomAnswerEntry(random, pool);
      if (writer.Add(answer)) written.push_back(answer);
    }
    REQUIRE(writer.entry_count() == written.size());
    frame.resize(writer.Finish(test::RandomHeader(random)));
    const auto read = Decode(frame);
    REQUIRE(read.has_value());
    REQUIRE(read->size() == written.size());
    for (std::size_t i = 0; i < written.size(); ++i) REQUIRE(Same((*read)[i], written[i]));
  }
}

TEST_CASE("AnAnswersSizeIsWhatItTakesInTheFrame") {
  Answer answer = ValueAt(1, "value");
  answer.has_version = true;
  answer.has_number = true;
  CHECK(FrameOf({answer}).size() == limits::kFrameHeaderBytes + answer.bytes());
}

TEST_CASE("AnAnswerFrameCutOffAnywhereIsRefused") {
  Answer first = ValueAt(0, "first value");
  first.has_version = true;
  first.has_number = true;
  const Frame whole = FrameOf({first, ValueAt(1, "second")});
  REQUIRE(Decode(whole).has_value());
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    Frame cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes));
    CHECK_FALSE(Decode(cut).has_value());
    if (bytes < limits::kFrameHeaderBytes) continue;
    SetBytes(cut);
    CHECK_FALSE(Decode(cut).has_value());
  }
}

TEST_CASE("BytesBehindTheLastEntryAreRefused") {
  for (const auto& answers : {std::vector<Answer>{}, std::vector<Answer>{ValueAt(0, "v")}}) {
    Frame frame = FrameOf(answers);
    frame.push_back(std::byte{0});
    SetBytes(frame);
    CHECK_FALSE(Decode(frame).has_value());
  }
}

TEST_CASE("MoreEntriesThanTheFrameCouldHoldAreRefusedAtOnce") {
  Frame frame = FrameOf({ValueAt(0, "v")});
  auto header = LoadUnaligned<FrameHeader>(frame.data());
  header.operation_count = 0xffffffff;
  StoreHeader(frame.data(), header);
  AnswerReader reader;
  CHECK_FALSE(reader.Open(frame).ok());
  CHECK(reader.Done());
}

TEST_CASE("AnAnswerFrameWithoutEntriesIsDoneAtOnce") {
  const auto read = Decode(FrameOf({}));
  REQUIRE(read.has_value());
  CHECK(read->empty());
}

TEST_CASE("UnknownCodesScopesAndKindsAreRefused") {
  const Frame frame = FrameOf({ValueAt(0, "v")});
  CHECK(Decode(Poked(frame, kEntryAt + 2, std::uint8_t{kStatusCodeCount - 1})).has_value());
  CHECK_FALSE(Decode(Poked(frame, kEntryAt + 2, std::uint8_t{kStatusCodeCount})).has_value());
  CHECK_FALSE(Decode(Poked(frame, kEntryAt + 3, std::uint8_t{3})).has_value());        // Scope.
  CHECK_FALSE(Decode(Poked(frame, kEntryAt + 3, std::uint8_t{3 << 2})).has_value());   // Kind.
  CHECK_FALSE(Decode(Poked(frame, kEntryAt + 3, std::uint8_t{1 << 7})).has_value());   // Reserved.
  CHECK_FALSE(Decode(Poked(frame, kEntryAt + 6, std::uint16_t{0x8000})).has_value());  // Reserved.
}

TEST_CASE("AnIndexThatNoFrameCanHaveIsRefused") {
  const Frame frame = FrameOf({ValueAt(limits::kFrameOperationsMax - 1, "v")});
  CHECK(Decode(frame).has_value());
  CHECK_FALSE(
      Decode(Poked(frame, kEntryAt, std::uint16_t{limits::kFrameOperationsMax})).has_value());
}

TEST_CASE("ARunNamesOperationsThatAFrameCanHave") {
  Answer run;
  run.index = limits::kFrameOperationsMax - 2;
  run.scope = Answer::Scope::kRun;
  run.has_number = true;
  run.number = 2;
  const Frame frame = FrameOf({run});
  CHECK(Decode(frame).has_value());
  for (const std::uint64_t count : {std::uint64_t{0}, std::uint64_t{3}, ~std::uint64_t{0}}) {
    CHECK_FALSE(Decode(Poked(frame, kEntryAt + 8, count)).has_value());
  }
  // A run succeeded: another code has no place in it.
  const auto failed = static_cast<std::uint8_t>(StatusCode::kNotFound);
  CHECK_FALSE(Decode(Poked(frame, kEntryAt + 2, failed)).has_value());
}

TEST_CASE("AStreamedValueHasASizeThatAValueCanHave") {
  Answer streamed;
  streamed.streamed = true;
  streamed.has_number = true;
  streamed.number = limits::kValueBytesMax;
  const Frame frame = FrameOf({streamed});
  CHECK(Decode(frame).has_value());
  CHECK_FALSE(Decode(Poked(frame, kEntryAt + 8, limits::kValueBytesMax + 1)).has_value());
}

TEST_CASE("RequestsAreNoAnswers") {
  Frame frame = FrameOf({ValueAt(0, "v")});
  auto header = LoadUnaligned<FrameHeader>(frame.data());
  header.type = FrameType::kRequest;
  StoreHeader(frame.data(), header);
  CHECK_FALSE(Decode(frame).has_value());
}

TEST_CASE("AnAnswerThatDoesNotFitChangesNothing") {
  Frame frame(limits::kFrameHeaderBytes + limits::kAnswerHeaderBytes + 4);
  AnswerWriter writer(frame);
  CHECK_FALSE(writer.Add(ValueAt(0, "12345")));
  CHECK(writer.entry_count() == 0);
  CHECK(writer.room() == limits::kAnswerHeaderBytes + 4);
  CHECK(writer.Add(ValueAt(0, "1234")));
  CHECK(writer.room() == 0);
}

TEST_CASE("AValueMayBeWrittenInPlace") {
  Frame frame(limits::kFrameBytesMax);
  AnswerWriter writer(frame);
  std::byte* at = writer.AddInPlace(ValueAt(3, ""), 4);
  REQUIRE(at != nullptr);
  std::memcpy(at, "abcd", 4);
  frame.resize(writer.Finish({}));
  const auto read = Decode(frame);
  REQUIRE(read.has_value());
  CHECK(AsText(read->at(0).value) == "abcd");
}

TEST_CASE("TheLargestUnstreamedValueFitsAnAnswer") {
  const std::string value(limits::kUnstreamedValueBytesMax, 'v');
  Answer answer = ValueAt(0, value);
  answer.has_version = true;
  answer.has_number = true;
  CHECK(Decode(FrameOf({answer})).has_value());
}

}  // namespace
}  // namespace tidepool::wire
