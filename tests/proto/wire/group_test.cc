#include "proto/wire/group.h"

#include <catch2/catch.hpp>
#include <functional>
#include <string>

#include "tests/proto/wire/samples.h"

namespace tidepool::wire {
namespace {

using test::Frame;

bool Same(Bytes a, Bytes b) { return AsText(a) == AsText(b); }

bool Same(const Operation& a, const Operation& b) {
  if (a.opcode != b.opcode || a.condition != b.condition || a.value_kind != b.value_kind ||
      a.arguments != b.arguments || !Same(a.key, b.key) || !Same(a.value, b.value)) {
    return false;
  }
  for (int i = 0; i < kArgumentCount; ++i) {
    const auto argument = static_cast<Argument>(i);
    if (a.has(argument) && a.get(argument) != b.get(argument)) return false;
  }
  return true;
}

Operation PutOf(std::string_view key, std::string_view value) {
  Operation put;
  put.opcode = Opcode::kPut;
  put.key = AsBytes(key);
  put.value = AsBytes(value);
  return put;
}

// Returns a frame of a single group with these operations.
Frame FrameOf(const std::vector<Operation>& operations, Term term = Term(7)) {
  Frame frame(limits::kFrameBytesMax);
  RequestWriter writer(frame);
  REQUIRE(writer.BeginGroup(PartitionId(42), term, false));
  for (const Operation& operation : operations) REQUIRE(writer.Add(operation));
  frame.resize(writer.Finish({}));
  return frame;
}

Status Decode(const Frame& frame) {
  Request request;
  return DecodeRequest(frame, &request);
}

void CheckRefused(const Frame& frame) {
  CHECK(Decode(frame).code() == StatusCode::kInvalidArgument);
}

// Where the first operation's header of a FrameOf frame lies, and the group's.
constexpr std::size_t kGroupAt = limits::kFrameHeaderBytes;
constexpr std::size_t kOperationAt = kGroupAt + limits::kGroupHeaderBytes;

template <typename T>
void Poke(Frame& frame, std::size_t at, T value) {
  StoreUnaligned(frame.data() + at, value);
}

void PokeHeader(Frame& frame, const std::function<void(FrameHeader&)>& change) {
  auto header = LoadUnaligned<FrameHeader>(frame.data());
  change(header);
  StoreHeader(frame.data(), header);
}

TEST_CASE("ARequestOfSeveralGroupsComesBackAsItWasWritten") {
  Frame frame(limits::kFrameBytesMax);
  RequestWriter writer(frame);
  REQUIRE(writer.BeginGroup(PartitionId(NamespaceId(3), 1), Term(5), false));
  Operation put = PutOf("key", "value");
  put.set(Argument::kTtlMs, 1'000);
  put.set(Argument::kVersion, 99);
  put.condition = PutCondition::kIfVersion;
  put.value_kind = ValueKind::kI64;
  REQUIRE(writer.Add(put));
  REQUIRE(writer.BeginGroup(PartitionId(NamespaceId(3), 2), Term(6), true));
  REQUIRE(writer.Add(PutOf("", "")));
  REQUIRE(writer.Add(PutOf("k", "")));
  FrameHeader header;
  header.session = 11;
  frame.resize(writer.Finish(header));

  Request request;
  REQUIRE(DecodeRequest(frame, &request).ok());
  CHECK(request.header.session == 11);
  CHECK(request.header.type == FrameType::kRequest);
  REQUIRE(request.groups.size() == 2);
  CHECK(request.groups[0].partition == PartitionId(NamespaceId(3), 1));
  CHECK(request.groups[0].term == Term(5));
  CHECK_FALSE(request.groups[0].atomic);
  CHECK(request.groups[1].atomic);
  CHECK(request.groups[1].first_operation == 1);
  CHECK(request.groups[1].operation_count == 2);
  REQUIRE(request.operations.size() == 3);
  CHECK(Same(request.operations[0], put));
}

TEST_CASE("RandomRequestsComeBackAsTheyWereWritten") {
  test::Random random("RandomRequestsComeBackAsTheyWereWritten");
  const Frame pool = random.Bytes(limits::kFrameBytesMax);
  Request request;
  for (int round = 0; round < 2'000; ++round) {
    Frame frame(limits::kFrameBytesMax);
    RequestWriter writer(frame);
    std::vector<Operation> written;
    const std::uint64_t groups = 1 + random.Below(4);
    for (std::uint64_t g = 0; g < groups; ++g) {
      if (!writer.BeginGroup(PartitionId(static_cast<std::uint32_t>(g)), Term(1), g % 2 == 1))
        break;
      for (std::uint64_t i = 0; i < random.Below(8); ++i) {
        const Operation operation = test::RandomOperation(random, pool);
        if (writer.Add(operation)) written.push_back(operation);
      }
    }
    const FrameHeader header = test::RandomHeader(random);
    frame.resize(writer.Finish(header));
    REQUIRE(DecodeRequest(frame, &request).ok());
    REQUIRE(request.operations.size() == written.size());
    for (std::size_t i = 0; i < written.size(); ++i) {
      REQUIRE(Same(request.operations[i], written[i]));
    }
    REQUIRE(request.header.frame_id == header.frame_id);
  }
}

TEST_CASE("ARequestCutOffAnywhereIsRefused") {
  const Frame whole = FrameOf({PutOf("some key", "some value"), PutOf("another", "")});
  REQUIRE(Decode(whole).ok());
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    Frame cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes));
    CheckRefused(cut);
    if (bytes < limits::kFrameHeaderBytes) continue;
    // A header that agrees with the shorter frame leaves the groups to notice.
    PokeHeader(cut, [&](FrameHeader& header) { header.bytes = static_cast<std::uint32_t>(bytes); });
    CheckRefused(cut);
  }
}

