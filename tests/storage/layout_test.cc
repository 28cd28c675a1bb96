// Sizes and packings of the shared formats, beyond static_asserts.
#include <catch2/catch.hpp>

#include "proto/base/limits.h"
#include "storage/layout.h"

namespace tidepool::storage {
namespace {

TEST_CASE("RecordOfSmallKeyAndValueHasHeaderKeyValueOnly") {
  REQUIRE(RecordBytes(16, 64, 0) == 112);
  REQUIRE(RecordBytes(0, 0, 0) == 32);
  REQUIRE(RecordBytes(1, 0, 0) == 40);
}

TEST_CASE("TrailersFollowTheAlignedValue") {
  REQUIRE(RecordBytes(3, 3, kRecordExpiry) == 32 + 8 + 8);
  REQUIRE(RecordBytes(3, 3, kRecordExpiry | kRecordClient) == 32 + 8 + 8 + 16);
}

TEST_CASE("SlotGivesBackTagAndLocation") {
  const std::uint64_t slot = MakeSlot(0xABCDEF, 0x12'3456'789A);
  REQUIRE(SlotTag(slot) == 0xABCDEF);
  REQUIRE(SlotLocation(slot) == 0x12'3456'789A);
}

TEST_CASE("BucketHeaderGivesBackItsParts") {
  const std::uint64_t header = bucket::Make(5 * bucket::kSequenceStep, 63, 40, bucket::kLinkMask);
  REQUIRE(bucket::Depth(header) == 63);
  REQUIRE(bucket::TagShift(header) == 40);
  REQUIRE(bucket::Link(header) == bucket::kLinkMask);
  REQUIRE(bucket::InFlux(header));
  REQUIRE_FALSE(bucket::InFlux(header + bucket::kSequenceStep));
  REQUIRE(bucket::Depth(header + bucket::kSequenceStep) == 63);
}

TEST_CASE("BucketSequenceWrapsWithoutTouchingTheRest") {
  std::uint64_t header = bucket::Make(0, 17, 9, 1234);
  for (int i = 0; i < (1 << 15); ++i) header += bucket::kSequenceStep;
  REQUIRE(header == bucket::Make(0, 17, 9, 1234));
}

TEST_CASE("ExtentShapeCoversEveryValueSize") {
  for (const std::uint64_t segment : {std::uint64_t{8192}, std::uint64_t{limits::kSegmentBytes}}) {
    const std::uint64_t capacity = ExtentSegmentCapacity(segment);
    for (std::uint64_t bytes = ExtentThresholdBytes(segment) + 1; bytes < 5 * segment;
         bytes += 1 + segment / 97) {
      const ExtentShape shape = ShapeOfExtent(bytes, segment);
      REQUIRE(shape.segments > 0);
      REQUIRE(shape.remainder_bytes <= ExtentThresholdBytes(segment));
      REQUIRE(shape.segments * capacity + shape.remainder_bytes >= bytes);
      if (shape.remainder_bytes > 0) {
        REQUIRE(shape.segments * capacity + shape.remainder_bytes == bytes);
      }
    }
  }
}

TEST_CASE("LargestRecordFitsASegment") {
  const ExtentShape largest = ShapeOfExtent(limits::kValueBytesMax, limits::kSegmentBytes);
  const std::uint64_t stored = largest.link_bytes() + ExtentThresholdBytes(limits::kSegmentBytes);
  REQUIRE(RecordBytes(limits::kKeyBytesMax, stored, 0xFF) <=
          limits::kSegmentBytes - sizeof(SegmentHeader));
}

TEST_CASE("GuardsOfTwoServingEpochsAndAfterABatchDiffer") {
  REQUIRE(MakeGuard(5) != MakeGuard(6));
  REQUIRE((MakeGuard(kServingEpochMax) & kGuardBusy) == 0);
  REQUIRE(MakeGuard(kServingEpochMax) < kGuardGone);
  REQUIRE(ServingEpochOf(MakeGuard(7) + 2) == 7);
  REQUIRE(ServingEpochOf(kGuardGone) > kServingEpochMax);
}

TEST_CASE("DirectoryWordGivesBackWhatItWasMadeOf") {
  const std::uint64_t last = (8ull << 40) - 8;  // The last offset of 8 TiB.
  const std::uint64_t word = directory::Make(last, directory::kEntriesMax);
  REQUIRE(directory::Room(word) == directory::kEntriesMax);
  REQUIRE(directory::EntryOffset(word, 0) == last);
  REQUIRE(directory::EntryOffset(directory::Make(4096, 1), 3) == 4096 + 3 * 8);
}

}  // namespace
}  // namespace tidepool::storage
