// 10^6 random and mutated frames through each wire decoder, without a fuzzer: a part of the
// ordinary tests. The input ends at a page that may not be touched, so a read beyond it ends the
// program in every build, not only under AddressSanitizer.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "proto/wire/chain.h"
#include "proto/wire/process_group_ops.h"
#include "proto/wire/queue_ops.h"
#include "tests/fuzz/guarded_room.h"
#include "tests/fuzz/wire_checks.h"
#include "tests/proto/wire/samples.h"

namespace tidepool::fuzz {
namespace {

using wire::test::Frame;
using wire::test::Random;

constexpr int kRounds = 1'000'000;
// Share of large frames, which cost more and find no more than small frames: 1 in this number.
constexpr int kLargeOneIn = 200;
constexpr std::size_t kSmallBytes = 600;

void ReplaceByte(Random& random, Frame& frame) {
  constexpr std::uint8_t kSpecial[] = {0, 1, 2, 0x7f, 0x80, 0xfe, 0xff};
  const std::size_t at = random.Below(frame.size());
  frame[at] = static_cast<std::byte>(random.OneIn(2) ? kSpecial[random.Below(std::size(kSpecial))]
                                                     : random.Word());
}

// Makes one to four changes of kinds that decoders get wrong.
void Mutate(Random& random, Frame& frame) {
  for (std::uint64_t changes = 1 + random.Below(4); changes > 0 && !frame.empty(); --changes) {
    const std::size_t at = random.Below(frame.size());
    switch (random.Below(6)) {
      case 0:
        frame[at] ^= static_cast<std::byte>(1u << random.Below(8));
        break;
      case 1:
        ReplaceByte(random, frame);
        break;
      case 2:  // Cut off.
        frame.resize(at);
        break;
      case 3: {  // A piece twice.
        const std::size_t size = std::min<std::size_t>(frame.size() - at, 1 + random.Below(32));
        const Frame piece(frame.begin() + static_cast<std::ptrdiff_t>(at),
                          frame.begin() + static_cast<std::ptrdiff_t>(at + size));
        frame.insert(frame.begin() + static_cast<std::ptrdiff_t>(at), piece.begin(), piece.end());
        break;
      }
      case 4: {  // A piece less.
        const std::size_t size = std::min<std::size_t>(frame.size() - at, 1 + random.Below(32));
        frame.erase(frame.begin() + static_cast<std::ptrdiff_t>(at),
                    frame.begin() + static_cast<std::ptrdiff_t>(at + size));
        break;
      }
      default:  // A length or count that is off by a little, or by much.
        if (frame.size() - at >= 2) {
          auto number = LoadUnaligned<std::uint16_t>(frame.data() + at);
          number = static_cast<std::uint16_t>(random.OneIn(2) ? number + random.Below(5) - 2
                                                              : random.Word());
          StoreUnaligned(frame.data() + at, number);
        }
    }
  }
}

// Most mutants agree with their header on the size. Otherwise the header's check would hide the
// others.
void AgreeOnSize(Random& random, Frame& frame) {
  if (frame.size() < limits::kFrameHeaderBytes || random.OneIn(8)) return;
  StoreUnaligned(frame.data() + offsetof(wire::FrameHeader, bytes),
                 static_cast<std::uint32_t>(frame.size()));
}

Frame RandomBytes(Random& random, bool with_header) {
  Frame frame = random.Bytes(random.Size(kSmallBytes));
  if (!with_header || frame.size() < limits::kFrameHeaderBytes) return frame;
  auto header = wire::test::RandomHeader(random);
  header.type = static_cast<wire::FrameType>(random.Below(8));
  header.bytes = static_cast<std::uint32_t>(frame.size());
  header.operation_count = static_cast<std::uint32_t>(random.Below(4));
  header.group_count = static_cast<std::uint32_t>(random.Below(4));
  wire::StoreHeader(frame.data(), header);
  return frame;
}

// True if `check` takes whole frames, which contain their size.
bool IsFrameCheck(bool (*check)(Bytes)) {
  return check == CheckHeader || check == CheckRequest || check == CheckAnswers ||
         check == CheckStream;
}

void Fuzz(const char* name, bool (*check)(Bytes), Frame (*sample)(Random&, std::size_t)) {
  Random random(name);
  GuardedRoom room(2 * limits::kFrameBytesMax);
  int accepted = 0;
  for (int round = 0; round < kRounds; ++round) {
    Frame frame;
    if (random.OneIn(4)) {
      frame = RandomBytes(random, random.OneIn(2));
    } else {
      frame = sample(random, random.OneIn(kLargeOneIn) ? limits::kFrameBytesMax : kSmallBytes);
      if (!random.OneIn(8)) {
        Mutate(random, frame);
        if (IsFrameCheck(check)) AgreeOnSize(random, frame);
      }
    }
    accepted += check(room.Put(frame)) ? 1 : 0;
  }
  // A run in which all or nothing was accepted has tested half of the decoder at most.
  INFO(name << ": accepted " << accepted << " of " << kRounds);
  CHECK(accepted > kRounds / 20);
  CHECK(accepted < kRounds - kRounds / 20);
}

// A header and any body.
Frame AnyFrame(Random& random, std::size_t bytes_max) {
  switch (random.Below(3)) {
    case 0:
      return wire::test::RandomRequest(random, bytes_max);
    case 1:
      return wire::test::RandomAnswer(random, bytes_max);
    default:
      return wire::test::RandomStream(random, bytes_max);
  }
}

TEST_CASE("AnyBytesGiveAHeaderOrAStatus") { Fuzz("DecodeHeader", CheckHeader, AnyFrame); }
TEST_CASE("AnyBytesGiveARequestOrAStatus") {
  Fuzz("DecodeRequest", CheckRequest, wire::test::RandomRequest);
}
TEST_CASE("AnyBytesGiveAnswersOrAStatus") {
  Fuzz("AnswerReader", CheckAnswers, wire::test::RandomAnswer);
}
TEST_CASE("AnyBytesGiveAStreamFrameOrAStatus") {
  Fuzz("DecodeStream", CheckStream, wire::test::RandomStream);
}
TEST_CASE("AnyBytesGiveRecordsOrAStatus") {
  Fuzz("TakeRecord", CheckRecords, wire::test::RandomRecordList);
}

TEST_CASE("AnyBytesGiveTheRestOfARangeOrAStatus") {
  Fuzz("LoadRangeRest", CheckRangeRest, [](Random& random, std::size_t bytes_max) {
    Frame frame = random.Bytes(random.Below(bytes_max));
    if (!frame.empty()) frame.front() = static_cast<std::byte>(random.Below(3));
    return frame;
  });
}

// Returns some items with random values; `append` writes an item of at most 300 bytes.
Frame RandomItems(Random& random, std::size_t bytes_max,
                  std::byte* (*append)(Random&, Bytes, std::byte*)) {
  Frame list(bytes_max + 400);
  const Frame value = random.Bytes(256);
  std::byte* end = list.data();
  while (!random.OneIn(4) && end < list.data() + bytes_max) {
    end = append(random, Bytes(value).first(random.Size(256)), end);
  }
  list.resize(static_cast<std::size_t>(end - list.data()));
  return list;
}

TEST_CASE("AnyBytesGivePushedItemsOrAStatus") {
  Fuzz("TakePushedItem", CheckPushedItems, [](Random& random, std::size_t bytes_max) {
    return RandomItems(random, bytes_max, [](Random& of, Bytes value, std::byte* to) {
      return wire::AppendPushedItem({of.Word(), value}, to);
    });
  });
}
TEST_CASE("AnyBytesGiveDeliveredItemsOrAStatus") {
  Fuzz("TakeDeliveredItem", CheckDeliveredItems, [](Random& random, std::size_t bytes_max) {
    return RandomItems(random, bytes_max, [](Random& of, Bytes value, std::byte* to) {
      wire::DeliveredItem item{of.Word(), of.Word(), static_cast<std::uint32_t>(of.Word())};
      item.streamed = of.OneIn(3);
      item.value_bytes = static_cast<std::uint32_t>(
          item.streamed ? of.Below(limits::kValueBytesMax + 1) : value.size());
      if (!item.streamed) item.value = value;
      return wire::AppendDeliveredItem(item, to);
    });
  });
}

// Returns steps on random keys and values. Steps refer to earlier steps or to none.
Frame RandomChain(Random& random, std::size_t bytes_max) {
  const Frame pool = random.Bytes(256);
  std::string chain;
  std::uint8_t count = 0;
  while (count < wire::kChainStepsMax && chain.size() < bytes_max &&
         !(count > 0 && random.OneIn(4))) {
    wire::ChainStep step;
    do {
      step.operation = wire::test::RandomOperation(random, pool);
    } while (!wire::MayBeStep(step.operation.opcode));
    if (count > 0 && random.OneIn(2)) {
      step.test = static_cast<wire::ChainTest>(1 + random.Below(3));
      step.tested = static_cast<std::uint8_t>(random.Below(count));
      step.required = random.OneIn(2);
      if (step.test == wire::ChainTest::kEquals) step.expected = Bytes(pool).first(random.Size(64));
    }
    step.may_fail = random.OneIn(2);
    wire::EncodeChainStep(step, &chain);
    ++count;
  }
  const Bytes bytes = AsBytes(chain);
  return Frame(bytes.begin(), bytes.end());
}

TEST_CASE("AnyBytesGiveAChainOrAStatus") { Fuzz("DecodeChain", CheckChain, RandomChain); }

TEST_CASE("AnyBytesGiveOutcomesOfAChainOrAStatus") {
  Fuzz("DecodeChainOutcomes", CheckChainOutcomes, [](Random& random, std::size_t bytes_max) {
    const Frame pool = random.Bytes(256);
    const std::size_t steps = 1 + random.Below(8);
    Frame room(std::max(bytes_max, steps * wire::kChainOutcomeBytes));
    wire::ChainOutcomeWriter writer(room, steps);
    for (std::size_t i = 0; i < steps; ++i) {
      wire::ChainOutcome outcome;
      outcome.code = static_cast<StatusCode>(random.Below(kStatusCodeCount));
      outcome.has_version = random.OneIn(2);
      outcome.version = Lsn(random.Word());
      outcome.value = Bytes(pool).first(random.Size(256));
      writer.Add(outcome);
    }
    return Frame(writer.written().begin(), writer.written().end());
  });
}

// The first byte says which of the three it is.
Frame RandomGroupRequest(Random& random, std::size_t bytes_max) {
  Frame frame(1);
  frame[0] = static_cast<std::byte>(random.Below(3));
  const Frame rest = random.Bytes(8 * random.Below(std::min<std::size_t>(bytes_max / 8, 16)));
  switch (static_cast<unsigned>(frame[0])) {
    case 0: {
      wire::JoinRequest join;
      join.member = random.Word() | 1;
      join.size = static_cast<std::uint32_t>(1 + random.Below(wire::kProcessGroupSizeMax));
      join.rank = static_cast<std::int32_t>(random.Below(join.size)) - 1;
      frame.resize(1 + wire::kJoinHeaderBytes);
      wire::StoreJoinHeader(join, frame.data() + 1);
      break;
    }
    case 1: {
      wire::MeetRequest meet;
      meet.instance = random.Word();
      meet.step = random.Word();
      meet.rank = static_cast<std::uint32_t>(random.Word());
      meet.call.collective = static_cast<wire::Collective>(random.Below(4));
      meet.call.reduction = static_cast<wire::Reduction>(random.Below(3));
      meet.call.type = static_cast<wire::ElementType>(random.Below(3));
      meet.call.root = meet.rank;
      frame.resize(1 + wire::kMeetHeaderBytes);
      wire::StoreMeetHeader(meet, frame.data() + 1);
      break;
    }
    default:
      frame.resize(1 + wire::kLeaveBytes);
      return frame;
  }
  frame.insert(frame.end(), rest.begin(), rest.end());
  return frame;
}

TEST_CASE("AnyBytesGiveARequestOfAProcessGroupOrAStatus") {
  Fuzz("LoadJoin", CheckProcessGroup, RandomGroupRequest);
}

// Corpus files are named ok-* (accepted) or bad-* (refused). A change of a decoder's judgement of
// old frames is thus noticed.
TEST_CASE("TheSeedCorpusIsJudgedAsItsNamesSay") {
  GuardedRoom room(2 * limits::kFrameBytesMax);
  for (const Check& check : kChecks) {
    int files = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator(std::filesystem::path(TIDEPOOL_CORPUS) / check.name)) {
      std::ifstream file(entry.path(), std::ios::binary);
      const std::string text((std::istreambuf_iterator<char>(file)), {});
      const Bytes bytes = AsBytes(text);
      const bool accepted = check.run(room.Put(Frame(bytes.begin(), bytes.end())));
      INFO(entry.path());
      CHECK(accepted == entry.path().filename().string().starts_with("ok-"));
      ++files;
    }
    INFO(check.name);
    CHECK(files >= 8);
  }
}

// Writes a new corpus: run `wire_fuzz_test [write_corpus]` after a change of the format, which old
// files then show as refused.
TEST_CASE("WriteTheSeedCorpus", "[.][write_corpus]") {
  Random random("WriteTheSeedCorpus", 1);
  Frame (*const samples[])(Random&, std::size_t) = {AnyFrame,
                                                    wire::test::RandomRequest,
                                                    wire::test::RandomAnswer,
                                                    wire::test::RandomStream,
                                                    wire::test::RandomRecordList,
                                                    RandomChain,
                                                    RandomGroupRequest};
  for (std::size_t i = 0; i < std::size(kChecks); ++i) {
    const auto folder = std::filesystem::path(TIDEPOOL_CORPUS) / kChecks[i].name;
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    int good = 0;
    int bad = 0;
    while (good < 6 || bad < 6) {
      Frame frame = samples[i](random, kSmallBytes);
      if (good == 6) Mutate(random, frame);
      if (good == 6 && IsFrameCheck(kChecks[i].run)) AgreeOnSize(random, frame);
      if (IsFrameCheck(kChecks[i].run) && frame.size() <= limits::kFrameHeaderBytes) continue;
      const bool accepted = kChecks[i].run(frame);
      int& count = accepted ? good : bad;
      if (count == 6) continue;
      const std::string name = (accepted ? "ok-" : "bad-") + std::to_string(count++);
      std::ofstream(folder / name, std::ios::binary) << AsText(frame);
    }
  }
}

}  // namespace
}  // namespace tidepool::fuzz
