// Counters, compare-and-swap, append and expiry.
#include <signal.h>
#include <sys/mman.h>

#include <catch2/catch.hpp>

#include <bit>
#include <limits>
#include <string>

#include "proto/base/limits.h"
#include "tests/storage/store_fixture.h"

namespace tidepool::storage {
namespace {

HashOutcome Update(StoreFixture& fixture, std::string_view key, UpdateKind kind, CounterType type,
                   std::uint64_t operand) {
  return fixture.store->FetchUpdate(AsBytes(key), StoreFixture::Hash(key), kind, type, operand,
                                    fixture.core->NowMs());
}

HashOutcome UpdateF64(StoreFixture& fixture, std::string_view key, UpdateKind kind,
                      double operand) {
  return Update(fixture, key, kind, CounterType::kF64, std::bit_cast<std::uint64_t>(operand));
}

TEST_CASE("AddToAnAbsentKeyCountsFromZero") {
  StoreFixture fixture;
  const HashOutcome first = fixture.Add("visits", 3);
  REQUIRE(first.code == StatusCode::kOk);
  REQUIRE(first.previous == 0);
  REQUIRE(first.result == 3);
  REQUIRE(fixture.Add("visits", -5).result == static_cast<std::uint64_t>(-2));
  REQUIRE(fixture.Get("visits").value_flags == kRecordI64);
}

TEST_CASE("AddsAreCountedInPlace") {
  StoreFixture fixture;
  fixture.Add("visits", 1);
  const std::uint64_t location = fixture.Get("visits").location;
  for (int i = 0; i < 1000; ++i) fixture.Add("visits", 1);
  REQUIRE(fixture.Get("visits").location == location);
  REQUIRE(fixture.Add("visits", 0).result == 1001);
}

TEST_CASE("AddThatOverflowsIsOutOfRangeAndChangesNothing") {
  StoreFixture fixture;
  fixture.Add("n", std::numeric_limits<std::int64_t>::max());
  const Lsn version = fixture.Get("n").version;
  REQUIRE(fixture.Add("n", 1).code == StatusCode::kOutOfRange);
  REQUIRE(fixture.Get("n").version == version);
  REQUIRE(fixture.Add("n", 0).result ==
          static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
}

TEST_CASE("AddToAPlainValueIsInvalid") {
  StoreFixture fixture;
  fixture.Put("key", "12345678");  // 8 bytes, but no counter.
  REQUIRE(fixture.Add("key", 1).code == StatusCode::kInvalidArgument);
  REQUIRE(fixture.Text("key") == "12345678");
}

TEST_CASE("CounterOfOneTypeRefusesTheOther") {
  StoreFixture fixture;
  fixture.Add("i", 1);
  REQUIRE(UpdateF64(fixture, "i", UpdateKind::kAdd, 1).code == StatusCode::kInvalidArgument);
  UpdateF64(fixture, "f", UpdateKind::kAdd, 1);
  REQUIRE(fixture.Add("f", 1).code == StatusCode::kInvalidArgument);
}

TEST_CASE("EveryKindOfIntegerUpdate") {
  StoreFixture fixture;
  const auto run = [&](UpdateKind kind, std::int64_t operand) {
    return static_cast<std::int64_t>(
        Update(fixture, "n", kind, CounterType::kI64, static_cast<std::uint64_t>(operand)).result);
  };
  REQUIRE(run(UpdateKind::kAdd, 12) == 12);
  REQUIRE(run(UpdateKind::kAnd, 10) == 8);
  REQUIRE(run(UpdateKind::kOr, 3) == 11);
  REQUIRE(run(UpdateKind::kXor, 1) == 10);
  REQUIRE(run(UpdateKind::kMin, -4) == -4);
  REQUIRE(run(UpdateKind::kMax, 7) == 7);
}

TEST_CASE("DoublesAddAndCompareButHaveNoBits") {
  StoreFixture fixture;
  REQUIRE(std::bit_cast<double>(UpdateF64(fixture, "f", UpdateKind::kAdd, 1.5).result) == 1.5);
  REQUIRE(std::bit_cast<double>(UpdateF64(fixture, "f", UpdateKind::kMax, 4.0).result) == 4.0);
  REQUIRE(std::bit_cast<double>(UpdateF64(fixture, "f", UpdateKind::kMin, -2.5).result) == -2.5);
  for (const UpdateKind kind : {UpdateKind::kAnd, UpdateKind::kOr, UpdateKind::kXor}) {
    REQUIRE(UpdateF64(fixture, "f", kind, 1).code == StatusCode::kInvalidArgument);
  }
  REQUIRE(std::bit_cast<double>(UpdateF64(fixture, "f", UpdateKind::kAdd, 0).result) == -2.5);
}

TEST_CASE("CounterKeepsItsExpiry") {
  StoreFixture fixture;
  fixture.Add("n", 1);
  fixture.Expire("n", 100);
  fixture.AdvanceMs(30);
  fixture.Add("n", 1);
  REQUIRE(fixture.Ttl("n").result == 70);
  fixture.AdvanceMs(70);
  REQUIRE(fixture.Add("n", 1).result == 1);
}

TEST_CASE("SwapNeedsTheExpectedValue") {
  StoreFixture fixture;
  REQUIRE(fixture.Swap("key", "", "b").code == StatusCode::kNotFound);
  fixture.Put("key", "a");
  const HashOutcome refused = fixture.Swap("key", "x", "b");
  REQUIRE(refused.code == StatusCode::kFailedPrecondition);
  REQUIRE(AsText(refused.value) == "a");
  REQUIRE(fixture.Swap("key", "a", "a much longer value").code == StatusCode::kOk);
  REQUIRE(fixture.Text("key") == "a much longer value");
}

TEST_CASE("SwapKeepsTheCounterFlagOfEightBytesOnly") {
  StoreFixture fixture;
  fixture.Add("n", 1);
  const std::string one = fixture.Text("n");
  std::string two = one;
  two[0] = 2;
  REQUIRE(fixture.Swap("n", one, two).code == StatusCode::kOk);
  REQUIRE(fixture.Add("n", 1).result == 3);
  REQUIRE(fixture.Swap("n", fixture.Text("n"), "text").code == StatusCode::kOk);
  REQUIRE(fixture.Get("n").value_flags == 0);
}

TEST_CASE("AppendCreatesAndExtends") {
  StoreFixture fixture;
  REQUIRE(fixture.Append("log", "one").value_bytes == 3);
  REQUIRE(fixture.Append("log", ",two").value_bytes == 7);
  REQUIRE(fixture.Append("log", "").value_bytes == 7);
  REQUIRE(fixture.Text("log") == "one,two");
}

TEST_CASE("AppendWithinTheSameRecordSizeHappensInPlace") {
  StoreFixture fixture;
  fixture.Put("key", "12345");  // 3 + 5 = 8 bytes after the header.
  fixture.Put("key2", "1234");  // 4 + 4 = 8 bytes.
  fixture.Put("key2", "123");
  const std::uint64_t location = fixture.Get("key2").location;
  fixture.Append("key2", "4");
  REQUIRE(fixture.Text("key2") == "1234");
  REQUIRE(fixture.Get("key2").location == location);
}

TEST_CASE("AppendGrowsAValueThroughEveryShapeOfExtent") {
  StoreFixture fixture(TinyStore(4 << 20, 8192));
  std::string expected;
  std::uint64_t part = 0;
  while (expected.size() < 60'000) {
    ++part;
    const std::string suffix(1 + part * 37 % 900, static_cast<char>('a' + part % 26));
    REQUIRE(fixture.Append("log", suffix).code == StatusCode::kOk);
    expected += suffix;
    REQUIRE(fixture.Text("log") == expected);
  }
  fixture.core->CheckInvariants();
  fixture.Delete("log");
  fixture.Settle();
  fixture.core->CheckInvariants();
  REQUIRE(fixture.core->usage().live_bytes == 0);
}

// Uses up a store's memory. The first segment has the most dead bytes. It holds "log", with
// `ttl_ms` to live, behind a few small records. Some other segments are half dead.
void FillAround(StoreFixture& fixture, std::string_view value, std::uint64_t ttl_ms) {
  PutOptions options;
  options.ttl_ms = ttl_ms;
  for (int i = 0; i < 20; ++i) fixture.Put("small" + std::to_string(i), "v");
  REQUIRE(fixture.Put("log", value, options).code == StatusCode::kOk);
  int count = 0;
  while (fixture.Put("fill" + std::to_string(count), std::string(200, 'v')).code ==
         StatusCode::kOk) {
    ++count;
  }
  REQUIRE(count > 100);
  for (int i = 0; i < 10; ++i) fixture.Delete("fill" + std::to_string(i));
  for (int i = 40; i < 100; i += 2) fixture.Delete("fill" + std::to_string(i));
}

StoreOptions FullStoreOptions() {
  StoreOptions options = TinyStore(64 * 4096);
  options.core.buckets_initial = 1'024;  // The index does not grow: only the log asks for memory.
  return options;
}

HashOutcome AppendAt(StoreFixture& fixture, std::string_view suffix, std::uint64_t now_ms) {
  return fixture.store->Append(AsBytes("log"), StoreFixture::Hash("log"), AsBytes(suffix), now_ms);
}

TEST_CASE("AppendWhoseRecordExpiresWhileRoomIsMadeWritesTheSuffixOnly") {
  StoreFixture fixture(FullStoreOptions());
  FillAround(fixture, std::string(300, 'a'), 1'000);
  const std::uint64_t now_ms = fixture.core->NowMs();
  fixture.AdvanceMs(1'000);
  fixture.core->NowMs();  // Time of another, later operation.
  const std::string suffix(1'200, 'b');
  const HashOutcome outcome = AppendAt(fixture, suffix, now_ms);
  REQUIRE(outcome.code == StatusCode::kOk);
  REQUIRE(fixture.core->counters().expired_records == 1);
  REQUIRE(outcome.value_bytes == suffix.size());
  REQUIRE(fixture.Text("log") == suffix);
  fixture.core->CheckInvariants();
}

TEST_CASE("MakingRoomForAnOperationExpiresNothingThatTheOperationSaw") {
  StoreFixture fixture(FullStoreOptions());
  FillAround(fixture, std::string(300, 'a'), 1'000);
  const std::uint64_t now_ms = fixture.core->NowMs();
  fixture.AdvanceMs(1'000);
  const HashOutcome outcome = AppendAt(fixture, std::string(1'200, 'b'), now_ms);
  REQUIRE(outcome.code == StatusCode::kOk);
  REQUIRE(outcome.value_bytes == 1'500);
  REQUIRE(fixture.core->counters().compacted_segments > 0);
  REQUIRE(fixture.core->counters().expired_records == 0);
  fixture.core->CheckInvariants();
}

TEST_CASE("AppendToAnExtentThatExpiresInAHalfCompactedSegmentIsRefused") {
  StoreFixture fixture(FullStoreOptions());
  FillAround(fixture, std::string(6'000, 'a'), 1'000);
  const std::uint64_t now_ms = fixture.core->NowMs();
  // A slice moves some of the small records before "log"; then the append pins it.
  fixture.core->BackgroundSlice(0);
  REQUIRE(fixture.core->counters().compacted_segments == 0);
  fixture.AdvanceMs(1'000);
  fixture.core->NowMs();
  const HashOutcome outcome = AppendAt(fixture, std::string(3'000, 'b'), now_ms);
  REQUIRE(fixture.core->counters().expired_records == 1);
  REQUIRE(outcome.code == StatusCode::kResourceExhausted);
  REQUIRE(fixture.Get("log").code == StatusCode::kNotFound);
  fixture.Settle();
  fixture.core->CheckInvariants();
}

TEST_CASE("AppendBeyondTheLargestValueIsOutOfRange") {
  StoreFixture fixture;
  // The check comes before any copying: a value of the limit need not exist for it.
  fixture.Put("key", "x");
  const Bytes too_long(reinterpret_cast<const std::byte*>(&fixture), limits::kValueBytesMax);
  REQUIRE(fixture.store
              ->Append(AsBytes("key"), StoreFixture::Hash("key"), too_long, fixture.core->NowMs())
              .code == StatusCode::kOutOfRange);
}

TEST_CASE("ExpireSetsChangesAndRemovesTheExpiry") {
  StoreFixture fixture;
  REQUIRE(fixture.Expire("key", 10).code == StatusCode::kNotFound);
  fixture.Put("key", "value");
  REQUIRE(fixture.Expire("key", 100).code == StatusCode::kOk);
  REQUIRE(fixture.Ttl("key").result == 100);
  REQUIRE(fixture.Expire("key", 300).code == StatusCode::kOk);
  REQUIRE(fixture.Ttl("key").result == 300);
  REQUIRE(fixture.Expire("key", kTtlNone).code == StatusCode::kOk);
  REQUIRE(fixture.Ttl("key").result == kTtlNone);
  REQUIRE(fixture.Text("key") == "value");
}

TEST_CASE("ExpireOfAnExtentKeepsItsSegments") {
  StoreFixture fixture(TinyStore(4 << 20, 8192));
  const std::string value(50'000, 'v');
  fixture.Put("key", value);
  const std::uint64_t live = fixture.core->usage().live_bytes;
  REQUIRE(fixture.Expire("key", 100).code == StatusCode::kOk);
  REQUIRE(fixture.core->usage().live_bytes == live + 8);  // The trailer.
  REQUIRE(fixture.Text("key") == value);
  fixture.core->CheckInvariants();
  fixture.AdvanceMs(100);
  REQUIRE(fixture.Get("key").code == StatusCode::kNotFound);
  fixture.Settle();
  REQUIRE(fixture.core->usage().live_bytes == 0);
}

TEST_CASE("UpdateStoresDeletesOrKeepsAsIsDecided") {
  StoreFixture fixture;
  using What = UpdateDecision::What;
  const auto update = [&](UpdateDecision decision, std::string* seen = nullptr) {
    return fixture.store->Update(
        AsBytes("key"), fixture.Hash("key"),
        [&](const HashOutcome& present) {
          if (seen != nullptr) *seen = AsText(present.value);
          REQUIRE((present.code == StatusCode::kOk) == (present.version != Lsn()));
          return decision;
        },
        fixture.core->NowMs());
  };
  REQUIRE(update({What::kKeep, {}, 0}).version == Lsn());
  REQUIRE(update({What::kDelete, {}, 0}).code == StatusCode::kOk);
  REQUIRE(fixture.Get("key").code == StatusCode::kNotFound);
  const HashOutcome made = update({What::kStore, AsBytes("one"), 0});
  REQUIRE(made.version != Lsn());
  REQUIRE(fixture.Expire("key", 1000).code == StatusCode::kOk);
  std::string seen;
  const HashOutcome changed = update({What::kStore, AsBytes("12345678"), kRecordI64}, &seen);
  REQUIRE(seen == "one");
  REQUIRE(changed.version > made.version);
  REQUIRE(fixture.Ttl("key").result == 1000);
  REQUIRE(fixture.Get("key").value_flags == kRecordI64);
  REQUIRE(update({What::kKeep, {}, 0}).version == changed.version);
  REQUIRE(update({What::kStore, AsBytes("123"), kRecordI64}).code == StatusCode::kInvalidArgument);
  REQUIRE(update({What::kDelete, {}, 0}).version == Lsn());
  REQUIRE(fixture.Get("key").code == StatusCode::kNotFound);
  REQUIRE(fixture.store->size() == 0);
  fixture.core->CheckInvariants();
}

// Room is made between the decision and the change. Records move, and the kept part of the value
// must be right.
TEST_CASE("UpdateWithAViewOfTheValueSurvivesCompaction") {
  StoreFixture fixture(TinyStore(40 * 4096));
  const std::string value(1'000, 'v');
  fixture.Put("key", "keep-this" + value);
  for (int i = 0; i < 90; ++i) fixture.Put("fill" + std::to_string(i), value);
  int stored = 0;
  for (int round = 0; round < 500; ++round) {
    fixture.Delete("fill" + std::to_string(round % 90));
    fixture.Put("fill" + std::to_string((round * 7) % 90), value);
    const HashOutcome outcome = fixture.store->Update(
        AsBytes("key"), fixture.Hash("key"),
        [&](const HashOutcome& present) {
          const std::size_t bytes = round % 2 == 0 ? 9 : present.value.size();
          return UpdateDecision{UpdateDecision::What::kStore, present.value.first(bytes), 0};
        },
        fixture.core->NowMs());
    stored += outcome.code == StatusCode::kOk ? 1 : 0;
    REQUIRE(fixture.Text("key").substr(0, 9) == "keep-this");
    fixture.Put("key", "keep-this" + value);
  }
  REQUIRE(stored > 100);
  REQUIRE(fixture.core->counters().compacted_segments > 0);
  fixture.core->CheckInvariants();
}

// A page that cannot be read at first. The reader checks the record's state at that moment.
struct Trap {
  static constexpr std::size_t kBytes = 4096;

  static inline Trap* present = nullptr;
  static void OnFault(int /*signal*/) {
    present->sequence = present->record->sequence;
    mprotect(present->page, kBytes, PROT_READ);
  }

  const RecordHeader* record = nullptr;
  void* page = nullptr;
  std::uint32_t sequence = 0;
};

// The sign for readers in other processes.
TEST_CASE("RecordIsOddWhileItIsChangedInPlace") {
  StoreFixture fixture;
  fixture.Put("a", std::string(64, '1'));
  Trap trap;
  trap.record = reinterpret_cast<const RecordHeader*>(fixture.Get("a").value.data() - 1) - 1;
  trap.page = mmap(nullptr, Trap::kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(trap.page != MAP_FAILED);
  const std::uint32_t before = trap.record->sequence;
  REQUIRE(before % 2 == 0);
  Trap::present = &trap;
  struct sigaction action {};
  struct sigaction old {};
  action.sa_handler = &Trap::OnFault;
  REQUIRE(sigaction(SIGSEGV, &action, &old) == 0);
  const Bytes value(static_cast<const std::byte*>(trap.page), 64);
  const HashOutcome outcome =
      fixture.store->Put(AsBytes("a"), StoreFixture::Hash("a"), value, {}, fixture.core->NowMs());
  sigaction(SIGSEGV, &old, nullptr);
  munmap(trap.page, Trap::kBytes);
  REQUIRE(outcome.code == StatusCode::kOk);
  REQUIRE(trap.sequence == before + 1);
  REQUIRE(trap.record->sequence == before + 2);
}

}  // namespace
}  // namespace tidepool::storage
