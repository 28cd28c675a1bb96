// The places of a value's bits, on which two sides must agree for ever.
#include "proto/base/split_block.h"

#include <catch2/catch.hpp>

#include <bit>
#include <cmath>
#include <vector>

#include "proto/base/key_hash.h"
#include "tests/support/random.h"

namespace tidepool {
namespace {

void Set(std::vector<std::byte>& filter, std::uint64_t hash) {
  std::byte* const at =
      filter.data() + SplitBlockOf(hash, filter.size() / kSplitBlockBytes) * kSplitBlockBytes;
  for (int lane = 0; lane < kSplitBlockLanes; ++lane) {
    std::byte* const word = at + lane * 4;
    StoreUnaligned(word, LoadUnaligned<std::uint32_t>(word) | SplitBlockBit(hash, lane));
  }
}

TEST_CASE("PlaceAndBitsOfAValueNeverChange") {
  // Other versions and other nodes have filters with these bits.
  const std::uint64_t hash = KeyHash(AsBytes("tidepool"));
  REQUIRE(hash == 0x60587722e94c5759);
  REQUIRE(SplitBlockOf(hash, 1'000'003) == 884252);
  std::vector<unsigned> bits;
  for (int lane = 0; lane < kSplitBlockLanes; ++lane) {
    bits.push_back(static_cast<unsigned>(std::countr_zero(SplitBlockBit(hash, lane))));
  }
  REQUIRE(bits == std::vector<unsigned>{17, 8, 2, 24, 12, 28, 12, 31});
}

TEST_CASE("EveryLaneOfAValueHasOneBit") {
  test::Random random("EveryLaneOfAValueHasOneBit");
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t hash = random.Word();
    for (int lane = 0; lane < kSplitBlockLanes; ++lane) {
      REQUIRE(std::has_single_bit(SplitBlockBit(hash, lane)));
    }
  }
}

TEST_CASE("ContainsNeedsAllBits") {
  test::Random random("ContainsNeedsAllBits");
  for (int i = 0; i < 1'000; ++i) {
    const std::uint64_t hash = random.Word();
    // At an odd address: a downloaded filter lies anywhere.
    std::vector<std::byte> memory(kSplitBlockBytes + 1);
    std::byte* const split_block = memory.data() + 1;
    for (int lane = 0; lane < kSplitBlockLanes; ++lane) {
      REQUIRE_FALSE(SplitBlockContains(split_block, hash));
      StoreUnaligned(split_block + lane * 4, SplitBlockBit(hash, lane));
    }
    REQUIRE(SplitBlockContains(split_block, hash));
  }
}

TEST_CASE("AFilterContainsWhatWasSetInItAndAnEmptyOneNothing") {
  test::Random random("AFilterContainsWhatWasSetInItAndAnEmptyOneNothing");
  REQUIRE_FALSE(FilterContains({}, random.Word()));
  std::vector<std::byte> filter(1000 * kSplitBlockBytes);
  std::vector<std::uint64_t> hashes;
  for (int i = 0; i < 10'000; ++i) hashes.push_back(random.Word());
  for (const std::uint64_t hash : hashes) Set(filter, hash);
  for (const std::uint64_t hash : hashes) REQUIRE(FilterContains(filter, hash));
}

// The partition takes the high bits of the hash. The remaining bits must still reach all split
// blocks equally, and give bits that do not depend on the block.
TEST_CASE("ValuesOfOnePartitionReachAllSplitBlocksAlike") {
  test::Random random("ValuesOfOnePartitionReachAllSplitBlocksAlike");
  constexpr std::uint64_t kPartitions = 4096;
  constexpr std::uint64_t kBlocks = 512;
  constexpr std::uint64_t kValues = kBlocks * 1000;
  std::vector<std::uint64_t> load(kBlocks);
  std::vector<std::uint64_t> bits(32 * kSplitBlockLanes);
  const std::uint64_t partition = random.Below(kPartitions);
  for (std::uint64_t i = 0; i < kValues; ++i) {
    const std::uint64_t hash = partition << 52 | random.Word() >> 12;
    ++load[SplitBlockOf(hash, kBlocks)];
    for (int lane = 0; lane < kSplitBlockLanes; ++lane) {
      ++bits[static_cast<std::size_t>(lane * 32 + std::countr_zero(SplitBlockBit(hash, lane)))];
    }
  }
  // Six standard deviations of a fair draw: 1000 +- 190 and 16000 +- 747.
  for (const std::uint64_t each : load) REQUIRE(std::abs(double(each) - 1000.0) < 190.0);
  for (const std::uint64_t each : bits) REQUIRE(std::abs(double(each) - 16000.0) < 760.0);
}

}  // namespace
}  // namespace tidepool
