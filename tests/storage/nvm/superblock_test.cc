#include "storage/nvm/superblock.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <random>

#include "storage/device/device_io.h"
#include "storage/device/fault_device.h"
#include "storage/nvm/crc32c.h"
#include "tests/storage/nvm/samples.h"

namespace tidepool::storage {
namespace {

using test::SmallSuperblock;

constexpr std::size_t kFormatAt = 8;
constexpr std::size_t kCrcAt = 12;

BlockBuffer Encoded(const Superblock& superblock) {
  BlockBuffer block(kDeviceBlockBytes);
  EncodeSuperblock(superblock, block.bytes());
  return block;
}

void Sign(BlockBuffer& block) {
  StoreUnaligned(block.data() + kCrcAt, std::uint32_t{0});
  StoreUnaligned(block.data() + kCrcAt, Crc32c(block.bytes()));
}

std::unique_ptr<DeviceQueue> QueueOf(Device& device) {
  auto queue = device.OpenQueue(1);
  REQUIRE(queue.ok());
  return *std::move(queue);
}

TEST_CASE("ASuperblockReadsAsItWasWritten") {
  const std::uint32_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 500; ++round) {
    const Superblock superblock = test::RandomSuperblock(random);
    const BlockBuffer block = Encoded(superblock);
    const auto decoded = DecodeSuperblock(block.bytes());
    REQUIRE(decoded.ok());
    REQUIRE(*decoded == superblock);
  }
}

TEST_CASE("TheChecksumOfASuperblockCoversAllOfIt") {
  const BlockBuffer good = Encoded(SmallSuperblock());
  for (std::size_t at = kFormatAt; at < kDeviceBlockBytes; ++at) {
    BlockBuffer bad = Encoded(SmallSuperblock());
    bad.data()[at] ^= std::byte{1};
    REQUIRE(DecodeSuperblock(bad.bytes()).code() == StatusCode::kDataLoss);
  }
  CHECK(DecodeSuperblock(good.bytes()).ok());
}

TEST_CASE("BytesThatWereNeverASuperblockAreNone") {
  const BlockBuffer zeros(kDeviceBlockBytes);
  CHECK(DecodeSuperblock(zeros.bytes()).code() == StatusCode::kNotFound);
  CHECK(DecodeSuperblock({}).code() == StatusCode::kNotFound);
  const BlockBuffer block = Encoded(SmallSuperblock());
  CHECK(DecodeSuperblock(block.bytes().first(kDeviceBlockBytes - 1)).code() ==
        StatusCode::kNotFound);
}

TEST_CASE("AnotherFormatIsNamed") {
  BlockBuffer block = Encoded(SmallSuperblock());
  StoreUnaligned(block.data() + kFormatAt, std::uint32_t{7});
  CHECK(DecodeSuperblock(block.bytes()).code() == StatusCode::kDataLoss);  // Only damaged.
  Sign(block);
  const auto refused = DecodeSuperblock(block.bytes());
  CHECK(refused.code() == StatusCode::kFailedPrecondition);
  CHECK(refused.status().ToString().find("format 7") != std::string::npos);
  const std::string own = "format " + std::to_string(kSuperblockFormat);
  CHECK(refused.status().ToString().find(own) != std::string::npos);
}

TEST_CASE("ASuperblockThatContradictsItselfIsDamaged") {
  const auto code_with = [](std::size_t at, std::uint64_t value) {
    BlockBuffer block = Encoded(SmallSuperblock());
    StoreUnaligned(block.data() + at, value);
    Sign(block);
    return DecodeSuperblock(block.bytes()).code();
  };
  CHECK(code_with(16, 0) == StatusCode::kDataLoss);            // Generation.
  CHECK(code_with(384, 4096) == StatusCode::kDataLoss);        // Bytes of the device.
  CHECK(code_with(400, 1ull << 60) == StatusCode::kDataLoss);  // Slots.
  CHECK(code_with(456, 99) == StatusCode::kDataLoss);          // Catalog of a later generation.
  CHECK(code_with(480 + 40, 1) == StatusCode::kDataLoss);      // A checkpoint of core 1 of 1.
  CHECK(code_with(4088, 1) == StatusCode::kDataLoss);          // Behind the end.
  CHECK(code_with(96, 12345) == StatusCode::kOk);
}

TEST_CASE("TheNewerOfTwoSuperblocksCounts") {
  FaultDevice device(1 << 20, 1);
  const auto queue = QueueOf(device);
  CHECK(ReadSuperblock(queue.get()).code() == StatusCode::kNotFound);
  for (std::uint64_t generation = 1; generation < 6; ++generation) {
    REQUIRE(WriteSuperblock(queue.get(), SmallSuperblock(generation)).ok());
    const auto read = ReadSuperblock(queue.get());
    REQUIRE(read.ok());
    CHECK(read->generation == generation);
  }
  device.FlipBit(kDeviceBlockBytes + 300, 1);  // Generation 5.
  CHECK(ReadSuperblock(queue.get())->generation == 4);
  device.FlipBit(300, 1);
  CHECK(ReadSuperblock(queue.get()).code() == StatusCode::kDataLoss);
}

TEST_CASE("ANewerFormatInOneOfTwoIsEnoughToRefuse") {
  FaultDevice device(1 << 20, 1);
  const auto queue = QueueOf(device);
  REQUIRE(WriteSuperblock(queue.get(), SmallSuperblock(1)).ok());
  BlockBuffer newer = Encoded(SmallSuperblock(2));
  StoreUnaligned(newer.data() + kFormatAt, kSuperblockFormat + 1);
  Sign(newer);
  REQUIRE(WriteBlocksThrough(queue.get(), 0, newer.bytes()).ok());
  CHECK(ReadSuperblock(queue.get()).code() == StatusCode::kFailedPrecondition);
}

// Each of the 256 ways in which a write of eight sectors can tear.
TEST_CASE("ATornSuperblockLeavesTheOlderOne") {
  // Has enough cores to differ in two sectors.
  const auto of_generation = [](std::uint64_t generation) {
    Superblock superblock = SmallSuperblock(generation);
    superblock.layout = *PlanLayout(1 << 20, test::SmallLayout(8));
    return superblock;
  };
  const BlockBuffer old_block = Encoded(of_generation(1));
  Superblock next = of_generation(3);  // Into the same slot.
  next.incarnation = 77;
  next.host = "another";
  next.checkpoints[7][1] = {5, 6};
  const BlockBuffer new_block = Encoded(next);
  for (unsigned kept = 0; kept < 256; ++kept) {
    FaultDevice device(1 << 20, 1);
    const auto queue = QueueOf(device);
    REQUIRE(WriteSuperblock(queue.get(), of_generation(2)).ok());
    BlockBuffer torn(kDeviceBlockBytes);
    for (std::size_t sector = 0; sector < 8; ++sector) {
      const BlockBuffer& from = (kept >> sector & 1) != 0 ? new_block : old_block;
      std::memcpy(torn.data() + sector * 512, from.bytes().data() + sector * 512, 512);
    }
    REQUIRE(WriteBlocksThrough(queue.get(), kDeviceBlockBytes, torn.bytes()).ok());
    const auto read = ReadSuperblock(queue.get());
    REQUIRE(read.ok());
    // Sectors in which both are zero do not matter.
    REQUIRE((*read == next || *read == of_generation(2)));
    if ((kept & 3) != 3) REQUIRE(*read == of_generation(2));
  }
}

TEST_CASE("APowerFailureWhileASuperblockIsWrittenLeavesOneOfTheTwo") {
  int stayed_old = 0;
  int became_new = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    FaultDevice device(1 << 20, seed);
    auto queue = QueueOf(device);
    REQUIRE(WriteSuperblock(queue.get(), SmallSuperblock(1)).ok());
    REQUIRE(WriteSuperblock(queue.get(), SmallSuperblock(2)).ok());
    device.PowerOffAfterWrites(0);
    CHECK(WriteSuperblock(queue.get(), SmallSuperblock(3)).code() == StatusCode::kDeviceError);
    device.Crash();
    queue = QueueOf(device);
    const auto read = ReadSuperblock(queue.get());
    REQUIRE(read.ok());
    stayed_old += *read == SmallSuperblock(2) ? 1 : 0;
    became_new += *read == SmallSuperblock(3) ? 1 : 0;
  }
  CHECK(stayed_old + became_new == 400);
  CHECK(stayed_old > 20);
  CHECK(became_new > 20);
}

