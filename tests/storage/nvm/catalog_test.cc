#include "storage/nvm/catalog.h"

#include <catch2/catch.hpp>
#include <random>

#include "storage/device/fault_device.h"
#include "tests/storage/nvm/samples.h"

namespace tidepool::storage {
namespace {

using test::SmallSuperblock;

std::unique_ptr<DeviceQueue> QueueOf(Device& device) {
  auto queue = device.OpenQueue(1);
  REQUIRE(queue.ok());
  return *std::move(queue);
}

std::vector<std::byte> ContentOf(char letter, std::size_t bytes) {
  return std::vector<std::byte>(bytes, static_cast<std::byte>(letter));
}

TEST_CASE("ACatalogReadsAsItWasWritten") {
  const std::uint32_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 500; ++round) {
    const Catalog catalog = test::RandomCatalog(random);
    const auto decoded = DecodeCatalog(EncodeCatalog(catalog));
    REQUIRE(decoded.ok());
    REQUIRE(*decoded == catalog);
  }
}

TEST_CASE("ACatalogThatIsCutOffAnywhereIsDamaged") {
  std::mt19937_64 random(5);
  const std::vector<std::byte> content = EncodeCatalog(test::RandomCatalog(random));
  REQUIRE(content.size() > 50);
  for (std::size_t bytes = 0; bytes < content.size(); ++bytes) {
    REQUIRE(DecodeCatalog(Bytes(content).first(bytes)).code() == StatusCode::kDataLoss);
  }
  std::vector<std::byte> longer = content;
  longer.push_back(std::byte{0});
  CHECK(DecodeCatalog(longer).code() == StatusCode::kDataLoss);
}

TEST_CASE("ACatalogThatCannotBeIsDamaged") {
  Catalog catalog;
  catalog.namespaces.push_back({NamespaceId(3), "a", Kind::kHash, ""});
  catalog.namespaces.push_back({NamespaceId(4), "b", Kind::kQueue, ""});
  catalog.partitions.push_back({PartitionId(NamespaceId(3), 0), Term(1)});
  const std::vector<std::byte> good = EncodeCatalog(catalog);
  const auto code_with = [&good](std::size_t at, std::uint8_t value) {
    std::vector<std::byte> bad = good;
    bad[at] = static_cast<std::byte>(value);
    return DecodeCatalog(bad).code();
  };
  constexpr std::size_t kFirst = 8;
  constexpr std::size_t kSecond = kFirst + 12 + 1;
  constexpr std::size_t kPartition = kSecond + 12 + 1;
  CHECK(code_with(kFirst, 0) == StatusCode::kDataLoss);         // No namespace has id 0.
  CHECK(code_with(kSecond, 3) == StatusCode::kDataLoss);        // Twice the same.
  CHECK(code_with(kFirst + 3, 1) == StatusCode::kDataLoss);     // An id beyond the largest.
  CHECK(code_with(kFirst + 8, 0) == StatusCode::kDataLoss);     // No name.
  CHECK(code_with(kFirst + 10, 0) == StatusCode::kDataLoss);    // No kind.
  CHECK(code_with(kFirst + 10, 200) == StatusCode::kDataLoss);  // An unknown kind.
  CHECK(code_with(kFirst + 11, 1) == StatusCode::kDataLoss);    // Reserved.
  // A partition without a namespace.
  CHECK(code_with(kPartition + 1, 0x50) == StatusCode::kDataLoss);
  CHECK(code_with(kPartition + 7, 1) == StatusCode::kDataLoss);  // A term beyond the largest.
  CHECK(code_with(kPartition + 4, 2) == StatusCode::kOk);
}

TEST_CASE("AWrittenCatalogIsReadBackAndReplaced") {
  const Superblock first = SmallSuperblock(1);
  FaultDevice device(first.layout.device_bytes, 1);
  const auto queue = QueueOf(device);
  Superblock superblock = first;
  REQUIRE(WriteSuperblock(queue.get(), superblock).ok());
  CHECK(ReadCatalog(queue.get(), superblock)->empty());
  for (std::uint64_t round = 0; round < 10; ++round) {
    const auto content = ContentOf(static_cast<char>('a' + round), 100 * round);
    REQUIRE(WriteCatalog(queue.get(), content, &superblock).ok());
    CHECK(superblock.generation == round + 2);
    const auto newest = ReadSuperblock(queue.get());
    REQUIRE(newest.ok());
    CHECK(*newest == superblock);
    const auto read = ReadCatalog(queue.get(), *newest);
    REQUIRE(read.ok());
    CHECK(*read == content);
  }
}

TEST_CASE("ACatalogThatDoesNotFitChangesNothing") {
  Superblock superblock = SmallSuperblock(1);
  FaultDevice device(superblock.layout.device_bytes, 1);
  const auto queue = QueueOf(device);
  REQUIRE(WriteSuperblock(queue.get(), superblock).ok());
  const std::uint64_t most = CatalogContentBytesMax(superblock.layout);
  REQUIRE(WriteCatalog(queue.get(), ContentOf('f', most), &superblock).ok());
  const Superblock before = superblock;
  const Status refused = WriteCatalog(queue.get(), ContentOf('g', most + 1), &superblock);
  CHECK(refused.code() == StatusCode::kResourceExhausted);
  CHECK(superblock == before);
  CHECK(*ReadCatalog(queue.get(), superblock) == ContentOf('f', most));
}

TEST_CASE("DamageToTheCurrentCatalogIsNoticed") {
  Superblock superblock = SmallSuperblock(1);
  FaultDevice device(superblock.layout.device_bytes, 1);
  const auto queue = QueueOf(device);
  REQUIRE(WriteCatalog(queue.get(), ContentOf('x', 100), &superblock).ok());
  const std::uint64_t area = superblock.layout.CatalogOffset(superblock.catalog_area);
  for (std::uint64_t at = 0; at < 32 + 100; ++at) {
    device.FlipBit(area + at, 2);
    REQUIRE(ReadCatalog(queue.get(), superblock).code() == StatusCode::kDataLoss);
    device.FlipBit(area + at, 2);
  }
  CHECK(ReadCatalog(queue.get(), superblock).ok());
  Superblock stale = superblock;  // A catalog of another generation is not it, however sound.
  ++stale.generation;
  ++stale.catalog_generation;
  CHECK(ReadCatalog(queue.get(), stale).code() == StatusCode::kDataLoss);
}

// The power fails at each write of a catalog's change, several times at each, and again in the next
// life. The read catalog is always one of the two, whole.
TEST_CASE("ADamagedSuperblockDoesNotCostTheCatalogThatItNames") {
  FaultDevice device(1 << 20, 1);
  const auto queue = QueueOf(device);
  Superblock superblock = SmallSuperblock(1);
  REQUIRE(WriteSuperblock(queue.get(), superblock).ok());
  const int catalogs = GENERATE(1, 2, 3);
  for (int i = 0; i < catalogs; ++i) {
    const auto letter = static_cast<char>('a' + i);
    REQUIRE(WriteCatalog(queue.get(), ContentOf(letter, 5'000), &superblock).ok());
  }
  const auto last = ContentOf(static_cast<char>('a' + catalogs - 1), 5'000);
  const std::uint64_t newest = superblock.generation % 2 * kDeviceBlockBytes;
  SECTION("the last one") {
    device.FlipBit(newest + 200, 1);
    Superblock older = ReadSuperblock(queue.get()).value();
    REQUIRE(TakeNewerCatalog(queue.get(), &older).ok());
    CHECK(ReadCatalog(queue.get(), older).value() == last);
    // The next write does not touch the sound superblock.
    ++older.generation;
    REQUIRE(WriteSuperblock(queue.get(), older).ok());
    Superblock again = ReadSuperblock(queue.get()).value();
    CHECK(again == older);
    REQUIRE(TakeNewerCatalog(queue.get(), &again).ok());
    CHECK(again == older);
  }
  SECTION("the one before it") {
    device.FlipBit(kDeviceBlockBytes - newest + 200, 1);
    Superblock found = ReadSuperblock(queue.get()).value();
    REQUIRE(TakeNewerCatalog(queue.get(), &found).ok());
    CHECK(found == superblock);
  }
  SECTION("the last one, which named no newer catalog") {
    const Superblock before = superblock;
    ++superblock.generation;
    REQUIRE(WriteSuperblock(queue.get(), superblock).ok());
    device.FlipBit(kDeviceBlockBytes - newest + 200, 1);
    Superblock older = ReadSuperblock(queue.get()).value();
    REQUIRE(TakeNewerCatalog(queue.get(), &older).ok());
    CHECK(older == before);
  }
}

TEST_CASE("ACrashAtAnyWriteLeavesTheOldCatalogOrTheNewOne") {
  const std::uint32_t first_seed = std::random_device{}();
  INFO("seed " << first_seed);
  int stayed_old = 0;
  int became_new = 0;
  for (std::uint32_t i = 0; i < 600; ++i) {
    std::mt19937_64 random(first_seed + i);
    Superblock superblock = SmallSuperblock(1);
    FaultDevice device(superblock.layout.device_bytes, first_seed + i);
    auto queue = QueueOf(device);
    REQUIRE(WriteSuperblock(queue.get(), superblock).ok());
    std::vector<std::byte> now;
    char letter = 'a';
    for (int life = 0; life < 5; ++life) {
      const auto next = ContentOf(letter++, 1 + random() % 8'000);
      device.PowerOffAfterWrites(random() % 3);
      const Status written = WriteCatalog(queue.get(), next, &superblock);
      device.Crash();
      queue = QueueOf(device);
      const auto newest = ReadSuperblock(queue.get());
      REQUIRE(newest.ok());
      const auto read = ReadCatalog(queue.get(), *newest);
      INFO(read.status().ToString());
      REQUIRE(read.ok());
      REQUIRE((*read == next || (!written.ok() && *read == now)));
      ++(*read == next ? became_new : stayed_old);
      superblock = *newest;
      now = *read;
    }
  }
  CHECK(stayed_old > 300);
  CHECK(became_new > 300);
}

TEST_CASE("ACatalogWhoseFlushFailedIsNotNamed") {
  Superblock superblock = SmallSuperblock(1);
  FaultDevice device(superblock.layout.device_bytes, 1);
  const auto queue = QueueOf(device);
  REQUIRE(WriteCatalog(queue.get(), ContentOf('o', 100), &superblock).ok());
  const Superblock before = superblock;
  device.AddRule({DeviceOperation::kFlush, 0, UINT64_MAX, 0, 1, EIO});
  CHECK(WriteCatalog(queue.get(), ContentOf('n', 100), &superblock).code() ==
        StatusCode::kDeviceError);
  CHECK(superblock == before);
  CHECK(*ReadSuperblock(queue.get()) == before);
  CHECK(*ReadCatalog(queue.get(), before) == ContentOf('o', 100));
}

}  // namespace
}  // namespace tidepool::storage
