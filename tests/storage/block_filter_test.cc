// The filter against a model of bits and sets, for both ways of setting them.
#include "storage/block_filter.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "storage/core_memory.h"
#include "storage/match_level.h"
#include "tests/support/random.h"
#include "tests/support/skip.h"

namespace tidepool::storage {
namespace {

// The level comes back when the test ends, however it ends.
class LevelGuard {
 public:
  explicit LevelGuard(MatchLevel level) : taken_(SetMatchLevel(level)) {}
  ~LevelGuard() { SetMatchLevel(before_); }
  MatchLevel taken() const { return taken_; }

 private:
  const MatchLevel before_ = g_match_level;
  const MatchLevel taken_;
};

struct FilterFixture {
  explicit FilterFixture(std::uint64_t memory_bytes = 64ull << 20,
                         std::uint64_t block_bytes = limits::kSegmentBytes) {
    ArenaPoolOptions options;
    options.memory_bytes = memory_bytes;
    options.block_bytes = block_bytes;
    options.arena_first_bytes = 8 * block_bytes;
    options.arena_bytes = 32 * block_bytes;
    pool = ArenaPool::Create(options).value();
    memory = std::make_unique<CoreMemory>(*pool, 0);
  }
  std::unique_ptr<BlockFilter> Make(FilterShape shape) {
    return BlockFilter::Create(shape, *memory).value();
  }
  // Makes a filter of about this number of bits for each of `items` values.
  std::unique_ptr<BlockFilter> Make(std::uint64_t items, std::uint64_t bits_per_item) {
    const std::uint64_t bytes = AlignUp(items * bits_per_item / 8, limits::kFilterBlockBytes);
    return Make(FilterShape{bytes / kSplitBlockBytes});
  }
  // Arenas come back dirty: a filter must not trust their content.
  void Dirty() {
    std::vector<std::uint64_t> blocks;
    for (std::uint64_t block; (block = memory->AllocateBlock(MemoryClass::kUser)) != 0;) {
      std::memset(memory->At(block), 0xff, memory->block_bytes());
      blocks.push_back(block);
    }
    for (const std::uint64_t block : blocks) memory->FreeBlock(block);
  }

