// The index by itself: growth from 64 buckets, tags and their rebuilding, all kernels alike.
#include "storage/tag_find.h"

#include <catch2/catch.hpp>

#include "proto/base/key_hash.h"
#include "tests/storage/store_fixture.h"
#include "tests/support/skip.h"

namespace tidepool::storage {
namespace {

// Location i stands for the key i: no records are needed.
std::uint64_t HashOf(std::uint64_t location) {
  return KeyHash(std::as_bytes(std::span(&location, 1)));
}

bool ReadHash(std::uint64_t location, std::uint64_t* hash) {
  *hash = HashOf(location);
  return true;
}

std::uint64_t Mix64(std::uint64_t number) { return HashOf(number ^ 0x5bd1e995); }

struct IndexFixture {
  explicit IndexFixture(std::uint64_t memory_bytes = 256ull << 20,
                        std::uint64_t block_bytes = 2ull << 20) {
    ArenaPoolOptions options;
    options.memory_bytes = memory_bytes;
    options.block_bytes = block_bytes;
    options.arena_first_bytes = 4 * block_bytes;
    pool = ArenaPool::Create(options).value();
    memory = std::make_unique<CoreMemory>(*pool, 0);
    index = std::make_unique<TagIndex>(*memory, TagIndexOptions{});
  }
  bool Insert(std::uint64_t location) {
    if (!index->MakeRoom(HashOf(location))) return false;
    index->Insert(HashOf(location), location, ReadHash);
    return true;
  }
  std::uint64_t* Find(std::uint64_t location, std::uint64_t* candidates = nullptr) {
    return index->Find(HashOf(location), [&](std::uint64_t at) {
      if (candidates != nullptr) ++*candidates;
      return at == location;
    });
  }
  std::unique_ptr<ArenaPool> pool;
  std::unique_ptr<CoreMemory> memory;
  std::unique_ptr<TagIndex> index;
};

// Requires that keys 1 to `count` are present, later keys are absent, and both look-ups meet few
// other keys.
void RequireFewFalseCandidates(IndexFixture& fixture, std::uint64_t count, std::uint64_t absent,
                               double share) {
  std::uint64_t candidates = 0;
  for (std::uint64_t i = 1; i <= count; ++i) {
    if (fixture.Find(i, &candidates) == nullptr) FAIL("lost " << i);
  }
  // Hits: each has a single true candidate.
  REQUIRE(static_cast<double>(candidates - count) / static_cast<double>(count) < share);
  std::uint64_t false_hits = 0;
  for (std::uint64_t i = count + 1; i <= count + absent; ++i) {
    if (fixture.Find(i, &false_hits) != nullptr) FAIL("found " << i);
  }
  REQUIRE(static_cast<double>(false_hits) / static_cast<double>(absent) < share);
}

TEST_CASE("EmptyIndexTakesOneSmallChunk") {
  IndexFixture fixture;
  REQUIRE(fixture.index->bucket_count() == 64);
  REQUIRE(fixture.index->allocated_bytes() == 4096);
  REQUIRE(fixture.Find(1) == nullptr);
}

TEST_CASE("GrowsFrom64BucketsToMillionsAndFindsEverything") {
  IndexFixture fixture;
  // 14 doublings: the last of them make tags again at the split, as no background work does it.
  constexpr std::uint64_t kCount = 5'700'000;
  for (std::uint64_t i = 1; i <= kCount; ++i) REQUIRE(fixture.Insert(i));
  REQUIRE(fixture.index->size() == kCount);
  REQUIRE(fixture.index->rebuilt_buckets() > 0);
  RequireFewFalseCandidates(fixture, kCount, 300'000, 0.01);
  REQUIRE(static_cast<double>(fixture.index->bytes()) / kCount < 16.0);
  fixture.index->CheckInvariants(ReadHash);
}

TEST_CASE("ARebuildWaitsForKeysThatCannotBeHad") {
  IndexFixture fixture;
  for (std::uint64_t i = 1; i <= 200'000; ++i) REQUIRE(fixture.Insert(i));
  std::uint64_t missing = 150'000;
  std::uint64_t asked = 0;
  const auto read = [&](std::uint64_t location, std::uint64_t* hash) {
    ++asked;
    return location != missing && ReadHash(location, hash);
  };
  const auto never = [] { return false; };
  REQUIRE(fixture.index->RebuildSlice(read, never));
  const std::uint64_t rebuilt = fixture.index->rebuilt_buckets();
  for (int i = 0; i < 10; ++i) REQUIRE(fixture.index->RebuildSlice(read, never));
  REQUIRE(fixture.index->rebuilt_buckets() == rebuilt);
  // The later buckets are read, so that all missing keys are known.
  asked = 0;
  REQUIRE(fixture.index->RebuildSlice(read, never));
  REQUIRE(asked > 20);
  fixture.index->CheckInvariants(ReadHash);
  missing = 0;
  while (fixture.index->RebuildSlice(read, never)) {
  }
  REQUIRE_FALSE(fixture.index->RebuildDue());
  fixture.index->CheckInvariants(ReadHash);
}

// The split that must rebuild tags fails, so the index stops growing, and loses no key.
TEST_CASE("GrowthWaitsForKeysThatCannotBeHad") {
  IndexFixture fixture;
  const auto none = [](std::uint64_t, std::uint64_t*) { return false; };
  constexpr std::uint64_t kCount = 7'000'000;
  std::uint64_t buckets = 0;
  for (std::uint64_t i = 1; i <= kCount; ++i) {
    REQUIRE(fixture.index->MakeRoom(HashOf(i)));
    fixture.index->Insert(HashOf(i), i, none);
    if (i == kCount - 1'000'000) buckets = fixture.index->bucket_count();
  }
  REQUIRE(fixture.index->bucket_count() == buckets);
  std::uint64_t candidates = 0;
  for (std::uint64_t i = 1; i <= kCount; i += 1'009) {
    if (fixture.Find(i, &candidates) == nullptr) FAIL("lost " << i);
  }
  while (fixture.index->RebuildSlice(ReadHash, [] { return false; })) {
  }
  for (std::uint64_t i = kCount + 1; i <= kCount + 500'000; ++i) REQUIRE(fixture.Insert(i));
  REQUIRE(fixture.index->bucket_count() > buckets);
  fixture.index->CheckInvariants(ReadHash);
}

// Rebuilt in the background, as a core does it, and read while the rebuilding is under way.
TEST_CASE("GrowsFrom64BucketsToTwentyMillionWithFewFalseCandidatesThroughout", "[.][long]") {
  IndexFixture fixture(1ull << 30);
  REQUIRE(fixture.index->bucket_count() == 64);
  constexpr std::uint64_t kCount = 20'000'000;
  std::uint64_t next_look = 1'000;
  for (std::uint64_t i = 1; i <= kCount; ++i) {
    if (!fixture.Insert(i)) FAIL("no room for " << i);
    if (i % 8 == 0 && fixture.index->RebuildDue()) {
      int steps = 0;
      (void)fixture.index->RebuildSlice(ReadHash, [&] { return ++steps == 4; });
    }
    if (i != next_look) continue;
    next_look = next_look * 5 / 4;
    std::uint64_t candidates = 0;
    constexpr std::uint64_t kLooks = 100'000;
    for (std::uint64_t look = 0; look < kLooks; ++look) {
      const std::uint64_t wanted = Mix64(look) % i + 1;
      if (fixture.Find(wanted, &candidates) == nullptr) FAIL("lost " << wanted << " of " << i);
    }
    INFO(i << " records");
    REQUIRE(static_cast<double>(candidates - kLooks) / kLooks < 0.03);
  }
  RequireFewFalseCandidates(fixture, kCount, 1'000'000, 0.03);
  REQUIRE(static_cast<double>(fixture.index->bytes()) / kCount < 20.0);
  fixture.index->CheckInvariants(ReadHash);
}

TEST_CASE("BackgroundRebuildRestoresTheTags") {
  IndexFixture fixture;
  for (std::uint64_t i = 1; i <= 200'000; ++i) REQUIRE(fixture.Insert(i));
  REQUIRE(fixture.index->RebuildDue());
  int slices = 0;
  int steps = 0;
  while (fixture.index->RebuildSlice(ReadHash, [&] { return ++steps % 100 == 0; })) ++slices;
  REQUIRE(slices > 10);
  REQUIRE_FALSE(fixture.index->RebuildDue());
  REQUIRE(fixture.index->rebuilt_buckets() > 10'000);
  fixture.index->CheckInvariants(ReadHash);
  for (std::uint64_t i = 1; i <= 200'000; ++i) {
    if (fixture.Find(i) == nullptr) FAIL("lost " << i);
  }
}

TEST_CASE("RebuildGoesOnWhileTheIndexGrows") {
  IndexFixture fixture(256ull << 20, 64 * 1024);
  std::uint64_t next = 1;
  for (; next <= 100'000; ++next) REQUIRE(fixture.Insert(next));
  int steps = 0;
  while (fixture.index->RebuildSlice(ReadHash, [&] { return ++steps % 50 == 0; })) {
    for (int i = 0; i < 100; ++i) REQUIRE(fixture.Insert(next++));
  }
  fixture.index->CheckInvariants(ReadHash);
}

TEST_CASE("AllKernelsFindTheSame", "[machine]") {
  const MatchLevel best = g_match_level;
  IndexFixture fixture;
  for (std::uint64_t i = 1; i <= 50'000; ++i) REQUIRE(fixture.Insert(i));
  std::vector<std::uint64_t*> expected;
  SetMatchLevel(MatchLevel::kScalar);
  for (std::uint64_t i = 1; i <= 60'000; ++i) expected.push_back(fixture.Find(i));
  for (const MatchLevel level : {MatchLevel::kSse2, MatchLevel::kAvx2, MatchLevel::kAvx512}) {
    if (SetMatchLevel(level) != level) {
      SetMatchLevel(best);
      TIDEPOOL_SKIP("this processor lacks kernel " << static_cast<int>(level) << " and above");
    }
    for (std::uint64_t i = 1; i <= 60'000; ++i) {
      if (fixture.Find(i) != expected[i - 1]) FAIL("kernel " << static_cast<int>(level));
    }
  }
  SetMatchLevel(best);
}

TEST_CASE("KernelsAgreeOnEveryTagInEverySlot") {
  for (int slot = 0; slot < kSlotsPerBucket; ++slot) {
    for (const std::uint64_t tag :
         {0ull, 1ull, 0x800000ull, 0xFFFFFFull, 0x7FFFFFull, 0xABCDEull}) {
      Bucket bucket{~0ull, {}};
      for (auto& word : bucket.slots) word = MakeSlot(tag ^ 1, kLocationMask);
      bucket.slots[slot] = MakeSlot(tag, kLocationMask);
      const unsigned wanted = 1u << (slot + 1);
      REQUIRE(match::Scalar(bucket, tag) == wanted);
#ifdef TIDEPOOL_MATCH_X86
      REQUIRE(match::Sse2(bucket, tag) == wanted);
      if (__builtin_cpu_supports("avx2")) REQUIRE(match::Avx2(bucket, tag) == wanted);
      if (__builtin_cpu_supports("avx512f")) REQUIRE(match::Avx512(bucket, tag) == wanted);
#endif
    }
  }
}

TEST_CASE("GrowthStopsWithTheMemoryAndNothingIsLost") {
  IndexFixture fixture(32 * 4096, 4096);
  std::uint64_t count = 0;
  while (fixture.Insert(count + 1)) ++count;
  REQUIRE(count > 32 * 4096 / 64 * 4);
  fixture.index->CheckInvariants(ReadHash);
  for (std::uint64_t i = 1; i <= count; ++i) {
    if (fixture.Find(i) == nullptr) FAIL("lost " << i);
  }
}

TEST_CASE("ErasedSlotsAreUsedAgain") {
  IndexFixture fixture;
  for (std::uint64_t i = 1; i <= 10'000; ++i) REQUIRE(fixture.Insert(i));
  for (std::uint64_t i = 1; i <= 10'000; ++i) fixture.index->Erase(fixture.Find(i));
  REQUIRE(fixture.index->size() == 0);
  const std::uint64_t bytes = fixture.index->allocated_bytes();
  for (std::uint64_t i = 1; i <= 10'000; ++i) REQUIRE(fixture.Insert(i));
  REQUIRE(fixture.index->allocated_bytes() == bytes);
  fixture.index->CheckInvariants(ReadHash);
}

TEST_CASE("DestroyedIndexGivesAllMemoryBack") {
  IndexFixture fixture(64ull << 20, 64 * 1024);
  for (std::uint64_t i = 1; i <= 100'000; ++i) REQUIRE(fixture.Insert(i));
  REQUIRE(fixture.memory->blocks_held() > 0);
  fixture.index.reset();
  REQUIRE(fixture.memory->blocks_held() == 0);
}

}  // namespace
}  // namespace tidepool::storage