TEST_CASE("UuidsAreTextAndBytes") {
  const std::string text = "3f2b8c1e-9d4a-4c6f-8a51-0d7e6b2c9f10";
  const auto uuid = ParseUuid(text);
  REQUIRE(uuid.ok());
  CHECK((*uuid)[0] == std::byte{0x3f});
  CHECK((*uuid)[15] == std::byte{0x10});
  CHECK(FormatUuid(*uuid) == text);
  for (const char* bad :
       {"", "3f2b8c1e", "3f2b8c1e-9d4a-4c6f-8a51-0d7e6b2c9f1",
        "3f2b8c1e-9d4a-4c6f-8a51-0d7e6b2c9f1g", "3f2b8c1e9-d4a-4c6f-8a51-0d7e6b2c9f10"}) {
    CHECK(ParseUuid(bad).code() == StatusCode::kInvalidArgument);
  }
  CHECK(RandomUuid() != RandomUuid());
  CHECK(FormatUuid(RandomUuid())[14] == '4');
}

TEST_CASE("ADeviceIsUnformattedUntilASuperblockIsWhole") {
  FaultDevice device(1 << 20, 1);
  const auto queue = QueueOf(device);
  CHECK(*IsUnformatted(queue.get()));
  BlockBuffer torn = Encoded(SmallSuperblock(1));
  torn.data()[700] ^= std::byte{1};
  REQUIRE(WriteBlocksThrough(queue.get(), kDeviceBlockBytes, torn.bytes()).ok());
  CHECK(*IsUnformatted(queue.get()));
  REQUIRE(WriteSuperblock(queue.get(), SmallSuperblock(1)).ok());
  CHECK_FALSE(*IsUnformatted(queue.get()));
}

}  // namespace
}  // namespace tidepool::storage
