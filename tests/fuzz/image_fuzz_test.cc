// 10^5 random and mutated images of partitions through their decoder, without a fuzzer. The input
// ends at a page that may not be touched.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "daemon/snapshot/image_format.h"
#include "storage/layout.h"
#include "tests/fuzz/guarded_room.h"
#include "tests/fuzz/image_checks.h"
#include "tests/support/random.h"

namespace tidepool::fuzz {
namespace {

using daemon::snapshot::AppendItem;
using daemon::snapshot::ImageDecoder;
using daemon::snapshot::ImageItem;
using daemon::snapshot::ImagePreface;
using test::Random;

constexpr int kRounds = 100'000;

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
    switch (random.Below(6)) {
      case 4:
        if (value.empty()) break;
        add({.kind = ImageItem::Kind::kBlock, .value = value, .number = random.Below(100)});
        break;
      case 5:
        add({.kind = ImageItem::Kind::kInsert, .number = random.Word()});
        break;
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
    REQUIRE(CheckImage(room.Put(AsBytes(image))));
    // Cut off anywhere it is not whole.
    const std::string cut = image.substr(0, random.Below(image.size()));
    REQUIRE_FALSE(CheckImage(room.Put(AsBytes(cut))));
    for (std::uint64_t changes = 1 + random.Below(3); changes > 0; --changes) {
      image[random.Below(image.size())] = static_cast<char>(random.Word());
    }
    (void)CheckImage(room.Put(AsBytes(image)));
    std::vector<std::byte> noise = random.Bytes(random.Below(300));
    (void)CheckImage(room.Put(noise));
    const std::string preface = ImagePreface();
    noise.insert(noise.begin(), AsBytes(preface).begin(), AsBytes(preface).end());
    (void)CheckImage(room.Put(noise));
  }
}

// True if each item by itself may be read.
bool IsSound(const ImageItem& item) {
  std::string image = ImagePreface();
  AppendItem(item, &image);
  AppendItem({.kind = ImageItem::Kind::kEnd, .number = 1}, &image);
  return CheckImage(AsBytes(image));
}

TEST_CASE("ItemsOfFiltersHaveWhatTheirKindHas") {
  const std::string bits(4096, 'b');
  const std::string more(64 * 1024 + 1, 'b');
  using Kind = ImageItem::Kind;
  CHECK(IsSound({.kind = Kind::kBlock, .value = AsBytes(bits)}));
  CHECK_FALSE(IsSound({.kind = Kind::kBlock}));
  CHECK_FALSE(IsSound({.kind = Kind::kBlock, .value = AsBytes(more)}));
  CHECK_FALSE(IsSound({.kind = Kind::kBlock, .key = AsBytes(bits), .value = AsBytes(bits)}));
  CHECK(IsSound({.kind = Kind::kInsert, .number = ~0ull}));
  CHECK_FALSE(IsSound({.kind = Kind::kInsert, .key = AsBytes(bits)}));
  CHECK_FALSE(IsSound({.kind = Kind::kInsert, .value = AsBytes(bits)}));
  CHECK_FALSE(IsSound({.kind = static_cast<Kind>(static_cast<int>(Kind::kInsert) + 1)}));
}

TEST_CASE("TheSeedCorpusOfImagesIsUnderstoodAsItsNamesSay") {
  GuardedRoom room(1 << 16);
  int files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(TIDEPOOL_CORPUS) / "image")) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    INFO(entry.path());
    CHECK(CheckImage(room.Put(AsBytes(text))) ==
          entry.path().filename().string().starts_with("ok-"));
    ++files;
  }
  CHECK(files >= 8);
}

// Writes a new corpus: run `image_fuzz_test [write_corpus]` after a change of the format, which old
// files then show as refused.
TEST_CASE("WriteTheSeedCorpusOfImages", "[.][write_corpus]") {
  Random random("WriteTheSeedCorpusOfImages", 1);
  const auto folder = std::filesystem::path(TIDEPOOL_CORPUS) / "image";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  for (int good = 0, bad = 0; good < 6 || bad < 6;) {
    std::string image = Sample(random);
    if (image.size() < 100) continue;
    if (good == 6) image[random.Below(image.size())] ^= 1;
    const bool accepted = CheckImage(AsBytes(image));
    int& count = accepted ? good : bad;
    if (count == 6) continue;
    const std::string name = (accepted ? "ok-" : "bad-") + std::to_string(count++);
    std::ofstream(folder / name, std::ios::binary) << image;
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
