#include "proto/manifest/entry.h"

#include <catch2/catch.hpp>

#include "tests/support/random.h"

namespace tidepool::manifest {
namespace {

Entry RandomEntry(test::Random* random) {
  Entry entry;
  entry.type = static_cast<EntryType>(1 + random->Below(3));
  entry.mode = static_cast<std::uint32_t>(random->Below(010000));
  entry.size = random->Word();
  entry.mtime = FileTime::FromNs(static_cast<std::int64_t>(random->Word()));
  entry.hash = {random->Word(), random->Word()};
  entry.data_version = random->Word();
  entry.revision = random->Word();
  for (std::size_t i = random->Size(40); i > 0; --i) {
    entry.parts.push_back({random->Word(), random->Word()});
  }
  const auto target = random->Bytes(random->Size(4096));
  entry.link_target = AsText(target);
  if (random->OneIn(2)) return entry;
  // Only the second format holds the following fields.
  if (random->OneIn(2)) entry.mtime.seconds = static_cast<std::int64_t>(random->Word());
  entry.written_by_key = random->OneIn(2);
  std::uint64_t end = 0;
  for (std::size_t i = random->Size(5); i > 0 && end + 200 < entry.size; --i) {
    entry.holes.push_back({end + random->Below(100), 1 + random->Below(100)});
    end = entry.holes.back().offset + entry.holes.back().bytes;
  }
  for (std::size_t i = random->Size(3); i > 0; --i) {
    const auto value = random->Bytes(random->Size(100));
    entry.xattrs.push_back({"user." + std::to_string(i), std::string(AsText(value))});
  }
  return entry;
}

TEST_CASE("AnEntrySurvivesItsEncoding") {
  test::Random random("AnEntrySurvivesItsEncoding");
  for (int i = 0; i < 2'000; ++i) {
    const Entry entry = RandomEntry(&random);
    const auto decoded = DecodeEntry(AsBytes(EncodeEntry(entry)));
    REQUIRE(decoded.ok());
    REQUIRE(*decoded == entry);
  }
}

TEST_CASE("AnEntryOfTheFirstFormatIsReadAndWrittenAsBefore") {
  Entry entry;
  entry.mode = 0644;
  entry.size = 3;
  entry.mtime = FileTime::FromNs(-1);
  entry.hash = HashOf(AsBytes("abc"));
  entry.data_version = 9;
  const std::string bytes = EncodeEntry(entry);
  CHECK(bytes.size() == 1 + 1 + 4 + 8 + 8 + 16 + 8 + 8 + 4 + 4);
  CHECK(bytes[0] == 1);
  CHECK(bytes.substr(14, 8) == std::string(8, '\xff'));
  CHECK(*DecodeEntry(AsBytes(bytes)) == entry);
}

TEST_CASE("OnlyWhatTheFirstFormatCannotHoldNeedsTheSecond") {
  Entry late;
  late.mtime = {10'423'123'200, 5};  // In the year 2300.
  CHECK(EncodeEntry(late)[0] == 2);
  CHECK(*DecodeEntry(AsBytes(EncodeEntry(late))) == late);
  std::string bytes = EncodeEntry(Entry());
  bytes[0] = 2;
  CHECK_FALSE(DecodeEntry(AsBytes(bytes)).ok());
}

TEST_CASE("HolesOutsideTheFileOrOutOfOrderAreRefused") {
  Entry entry;
  entry.size = 100;
  for (const std::vector<Hole>& holes :
       {std::vector<Hole>{{0, 0}}, {{90, 11}}, {{101, 1}}, {{10, 20}, {29, 1}}}) {
    entry.holes = holes;
    CHECK_FALSE(DecodeEntry(AsBytes(EncodeEntry(entry))).ok());
  }
  entry.holes = {{10, 20}, {30, 70}};
  CHECK(*DecodeEntry(AsBytes(EncodeEntry(entry))) == entry);
}

TEST_CASE("ACutOrLengthenedEntryIsRefused") {
  test::Random random("ACutOrLengthenedEntryIsRefused");
  const std::string whole = EncodeEntry(RandomEntry(&random));
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    REQUIRE_FALSE(DecodeEntry(AsBytes(std::string_view(whole).substr(0, bytes))).ok());
  }
  CHECK_FALSE(DecodeEntry(AsBytes(whole + "x")).ok());
}

TEST_CASE("RandomBytesNeverCrashTheDecoders") {
  test::Random random("RandomBytesNeverCrashTheDecoders");
  for (int i = 0; i < 200'000; ++i) {
    std::string bytes = EncodeEntry(RandomEntry(&random));
    if (i % 2 == 0) bytes = EncodeMark({true, true, {1, 2, 3, 4, 5, 6, {7, 8}}, "/source", 9});
    for (std::size_t k = 1 + random.Below(4); k > 0; --k) {
      bytes[random.Below(bytes.size())] = static_cast<char>(random.Word());
    }
    if (random.OneIn(4)) bytes.resize(random.Below(bytes.size() + 1));
    // Accepted bytes are a complete value, with an equal encoding.
    if (const auto entry = DecodeEntry(AsBytes(bytes)); entry.ok()) {
      REQUIRE(EncodeEntry(*entry) == bytes);
    }
    if (const auto mark = DecodeMark(AsBytes(bytes)); mark.ok()) {
      REQUIRE(EncodeMark(*mark) == bytes);
    }
  }
}

TEST_CASE("AnEntryOfNoTypeOrWithForeignModeBitsIsRefused") {
  Entry entry;
  std::string bytes = EncodeEntry(entry);
  bytes[1] = 4;
  CHECK_FALSE(DecodeEntry(AsBytes(bytes)).ok());
  entry.mode = 010000;
  CHECK_FALSE(DecodeEntry(AsBytes(EncodeEntry(entry))).ok());
}

TEST_CASE("TheTreeHashDoesNotDependOnOrderOrCluster") {
  test::Random random("TheTreeHashDoesNotDependOnOrderOrCluster");
  Summary forward;
  Summary backward;
  Summary halves[2];
  std::vector<Entry> entries;
  for (int i = 0; i < 100; ++i) entries.push_back(RandomEntry(&random));
  for (int i = 0; i < 100; ++i) {
    forward.Add("p" + std::to_string(i), entries[static_cast<std::size_t>(i)]);
    halves[i % 2].Add("p" + std::to_string(i), entries[static_cast<std::size_t>(i)]);
  }
  for (int i = 99; i >= 0; --i) {
    entries[static_cast<std::size_t>(i)].data_version += 7;  // Another cluster, another version.
    backward.Add("p" + std::to_string(i), entries[static_cast<std::size_t>(i)]);
  }
  halves[0].Add(halves[1]);
  CHECK(forward.TreeHash() == backward.TreeHash());
  CHECK(forward == halves[0]);
}

TEST_CASE("TheTreeHashSeesEachAttribute") {
  Entry base;
  base.mode = 0644;
  const auto hash_of = [](std::string_view path, const Entry& entry) {
    Summary summary;
    summary.Add(path, entry);
    return summary.TreeHash();
  };
  std::vector<Hash128> seen = {hash_of("a", base), hash_of("b", base)};
  for (int what = 0; what < 6; ++what) {
    Entry entry = base;
    if (what == 0) entry.type = EntryType::kDirectory;
    if (what == 1) entry.mode = 0600;
    if (what == 2) entry.size = 1;
    if (what == 3) entry.mtime = {0, 1};
    if (what == 4) entry.hash.low = 1;
    if (what == 5) entry.link_target = "x";
    seen.push_back(hash_of("a", entry));
  }
  for (std::size_t i = 0; i < seen.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) CHECK_FALSE(seen[i] == seen[k]);
  }
}

TEST_CASE("ContentInPiecesHashesAsInOnePiece") {
  // Equal to `printf abc | xxhsum -H2`: users can check the manifest.
  CHECK(HashOf(AsBytes("abc")).Hex() == "06b05ab6733a618578af5f94892f3950");
  ContentHash pieces;
  pieces.Add(AsBytes("a"));
  pieces.Add(AsBytes(""));
  pieces.Add(AsBytes("bc"));
  CHECK(pieces.Finish() == HashOf(AsBytes("abc")));
}

}  // namespace
}  // namespace tidepool::manifest