  std::unique_ptr<ArenaPool> pool;
  std::unique_ptr<CoreMemory> memory;
};

std::vector<std::uint64_t> Hashes(test::Random& random, std::size_t count) {
  std::vector<std::uint64_t> hashes(count);
  for (std::uint64_t& hash : hashes) hash = random.Word();
  return hashes;
}

std::vector<std::byte> BytesOf(const BlockFilter& filter) {
  std::vector<std::byte> bytes;
  for (std::uint64_t block = 0; block < filter.block_count(); ++block) {
    const Bytes each = filter.Block(block);
    bytes.insert(bytes.end(), each.begin(), each.end());
  }
  return bytes;
}

TEST_CASE("WhatWasInsertedIsNeverMissed") {
  test::Random random("WhatWasInsertedIsNeverMissed");
  FilterFixture fixture;
  for (const MatchLevel level : {MatchLevel::kScalar, MatchLevel::kAvx2}) {
    const LevelGuard guard(level);
    // Far too small for its values: the errors are in one direction only.
    const auto filter = fixture.Make(FilterShape{256});
    const std::vector<std::uint64_t> hashes = Hashes(random, 20'000);
    for (const std::uint64_t hash : hashes) {
      filter->InsertAndTell(hash);
      REQUIRE(filter->Contains(hash));
    }
    for (const std::uint64_t hash : hashes) REQUIRE(filter->Contains(hash));
    filter->CheckInvariants();
  }
}

TEST_CASE("Avx2AndPortableSetTheSameBitsAndTellTheSame", "[machine]") {
  const LevelGuard highest(MatchLevel::kAvx512);
  if (highest.taken() < MatchLevel::kAvx2) {
    TIDEPOOL_SKIP("this processor has no AVX2: nothing to compare");
  }
  test::Random random("Avx2AndPortableSetTheSameBitsAndTellTheSame");
  FilterFixture fixture;
  const auto fast = fixture.Make(50'000, 8);
  const auto portable = fixture.Make(50'000, 8);
  for (int i = 0; i < 100'000; ++i) {
    // Few distinct values, so that many are inserted again.
    const std::uint64_t hash = random.Below(60'000) * 0x9e3779b97f4a7c15ull ^ random.seed();
    const bool contains_fast = fast->Contains(hash);
    const bool new_fast = fast->InsertAndTell(hash);
    const LevelGuard guard(MatchLevel::kScalar);
    REQUIRE(portable->Contains(hash) == contains_fast);
    REQUIRE(portable->InsertAndTell(hash) == new_fast);
    REQUIRE(new_fast == !contains_fast);
  }
  REQUIRE(fast->bits_set() == portable->bits_set());
  REQUIRE(BytesOf(*fast) == BytesOf(*portable));
}

TEST_CASE("NewIsToldExactlyWhenABitOfTheValueWasNotSet") {
  test::Random random("NewIsToldExactlyWhenABitOfTheValueWasNotSet");
  FilterFixture fixture;
  for (const MatchLevel level : {MatchLevel::kScalar, MatchLevel::kAvx2}) {
    const LevelGuard guard(level);
    const FilterShape shape{4096};
    const auto filter = fixture.Make(shape);
    std::vector<bool> bits(shape.bits());
    // Split block and mask of a value: a filter cannot distinguish two values that share them.
    std::set<std::vector<std::uint64_t>> told;
    const std::vector<std::uint64_t> pool = Hashes(random, 30'000);
    for (int i = 0; i < 120'000; ++i) {
      const std::uint64_t hash = pool[random.Below(pool.size())];
      const std::uint64_t split_block = SplitBlockOf(hash, shape.split_blocks);
      std::vector<std::uint64_t> signature = {split_block};
      bool any_unset = false;
      for (int lane = 0; lane < kSplitBlockLanes; ++lane) {
        const auto bit = static_cast<std::uint64_t>(std::countr_zero(SplitBlockBit(hash, lane)));
        const std::uint64_t at =
            split_block * kSplitBlockBits + static_cast<std::uint64_t>(lane) * 32 + bit;
        any_unset = any_unset || !bits[at];
        bits[at] = true;
        signature.push_back(bit);
      }
      const bool is_new = filter->InsertAndTell(hash);
      REQUIRE(is_new == any_unset);
      if (is_new) REQUIRE(told.insert(std::move(signature)).second);
    }
    REQUIRE(filter->bits_set() ==
            static_cast<std::uint64_t>(std::count(bits.begin(), bits.end(), true)));
    filter->CheckInvariants();
  }
}

TEST_CASE("ManyTogetherAreAnsweredAsOneByOne") {
  test::Random random("ManyTogetherAreAnsweredAsOneByOne");
  FilterFixture fixture;
  for (const MatchLevel level : {MatchLevel::kScalar, MatchLevel::kAvx2}) {
    const LevelGuard guard(level);
    const auto together = fixture.Make(20'000, 12);
    const auto one_by_one = fixture.Make(20'000, 12);
    for (int call = 0; call < 500; ++call) {
      // All sizes around a stage, with values that repeat within a call.
      std::vector<std::uint64_t> hashes(random.Below(100));
      for (std::uint64_t& hash : hashes) hash = random.Below(20'000) * 0x9e3779b97f4a7c15ull;
      std::unique_ptr<bool[]> found(new bool[hashes.size() + 1]);
      std::unique_ptr<bool[]> is_new(new bool[hashes.size() + 1]);
      found[hashes.size()] = is_new[hashes.size()] = true;
      together->Contains(hashes, found.get());
      for (std::size_t i = 0; i < hashes.size(); ++i) {
        REQUIRE(found[i] == one_by_one->Contains(hashes[i]));
      }
      together->InsertAndTell(hashes, is_new.get());
      for (std::size_t i = 0; i < hashes.size(); ++i) {
        REQUIRE(is_new[i] == one_by_one->InsertAndTell(hashes[i]));
      }
      REQUIRE(found[hashes.size()]);
      REQUIRE(is_new[hashes.size()]);
    }
    REQUIRE(BytesOf(*together) == BytesOf(*one_by_one));
    REQUIRE(together->bits_set() == one_by_one->bits_set());
    together->CheckInvariants();
  }
}

TEST_CASE("TheRealRateIsWhatTheShapeSays") {
  test::Random random("TheRealRateIsWhatTheShapeSays");
  constexpr std::uint64_t kItems = 200'000;
  constexpr std::uint64_t kProbes = 1'000'000;
  const std::pair<std::uint64_t, double> measured[] = {
      {8, 0.033}, {10, 0.0128}, {12, 0.0055}, {16, 0.0014}, {20, 0.0004}};
  for (const auto& [bits_per_item, rate] : measured) {
    INFO(bits_per_item << " bits per value");
    FilterFixture fixture;
    const auto filter = fixture.Make(kItems, bits_per_item);
    // Exactly this number of bits per value, although sizes are whole blocks.
    const std::uint64_t items = filter->shape().bits() / bits_per_item;
    for (std::uint64_t i = 0; i < items; ++i) filter->InsertAndTell(random.Word());
    std::uint64_t errors = 0;
    for (std::uint64_t i = 0; i < kProbes; ++i) errors += filter->Contains(random.Word()) ? 1 : 0;
    const double real = static_cast<double>(errors) / kProbes;
    // Six deviations of counting: of 400 errors (20 bits) that is a third.
    const double deviation = std::sqrt(rate / kProbes);
    REQUIRE(std::abs(real - rate) < 6 * deviation + 0.08 * rate);
    REQUIRE(std::abs(filter->EstimatedFalsePositiveRate() - rate) < 0.08 * rate);
    REQUIRE(filter->EstimatedItems() == Approx(double(items)).epsilon(0.01));
  }
}

TEST_CASE("TheRateHoldsInsideOnePartitionOfMany") {
  test::Random random("TheRateHoldsInsideOnePartitionOfMany");
  FilterFixture fixture;
  const auto filter = fixture.Make(100'000, 12);
  const auto of_partition = [&] { return 0xABCull << 52 | random.Word() >> 12; };
  const std::uint64_t items = filter->shape().bits() / 12;
  for (std::uint64_t i = 0; i < items; ++i) filter->InsertAndTell(of_partition());
  std::uint64_t errors = 0;
  for (int i = 0; i < 1'000'000; ++i) errors += filter->Contains(of_partition()) ? 1 : 0;
  REQUIRE(std::abs(double(errors) / 1e6 - 0.00542) < 6 * std::sqrt(0.00542 / 1e6) + 0.0003);
}

TEST_CASE("UnionContainsBothAndCountsWhatBothSet") {
  test::Random random("UnionContainsBothAndCountsWhatBothSet");
  FilterFixture fixture;
  const auto first = fixture.Make(20'000, 12);
  const auto second = fixture.Make(20'000, 12);
  const auto both = fixture.Make(20'000, 12);
  const std::vector<std::uint64_t> hashes = Hashes(random, 15'000);
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    if (i < 10'000) first->InsertAndTell(hashes[i]);
    if (i >= 5'000) second->InsertAndTell(hashes[i]);
    both->InsertAndTell(hashes[i]);
  }
  REQUIRE(first->Union(*second).ok());
  REQUIRE(BytesOf(*first) == BytesOf(*both));
  REQUIRE(first->bits_set() == both->bits_set());
  first->CheckInvariants();
  for (const std::uint64_t hash : hashes) REQUIRE(first->Contains(hash));
  REQUIRE(first->EstimatedItems() == Approx(15'000).epsilon(0.05));
  // Again, and with itself: nothing changes.
  REQUIRE(first->Union(*second).ok());
  REQUIRE(first->Union(*first).ok());
  REQUIRE(BytesOf(*first) == BytesOf(*both));
}

TEST_CASE("UnionOfOtherShapesIsRefusedAndChangesNothing") {
  FilterFixture fixture;
  const auto small = fixture.Make(FilterShape{128});
  const auto large = fixture.Make(FilterShape{256});
  large->InsertAndTell(1);
  const Status status = small->Union(*large);
  REQUIRE(status == StatusCode::kFailedPrecondition);
  REQUIRE(status.what().find("4096") != std::string_view::npos);
  REQUIRE(small->bits_set() == 0);
}

TEST_CASE("ADownloadedFilterAnswersAsTheOriginal") {
  test::Random random("ADownloadedFilterAnswersAsTheOriginal");
  FilterFixture fixture;
  const auto filter = fixture.Make(100'000, 10);
  for (int i = 0; i < 100'000; ++i) filter->InsertAndTell(random.Word());
  const std::vector<std::byte> copy = BytesOf(*filter);
  REQUIRE(copy.size() == filter->shape().bytes());
  for (int i = 0; i < 200'000; ++i) {
    const std::uint64_t hash = random.Word();
    REQUIRE(FilterContains(copy, hash) == filter->Contains(hash));
  }
}

TEST_CASE("AFilterIsEmptyWhateverItsMemoryHeldBefore") {
  test::Random random("AFilterIsEmptyWhateverItsMemoryHeldBefore");
  FilterFixture fixture;
  fixture.Dirty();
  const auto filter = fixture.Make(FilterShape{300 * 2048});  // 9 blocks of 2 MiB and 12 of 64 KiB.
  REQUIRE(filter->block_count() == 300);
  std::vector<std::uint64_t> inserted;
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t hash = random.Word();
    REQUIRE_FALSE(filter->Contains(hash));
    REQUIRE(filter->InsertAndTell(hash));
    inserted.push_back(hash);
  }
  filter->CheckInvariants();
  // Touched blocks have a place for other readers. Touching the rest changes no bit.
  std::uint64_t untouched = 0;
  for (std::uint64_t block = 0; block < 300; ++block) {
    untouched += filter->BlockOffset(block) == 0 ? 1 : 0;
  }
  REQUIRE(untouched >= 200);
  const std::vector<std::byte> before = BytesOf(*filter);
  int steps = 0;
  REQUIRE(filter->TouchSlice([&] { return ++steps > 10; }));
  while (filter->TouchSlice([&] { return ++steps % 7 == 0; })) {
  }
  REQUIRE(BytesOf(*filter) == before);
  for (std::uint64_t block = 0; block < 300; ++block) {
    const std::uint64_t offset = filter->BlockOffset(block);
    REQUIRE(offset != 0);
    REQUIRE(std::memcmp(fixture.memory->At(offset), filter->Block(block).data(),
                        filter->block_bytes()) == 0);
  }
  for (const std::uint64_t hash : inserted) REQUIRE_FALSE(filter->InsertAndTell(hash));
  filter->CheckInvariants();
}

TEST_CASE("MemoryIsCountedAndComesBack") {
  for (const std::uint64_t memory_block : {4096ull, 65536ull, 2097152ull}) {
    for (const std::uint64_t bytes : {4096ull, 32768ull, 65536ull, 5ull << 16, 3ull << 20}) {
      INFO("filter of " << bytes << " bytes in blocks of " << memory_block);
      FilterFixture fixture(64ull << 20, memory_block);
      auto filter = fixture.Make(FilterShape{bytes / kSplitBlockBytes});
      REQUIRE(filter->allocated_bytes() == bytes);
      REQUIRE(fixture.memory->blocks_held() == (bytes + memory_block - 1) / memory_block);
      filter->InsertAndTell(7);
      filter->CheckInvariants();
      int steps = 0;
      while (filter->FreeSlice([&] { return ++steps % 2 == 0; })) {
      }
      REQUIRE(filter->allocated_bytes() == 0);
      REQUIRE(fixture.memory->blocks_held() == 0);
      // Or all at once.
      filter = fixture.Make(FilterShape{bytes / kSplitBlockBytes});
      filter.reset();
      REQUIRE(fixture.memory->blocks_held() == 0);
    }
  }
}

TEST_CASE("AFilterThatDoesNotFitIsRefusedAndTakesNothing") {
  FilterFixture fixture(16ull << 20);
  const std::uint64_t available = fixture.memory->BlocksAvailable();
  const auto too_large =
      BlockFilter::Create(FilterShape{(17ull << 20) / kSplitBlockBytes}, *fixture.memory);
  REQUIRE(too_large.code() == StatusCode::kResourceExhausted);
  REQUIRE(too_large.status().what().find("17825792") != std::string_view::npos);
  REQUIRE(fixture.memory->blocks_held() == 0);
  // It passes the first look (whole blocks) and fails at its last chunk: all comes back.
  const std::uint64_t room = available * limits::kSegmentBytes;
  const auto no_chunk = BlockFilter::Create(
      FilterShape{(room + limits::kFilterBlockBytes) / kSplitBlockBytes}, *fixture.memory);
  REQUIRE(no_chunk.code() == StatusCode::kResourceExhausted);
  REQUIRE(fixture.memory->blocks_held() == 0);
  REQUIRE(fixture.memory->BlocksAvailable() == available);
  REQUIRE(BlockFilter::Create(FilterShape{room / kSplitBlockBytes}, *fixture.memory).ok());
}

TEST_CASE("ShapesThatNobodyMakesAreRefused") {
  FilterFixture fixture;
  for (const std::uint64_t split_blocks : {0ull, 1ull, 129ull, 2049ull, 1ull << 40}) {
    const auto filter = BlockFilter::Create(FilterShape{split_blocks}, *fixture.memory);
    REQUIRE(filter.code() == StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace tidepool::storage
