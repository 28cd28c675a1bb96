// 10^5 random and mutated images of partitions through their decoder, without a fuzzer. The input
// ends at a page that may not be touched.
#include <catch2/catch.hpp>
#include <vector>

#include "daemon/snapshot/image_format.h"
#include "proto/base/limits.h"
#include "storage/layout.h"
#include "tests/fuzz/guarded_room.h"
#include "tests/support/random.h"

namespace tidepool::fuzz {
namespace {

using daemon::snapshot::AppendItem;
using daemon::snapshot::ImageDecoder;
using daemon::snapshot::ImageItem;
using daemon::snapshot::ImagePreface;
using test::Random;

constexpr int kRounds = 100'000;

bool Inside(Bytes view, Bytes whole) {
  return view.empty() ||
         (view.data() >= whole.data() && view.data() + view.size() <= whole.data() + whole.size());
}

// Everything that a reader relies on. Returns whether it is an image from beginning to end.
bool Check(Bytes whole) {
  ImageDecoder decoder;
  Bytes rest = whole;
  std::uint64_t items = 0;
  for (;;) {
    ImageItem item;
    const std::size_t before = rest.size();
    const auto taken = decoder.Next(&rest, &item);
    if (!taken.ok()) {
      const StatusCode code = taken.code();
      REQUIRE((code == StatusCode::kDataLoss || code == StatusCode::kUnimplemented));
      return false;
    }
    if (!*taken) break;
    REQUIRE(rest.size() < before);
    REQUIRE(Inside(item.key, whole));
    REQUIRE(Inside(item.value, whole));
    REQUIRE(item.key.size() <= limits::kKeyBytesMax);
    REQUIRE(item.value.size() <= daemon::snapshot::kItemValueBytesMax);
    const bool is_large = item.kind == ImageItem::Kind::kLargeBegin;
    REQUIRE((!is_large || item.number <= limits::kValueBytesMax));
    REQUIRE((item.value_flags == 0 || item.value.size() == 8));
    if (!decoder.ended()) ++items;
  }
  REQUIRE(decoder.items() == items);
  return decoder.ended() && rest.empty();
}

std::string Sample(Random& random) {
  std::string image = ImagePreface();
  std::uint64_t items = 0;
  bool in_large = false;
  std::uint64_t part_at = 0;
  const auto add = [&](const ImageItem& item) {
    AppendItem(item, &image);
    ++items;
  };
  for (std::uint64_t left = random.Below(6); left > 0; --left) {
    const auto key = random.Bytes(random.Below(20));
    const auto value = random.Bytes(random.Below(40));
    ImageItem item;
    item.version = random.Word();
    item.key = key;
    switch (random.Below(4)) {
      case 0:
        item.kind = ImageItem::Kind::kDelete;
        add(item);
        break;
      case 1:
        if (in_large) break;
        in_large = true;
        part_at = 0;
        item.kind = ImageItem::Kind::kLargeBegin;
        item.number = 8;
        add(item);
        break;
      default:
        item.value = value;
        if (value.size() == 8) item.value_flags = storage::kRecordI64;
        add(item);
    }
    if (!in_large || random.OneIn(2)) continue;
    const std::string part = "abcd";
    add({.kind = ImageItem::Kind::kLargePart, .value = AsBytes(part), .number = part_at});
    part_at += 4;
    if (part_at < 8) continue;
    add({.kind = ImageItem::Kind::kLargeEnd});
    in_large = false;
  }
  if (in_large) add({.kind = ImageItem::Kind::kLargeDrop});
  AppendItem({.kind = ImageItem::Kind::kEnd, .number = items}, &image);
  return image;
}

TEST_CASE("AnyBytesGiveItemsOrAFailure") {
  Random random("image_fuzz_test");
  GuardedRoom room(1 << 16);
  for (int round = 0; round < kRounds; ++round) {
    std::string image = Sample(random);
    REQUIRE(Check(room.Put(AsBytes(image))));
    // Cut off anywhere it is not whole.
    const std::string cut = image.substr(0, random.Below(image.size()));
    REQUIRE_FALSE(Check(room.Put(AsBytes(cut))));
    for (std::uint64_t changes = 1 + random.Below(3); changes > 0; --changes) {
      image[random.Below(image.size())] = static_cast<char>(random.Word());
    }
    (void)Check(room.Put(AsBytes(image)));
    std::vector<std::byte> noise = random.Bytes(random.Below(300));
    (void)Check(room.Put(noise));
    const std::string preface = ImagePreface();
    noise.insert(noise.begin(), AsBytes(preface).begin(), AsBytes(preface).end());
    (void)Check(room.Put(noise));
  }
}

TEST_CASE("AnImageOfAnotherFormatSaysSo") {
  std::string image = ImagePreface();
  image[8] = 2;
  Bytes rest = AsBytes(image);
  ImageDecoder decoder;
  ImageItem item;
  REQUIRE(decoder.Next(&rest, &item).code() == StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace tidepool::fuzz