TEST_CASE("BytesBehindTheLastGroupAreRefused") {
  Frame frame = FrameOf({PutOf("k", "v")});
  frame.push_back(std::byte{0});
  PokeHeader(frame, [&](FrameHeader& header) { header.bytes += 1; });
  CheckRefused(frame);
}

TEST_CASE("CountsThatDisagreeWithTheGroupsAreRefused") {
  for (const int difference : {-1, 1}) {
    Frame operations = FrameOf({PutOf("a", "1"), PutOf("b", "2")});
    PokeHeader(operations, [&](FrameHeader& header) {
      header.operation_count = static_cast<std::uint32_t>(2 + difference);
    });
    CheckRefused(operations);
    Frame groups = FrameOf({PutOf("a", "1"), PutOf("b", "2")});
    PokeHeader(groups, [&](FrameHeader& header) {
      header.group_count = static_cast<std::uint32_t>(1 + difference);
    });
    CheckRefused(groups);
    Frame inside = FrameOf({PutOf("a", "1"), PutOf("b", "2")});
    Poke(inside, kGroupAt + 12, static_cast<std::uint16_t>(2 + difference));
    CheckRefused(inside);
  }
}

TEST_CASE("CountsBeyondTheBoundsAreRefusedBeforeAnythingIsRead") {
  Frame operations = FrameOf({PutOf("a", "1")});
  PokeHeader(operations,
             [](FrameHeader& header) { header.operation_count = limits::kFrameOperationsMax + 1; });
  CheckRefused(operations);
  Frame groups = FrameOf({PutOf("a", "1")});
  PokeHeader(groups, [](FrameHeader& header) { header.group_count = 0xffffffff; });
  CheckRefused(groups);
}

TEST_CASE("AnEmptyGroupIsRefused") {
  Frame frame = FrameOf({PutOf("a", "1")});
  Poke(frame, kGroupAt + 12, std::uint16_t{0});
  CheckRefused(frame);
}

TEST_CASE("ATermBeyondItsBitsIsRefused") {
  CHECK(Decode(FrameOf({PutOf("a", "1")}, Term(limits::kTermMax))).ok());
  CheckRefused(FrameOf({PutOf("a", "1")}, Term(limits::kTermMax + 1)));
}

TEST_CASE("ReservedBitsOfGroupsAndOperationsAreRefused") {
  for (const std::size_t at : {kGroupAt + 14, kGroupAt + 15, kOperationAt + 1, kOperationAt + 3}) {
    Frame frame = FrameOf({PutOf("a", "1")});
    Poke(frame, at, std::uint8_t{0x80});
    INFO("byte " << at);
    CheckRefused(frame);
  }
}

