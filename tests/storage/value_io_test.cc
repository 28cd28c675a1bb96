// Writers of unpublished values, extents, and pins against overwrites, deletes and compaction.
#include "storage/value_io.h"

#include <catch2/catch.hpp>

#include "proto/base/limits.h"
#include "tests/storage/store_fixture.h"

namespace tidepool::storage {
namespace {

std::string Pattern(std::size_t bytes, int salt = 0) {
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * 7 + i / 251 + salt);
  return text;
}

HashOutcome PutWriter(StoreFixture& fixture, std::string_view key, ValueWriter& writer) {
  return fixture.store->Put(AsBytes(key), StoreFixture::Hash(key), writer, {},
                            fixture.core->NowMs());
}

std::string Read(const ValueReader& reader, std::uint64_t part_bytes) {
  std::string text;
  for (;;) {
    const Bytes part = reader.Part(text.size(), part_bytes);
    if (part.empty()) return text;
    REQUIRE(part.size() <= part_bytes);
    text += AsText(part);
  }
}

TEST_CASE("WrittenValuesOfEverySizeComeBack") {
  StoreFixture fixture;
  const std::size_t segment = limits::kSegmentBytes;
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{40'000}, segment / 2,
                                  segment / 2 + 1, segment - 256, segment - 255, segment,
                                  3 * segment + 12'345, 5 * segment + segment / 2 + 99}) {
    INFO(bytes);
    const std::string value = Pattern(bytes);
    ValueWriter writer = ValueWriter::Begin(*fixture.core, bytes).value();
    for (std::size_t at = 0; at < bytes; at += 56 * 1024) {
      const std::string_view part = std::string_view(value).substr(at, 56 * 1024);
      REQUIRE(writer.Write(at, AsBytes(part)) == StatusCode::kOk);
    }
    REQUIRE(PutWriter(fixture, "key", writer).code == StatusCode::kOk);
    const HashOutcome got = fixture.Get("key");
    REQUIRE(got.value_bytes == bytes);
    REQUIRE((got.extent != nullptr) == (bytes > segment / 2));
    REQUIRE(Read(ValueReader::Pin(*fixture.store, got), 50'000) == value);
    fixture.core->CheckInvariants();
  }
}

TEST_CASE("PartsMayComeInAnyOrder") {
  StoreFixture fixture(TinyStore(4 << 20, 8192));
  const std::string value = Pattern(40'000);
  ValueWriter writer = ValueWriter::Begin(*fixture.core, value.size()).value();
  for (std::size_t at = 39'000;; at -= 1'000) {
    REQUIRE(writer.Write(at, AsBytes(std::string_view(value).substr(at, 1'000))) ==
            StatusCode::kOk);
    if (at == 0) break;
  }
  REQUIRE(PutWriter(fixture, "key", writer).code == StatusCode::kOk);
  REQUIRE(fixture.Text("key") == value);
}

TEST_CASE("WriteBeyondTheValueIsOutOfRange") {
  StoreFixture fixture;
  ValueWriter writer = ValueWriter::Begin(*fixture.core, 10).value();
  REQUIRE(writer.Write(0, AsBytes("12345678901")) == StatusCode::kOutOfRange);
  REQUIRE(writer.Write(11, {}) == StatusCode::kOutOfRange);
  REQUIRE(writer.Write(~0ull, AsBytes("1")) == StatusCode::kOutOfRange);
  REQUIRE(writer.Write(10, {}) == StatusCode::kOk);
}

TEST_CASE("IncompleteExtentIsNotPublished") {
  StoreFixture fixture(TinyStore(4 << 20, 8192));
  ValueWriter writer = ValueWriter::Begin(*fixture.core, 40'000).value();
  REQUIRE(writer.Write(0, AsBytes("begin")) == StatusCode::kOk);
  REQUIRE(PutWriter(fixture, "key", writer).code == StatusCode::kInvalidArgument);
  REQUIRE(fixture.Get("key").code == StatusCode::kNotFound);
}

TEST_CASE("AbandonedWriterGivesItsMemoryBack") {
  StoreFixture fixture(TinyStore(4 << 20, 8192));
  const std::uint64_t before = fixture.core->usage().used_bytes;
  {
    ValueWriter writer = ValueWriter::Begin(*fixture.core, 100'000).value();
    REQUIRE(writer.Write(0, AsBytes(Pattern(100'000))) == StatusCode::kOk);
    REQUIRE(fixture.core->usage().used_bytes > before + 90'000);
    fixture.core->CheckInvariants();
  }
  fixture.core->BackgroundSlice(0);
  const MemoryUsage usage = fixture.core->usage();
  REQUIRE(usage.used_bytes - usage.ready_bytes <= before + 2 * 8192);
  fixture.core->CheckInvariants();
}

TEST_CASE("RefusedPutLeavesTheWriterUsable") {
  StoreFixture fixture;
  fixture.Put("key", "present");
  ValueWriter writer = ValueWriter::Begin(*fixture.core, 5).value();
  REQUIRE(writer.Write(0, AsBytes("value")) == StatusCode::kOk);
  PutOptions options;
  options.condition = PutCondition::kIfAbsent;
  REQUIRE(
      fixture.store
          ->Put(AsBytes("key"), StoreFixture::Hash("key"), writer, options, fixture.core->NowMs())
          .code == StatusCode::kAlreadyExists);
  REQUIRE(PutWriter(fixture, "key", writer).code == StatusCode::kOk);
  REQUIRE(fixture.Text("key") == "value");
}

TEST_CASE("ValueAboveTheLimitOrTheMemoryIsRefusedAtTheBeginning") {
  StoreFixture fixture;
  REQUIRE(ValueWriter::Begin(*fixture.core, limits::kValueBytesMax + 1).code() ==
          StatusCode::kOutOfRange);
  REQUIRE(ValueWriter::Begin(*fixture.core, 200ull << 20).code() == StatusCode::kResourceExhausted);
}

TEST_CASE("WriterThatMeetsFullMemorySaysSoAndNothingIsLost") {
  StoreFixture fixture(TinyStore(40 * 8192, 8192));
  fixture.Put("key", "value");
  ValueWriter a = ValueWriter::Begin(*fixture.core, 200'000).value();
  ValueWriter b = ValueWriter::Begin(*fixture.core, 200'000).value();
  REQUIRE(a.Write(0, AsBytes(Pattern(200'000))) == StatusCode::kOk);
  REQUIRE(b.Write(0, AsBytes(Pattern(200'000))) == StatusCode::kResourceExhausted);
  REQUIRE(PutWriter(fixture, "large", a).code == StatusCode::kOk);
  REQUIRE(fixture.Text("key") == "value");
  REQUIRE(fixture.Text("large") == Pattern(200'000));
  fixture.core->CheckInvariants();
}

TEST_CASE("MemoryOfAnUploadUnderWayIsPromisedToNobodyElse") {
  StoreFixture fixture(TinyStore(40 * 8192, 8192));
  const std::uint64_t dead = fixture.core->usage().dead_bytes;
  ValueWriter a = ValueWriter::Begin(*fixture.core, 200'000).value();
  REQUIRE(a.Write(0, AsBytes(Pattern(200'000))) == StatusCode::kOk);
  REQUIRE(fixture.core->usage().dead_bytes == dead);
  REQUIRE(ValueWriter::Begin(*fixture.core, 200'000).code() == StatusCode::kResourceExhausted);
  fixture.core->CheckInvariants();
  // Published and deleted it is dead, and counts again.
  REQUIRE(PutWriter(fixture, "large", a).code == StatusCode::kOk);
  fixture.core->CheckInvariants();
  fixture.Delete("large");
  REQUIRE(ValueWriter::Begin(*fixture.core, 200'000).code() == StatusCode::kOk);
  fixture.core->CheckInvariants();
}

TEST_CASE("PinnedValueSurvivesOverwriteDeleteAndCompaction") {
  for (const std::size_t bytes : {std::size_t{1'000}, std::size_t{30'000}}) {
    StoreFixture fixture(TinyStore(64 * 8192, 8192));
    const std::string value = Pattern(bytes);
    fixture.Put("key", value);
    ValueReader reader = ValueReader::Pin(*fixture.store, fixture.Get("key"));
    REQUIRE(fixture.Put("key", Pattern(bytes, 1)).code == StatusCode::kOk);
    REQUIRE(fixture.Delete("key").code == StatusCode::kOk);
    // Overwrites the data many times, so that every free segment is used again.
    for (int i = 0; i < 3'000; ++i) {
      REQUIRE(fixture.Put("other" + std::to_string(i % 50), Pattern(1'500, i)).code ==
              StatusCode::kOk);
    }
    REQUIRE(Read(reader, 777) == value);
    fixture.core->CheckInvariants();
    const std::uint64_t pinned = fixture.core->usage().segment_bytes;
    reader = ValueReader();
    fixture.core->BackgroundSlice(0);
    REQUIRE(fixture.core->usage().segment_bytes < pinned);
    fixture.core->CheckInvariants();
  }
}

TEST_CASE("PinnedRecordIsNotChangedInPlace") {
  StoreFixture fixture;
  fixture.Put("key", "aaaa");
  const ValueReader reader = ValueReader::Pin(*fixture.store, fixture.Get("key"));
  fixture.Put("key", "bbbb");
  REQUIRE(Read(reader, 100) == "aaaa");
  REQUIRE(fixture.Text("key") == "bbbb");
}

TEST_CASE("AppendToAPinnedExtentLeavesTheViewAlone") {
  StoreFixture fixture(TinyStore(4 << 20, 8192));
  const std::string value = Pattern(45'000);
  fixture.Put("key", value);
  const ValueReader reader = ValueReader::Pin(*fixture.store, fixture.Get("key"));
  for (int i = 0; i < 20; ++i) fixture.Append("key", Pattern(900, i));
  REQUIRE(Read(reader, 4'000) == value);
  REQUIRE(fixture.Text("key").substr(0, value.size()) == value);
}

TEST_CASE("PinOutlivesItsPartition") {
  StoreFixture fixture(TinyStore(4 << 20, 8192));
  const std::string value = Pattern(30'000);
  fixture.Put("key", value);
  ValueReader reader = ValueReader::Pin(*fixture.store, fixture.Get("key"));
  fixture.core->DropPartition(fixture.partition->id());
  fixture.Settle();
  REQUIRE(Read(reader, 4'000) == value);
  reader = ValueReader();
  fixture.Settle();
  REQUIRE(fixture.core->usage().live_bytes == 0);
}

}  // namespace
}  // namespace tidepool::storage
