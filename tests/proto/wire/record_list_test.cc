#include "proto/wire/record_list.h"

#include <catch2/catch.hpp>
#include <string>

#include "tests/proto/wire/samples.h"

namespace tidepool::wire {
namespace {

using test::Frame;

Frame ListOf(const std::vector<ListedRecord>& records) {
  Frame list;
  for (const ListedRecord& record : records) {
    const std::size_t at = list.size();
    list.resize(at + record.bytes());
    REQUIRE(AppendRecord(record, list.data() + at) == list.data() + list.size());
  }
  return list;
}

ListedRecord RecordOf(std::string_view key, std::string_view value) {
  ListedRecord record;
  record.key = AsBytes(key);
  record.value = AsBytes(value);
  record.value_bytes = static_cast<std::uint32_t>(value.size());
  return record;
}

bool Same(const ListedRecord& a, const ListedRecord& b) {
  return AsText(a.key) == AsText(b.key) && AsText(a.value) == AsText(b.value) &&
         a.value_bytes == b.value_bytes && a.value_omitted == b.value_omitted &&
         a.value_kind == b.value_kind && a.version == b.version && a.expiry_ms == b.expiry_ms;
}

bool Takes(Bytes list) {
  ListedRecord record;
  const Status status = TakeRecord(&list, &record);
  CHECK((status.ok() || status.code() == StatusCode::kInvalidArgument));
  return status.ok();
}

// Offsets in a record's header.
constexpr std::size_t kValueBytesAt = 16;
constexpr std::size_t kKeyBytesAt = 20;
constexpr std::size_t kKindAt = 22;
constexpr std::size_t kOmittedAt = 23;

template <typename T>
Frame Poked(Frame list, std::size_t at, T value) {
  StoreUnaligned(list.data() + at, value);
  return list;
}

TEST_CASE("RandomRecordsComeBackInOrder") {
  test::Random random("RandomRecordsComeBackInOrder");
  const Frame pool = random.Bytes(limits::kFrameBytesMax);
  for (int round = 0; round < 1'000; ++round) {
    std::vector<ListedRecord> written;
    for (std::uint64_t i = 0; i < random.Below(16); ++i) {
      written.push_back(test::RandomRecord(random, pool));
    }
    const Frame list = ListOf(written);
    Bytes rest = list;
    for (const ListedRecord& expected : written) {
      ListedRecord record;
      REQUIRE(TakeRecord(&rest, &record).ok());
      REQUIRE(Same(record, expected));
    }
    REQUIRE(rest.empty());
  }
}

TEST_CASE("AnOmittedValueKeepsItsSizeAndTakesNoRoom") {
  ListedRecord record = RecordOf("key", "");
  record.value_omitted = true;
  record.value_bytes = limits::kValueBytesMax;
  const Frame list = ListOf({record});
  CHECK(list.size() == ListOf({RecordOf("key", "")}).size());
  Bytes rest = list;
  ListedRecord taken;
  REQUIRE(TakeRecord(&rest, &taken).ok());
  CHECK(taken.value_omitted);
  CHECK(taken.value_bytes == limits::kValueBytesMax);
  CHECK(taken.value.empty());
}

TEST_CASE("AnEntryMayTellHowManyCannotBeRead") {
  ListedRecord unreadable;
  unreadable.unreadable = 7;
  const Frame list = ListOf({RecordOf("key", "value"), unreadable});
  CHECK(list.size() == ListOf({RecordOf("key", "value")}).size() + kUnreadableEntryBytes);
  Bytes rest = list;
  ListedRecord taken;
  REQUIRE(TakeRecord(&rest, &taken).ok());
  CHECK(taken.unreadable == 0);
  REQUIRE(TakeRecord(&rest, &taken).ok());
  CHECK(taken.unreadable == 7);
  CHECK(taken.key.empty());
  CHECK(rest.empty());
  // No other bit may be set, and zero is no entry.
  unreadable.unreadable = 1;
  const Frame one = ListOf({unreadable});
  REQUIRE(Takes(one));
  CHECK_FALSE(Takes(Poked(one, kKeyBytesAt, std::uint16_t{1})));
  CHECK_FALSE(Takes(Poked(one, kKeyBytesAt - 4, std::uint32_t{0})));
  CHECK_FALSE(Takes(Poked(one, 0, std::uint64_t{1})));
}

TEST_CASE("ARecordCutOffAnywhereIsRefused") {
  const Frame list = ListOf({RecordOf("some key", "some value")});
  REQUIRE(Takes(list));
  for (std::size_t bytes = 0; bytes < list.size(); ++bytes)
    CHECK_FALSE(Takes(Bytes(list).first(bytes)));
}

TEST_CASE("SizesKindsAndFlagsOutOfBoundsAreRefused") {
  const std::string key(limits::kKeyBytesMax + 1, 'k');
  const Frame list = ListOf({RecordOf(key, "value")});
  CHECK_FALSE(Takes(list));
  CHECK(Takes(Poked(list, kKeyBytesAt, std::uint16_t{limits::kKeyBytesMax})));
  const Frame small = ListOf({RecordOf("key", "value")});
  CHECK_FALSE(Takes(Poked(small, kValueBytesAt, std::uint32_t{0xffffffff})));
  CHECK_FALSE(Takes(Poked(small, kKindAt, std::uint8_t{3})));
  CHECK_FALSE(Takes(Poked(small, kOmittedAt, std::uint8_t{2})));
  Frame omitted = Poked(small, kOmittedAt, std::uint8_t{1});
  CHECK(Takes(omitted));
  CHECK_FALSE(Takes(Poked(omitted, kValueBytesAt, std::uint32_t{limits::kValueBytesMax + 1})));
}

}  // namespace
}  // namespace tidepool::wire