TEST_CASE("UnknownOpcodesAndValueKindsAreRefused") {
  for (int opcode = 0; opcode <= 255; ++opcode) {
    Frame frame = FrameOf({PutOf("a", "")});
    Poke(frame, kOperationAt, static_cast<std::uint8_t>(opcode));
    const bool known = std::ranges::any_of(kOpcodes, [opcode](const OpcodeInfo& info) {
      return static_cast<int>(info.opcode) == opcode;
    });
    if (!known) CheckRefused(frame);
  }
  Frame kind = FrameOf({PutOf("a", "1")});
  Poke(kind, kOperationAt + 1, std::uint8_t{3 << 2});
  CheckRefused(kind);
}

TEST_CASE("EachOpcodeInsistsOnItsArguments") {
  test::Random random("EachOpcodeInsistsOnItsArguments");
  for (const OpcodeInfo& info : kOpcodes) {
    for (unsigned mask = 0; mask < 256; ++mask) {
      Operation operation;
      operation.opcode = info.opcode;
      for (int i = 0; i < kArgumentCount; ++i) {
        if ((mask & 1u << i) != 0) operation.set(static_cast<Argument>(i), 0);
      }
      operation.arguments = static_cast<std::uint8_t>(mask);
      Frame frame = FrameOf({operation});
      Poke(frame, kOperationAt + 2, static_cast<std::uint8_t>(mask));
      const bool fits = (mask & info.required) == info.required &&
                        (mask & ~unsigned(info.required | info.optional)) == 0;
      INFO(info.name << " with mask " << mask);
      CHECK(Decode(frame).ok() == fits);
    }
  }
}

TEST_CASE("TheLongestKeyIsAcceptedAndOneByteMoreIsNot") {
  const std::string longest(limits::kKeyBytesMax, 'k');
  Frame frame = FrameOf({PutOf(longest, "v")});
  CHECK(Decode(frame).ok());
  // The bytes with the border between key and value moved by 1.
  Poke(frame, kOperationAt + 4, static_cast<std::uint16_t>(limits::kKeyBytesMax + 1));
  Poke(frame, kOperationAt + 6, std::uint16_t{0});
  CheckRefused(frame);
}

TEST_CASE("AValueForAnOperationThatTakesNoneIsRefused") {
  Frame frame = FrameOf({PutOf("a", "1")});
  Poke(frame, kOperationAt, static_cast<std::uint8_t>(Opcode::kGet));
  CheckRefused(frame);
}

TEST_CASE("AKeyForAnOperationThatHasNoneIsRefused") {
  Operation length;
  length.opcode = Opcode::kLength;
  CHECK(Decode(FrameOf({length})).ok());
  length.key = AsBytes("key");
  CheckRefused(FrameOf({length}));
}

TEST_CASE("IfVersionWithoutAVersionIsRefused") {
  Operation put = PutOf("a", "1");
  put.condition = PutCondition::kIfVersion;
  CheckRefused(FrameOf({put}));
  put.set(Argument::kVersion, 1);
  CHECK(Decode(FrameOf({put})).ok());
}

TEST_CASE("AnExpectedValueLongerThanTheValueIsRefused") {
  Operation swap = PutOf("a", "123");
  swap.opcode = Opcode::kCompareAndSwap;
  swap.set(Argument::kExpectedBytes, 3);
  CHECK(Decode(FrameOf({swap})).ok());
  swap.set(Argument::kExpectedBytes, 4);
  CheckRefused(FrameOf({swap}));
}

TEST_CASE("AStreamedPutThatAlsoHasAnInlineValueIsRefused") {
  Operation put = PutOf("a", "");
  put.set(Argument::kUpload, 1);
  CHECK(Decode(FrameOf({put})).ok());
  put.value = AsBytes("v");
  CheckRefused(FrameOf({put}));
}

TEST_CASE("AnswersAreNoRequests") {
  Frame frame = FrameOf({PutOf("a", "1")});
  PokeHeader(frame, [](FrameHeader& header) { header.type = FrameType::kAnswer; });
  CheckRefused(frame);
}

TEST_CASE("ARequestDecodesTheSameIntoAUsedObject") {
  Request request;
  REQUIRE(DecodeRequest(FrameOf({PutOf("a", "1"), PutOf("b", "2")}), &request).ok());
  const Frame second = FrameOf({PutOf("c", "3")});
  REQUIRE(DecodeRequest(second, &request).ok());
  CHECK(request.groups.size() == 1);
  REQUIRE(request.operations.size() == 1);
  CHECK(Same(request.operations[0], PutOf("c", "3")));
}

TEST_CASE("TheWriterRefusesWhatDoesNotFitAndGoesOn") {
  const std::size_t room =
      limits::kFrameHeaderBytes + limits::kGroupHeaderBytes + 2 * limits::kOperationHeaderBytes + 3;
  Frame frame(room);
  RequestWriter writer(frame);
  REQUIRE(writer.BeginGroup(PartitionId(1), Term(1), false));
  REQUIRE(writer.Add(PutOf("a", "")));
  CHECK_FALSE(writer.Add(PutOf("abc", "")));
  CHECK_FALSE(writer.BeginGroup(PartitionId(2), Term(1), false));
  // After both refusals the group is as it was.
  REQUIRE(writer.Add(PutOf("bc", "")));
  CHECK(writer.Finish({}) == room);
  Request request;
  REQUIRE(DecodeRequest(frame, &request).ok());
  CHECK(request.operations.size() == 2);
  CHECK(request.groups.size() == 1);
}

TEST_CASE("TheWriterDropsAGroupThatStayedEmpty") {
  Frame frame(limits::kFrameBytesMax);
  RequestWriter writer(frame);
  for (std::uint32_t i = 0; i < 2 * limits::kFrameGroupsMax; ++i) {
    REQUIRE(writer.BeginGroup(PartitionId(i), Term(1), false));
  }
  REQUIRE(writer.Add(PutOf("a", "1")));
  REQUIRE(writer.BeginGroup(PartitionId(1), Term(1), false));
  frame.resize(writer.Finish({}));
  Request request;
  REQUIRE(DecodeRequest(frame, &request).ok());
  REQUIRE(request.groups.size() == 1);
  CHECK(request.groups[0].partition == PartitionId(2 * limits::kFrameGroupsMax - 1));
}

TEST_CASE("TheWriterStopsAtTheMostOperationsAndGroups") {
  Frame frame(limits::kFrameBytesMax);
  RequestWriter operations(frame);
  REQUIRE(operations.BeginGroup(PartitionId(1), Term(1), false));
  for (std::size_t i = 0; i < limits::kFrameOperationsMax; ++i) {
    REQUIRE(operations.Add(PutOf("", "")));
  }
  CHECK_FALSE(operations.Add(PutOf("", "")));
  const std::size_t bytes = operations.Finish({});
  Request request;
  REQUIRE(DecodeRequest(Bytes(frame).first(bytes), &request).ok());
  CHECK(request.operations.size() == limits::kFrameOperationsMax);

  RequestWriter groups(frame);
  for (std::uint32_t i = 0; i < limits::kFrameGroupsMax; ++i) {
    REQUIRE(groups.BeginGroup(PartitionId(i), Term(1), false));
    REQUIRE(groups.Add(PutOf("", "")));
  }
  CHECK_FALSE(groups.BeginGroup(PartitionId(0), Term(1), false));
  const std::size_t all = groups.Finish({});
  REQUIRE(DecodeRequest(Bytes(frame).first(all), &request).ok());
  CHECK(request.groups.size() == limits::kFrameGroupsMax);
}

TEST_CASE("TheLargestOperationFitsAFrame") {
  const std::string key(limits::kKeyBytesMax, 'k');
  const std::string value(limits::kUnstreamedValueBytesMax, 'v');
  Operation put = PutOf(key, value);
  put.set(Argument::kVersion, 1);
  put.set(Argument::kTtlMs, 1);
  CHECK(Decode(FrameOf({put})).ok());
}

}  // namespace
}  // namespace tidepool::wire
