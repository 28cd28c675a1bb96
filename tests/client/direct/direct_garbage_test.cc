// Whatever lies in the arenas: no direct read crashes, reads beyond them, or goes on for ever.
#include <catch2/catch.hpp>

#include <sys/mman.h>

#include <cstring>

#include "proto/base/check.h"
#include "tests/client/direct/direct_fixture.h"
#include "tests/support/random.h"

namespace tidepool::internal {
namespace {

using storage::StoreOptions;
using storage::TinyStore;

constexpr int kBlockShift = 12;
constexpr std::uint64_t kBlock = 1ull << kBlockShift;

// A node's memory with mapped even blocks. Access to the other blocks ends the program.
class GappedMemory {
 public:
  static constexpr std::uint64_t kBlocks = 64;

  GappedMemory() : map_(Reserve(), kBlocks * kBlock, kBlockShift) {
    for (std::uint64_t block = 0; block < kBlocks; block += 2) {
      TP_CHECK(mprotect(base_ + block * kBlock, kBlock, PROT_READ | PROT_WRITE) == 0);
      map_.NoteMapped(block * kBlock, kBlock);
    }
  }
  ~GappedMemory() { munmap(base_, kBlocks * kBlock); }

  ArenaMap& map() { return map_; }
  std::uint64_t RandomOffset(test::Random& random, std::uint64_t align) const {
    return random.Below(kBlocks / 2) * 2 * kBlock + random.Below(kBlock / align) * align;
  }
  // Half noise, half nearly sensible numbers: offsets, small numbers, all bits set.
  std::uint64_t RandomWord(test::Random& random) const {
    switch (random.Below(8)) {
      case 0:
        return random.Word();
      case 1:
        return random.Below(64);
      case 2:
        return ~random.Below(64);
      case 3:
        return storage::directory::Make(RandomOffset(random, 8), random.Below(600));
      case 4:
        return random.Word() << 40 | RandomOffset(random, 8) / 8;
      case 5:  // Lengths of a record.
        return random.Below(64) | random.Below(32) << 32 | std::uint64_t{2} << 48 |
               random.Below(4) << 56;
      case 6:
        return RandomOffset(random, kBlock) | random.Below(2);
      default:
        return RandomOffset(random, 64);
    }
  }
  void Fill(test::Random& random) {
    for (std::uint64_t block = 0; block < kBlocks; block += 2) {
      for (std::uint64_t at = 0; at < kBlock; at += 8) {
        const std::uint64_t word = RandomWord(random);
        std::memcpy(base_ + block * kBlock + at, &word, 8);
      }
    }
  }
  template <typename T>
  T& At(std::uint64_t offset) {
    return *reinterpret_cast<T*>(base_ + offset);
  }

  // Writes a path to a record with random numbers. The record is at the end of its block, so an
  // excessive length reaches unmapped memory.
  void Lead(const storage::DirectView& view, std::uint64_t hash, std::string_view key,
            test::Random& random) {
    const auto any = [&](std::uint64_t align) { return RandomOffset(random, align); };
    const std::uint64_t entry = any(8);
    const std::uint64_t home = any(sizeof(storage::Bucket));
    const std::uint64_t pages = any(8);
    const std::uint64_t page = any(kBlock);
    const std::uint64_t frame = any(kBlock);
    const std::uint64_t index = random.Below(storage::kSegmentEntriesPerPage);
    const std::uint64_t words = 1 + random.Size(kBlock / 8 - 2);  // Up to the block's end.
    const std::uint64_t location = index << (kBlockShift - 3) | (kBlock / 8 - words);

    const std::uint64_t at = frame + kBlock - words * 8;
    if (words * 8 >= sizeof(storage::RecordHeader) + key.size()) {
      storage::RecordHeader& record = At<storage::RecordHeader>(at);
      record.sequence = 2;
      record.type = storage::RecordType::kPut;
      record.flags = static_cast<std::uint8_t>(random.Below(4));
      record.key_bytes = static_cast<std::uint16_t>(random.OneIn(4) ? random.Word() : key.size());
      record.value_bytes =
          static_cast<std::uint32_t>(random.OneIn(4) ? random.Word() : random.Below(256));
      std::memcpy(base_ + at + sizeof record, key.data(), key.size());
    }
    At<storage::SegmentEntry>(page + index * sizeof(storage::SegmentEntry)) = {1, frame};
    At<std::uint64_t>(pages) = page;
    storage::Bucket& bucket = At<storage::Bucket>(home);
    bucket.header = storage::bucket::Make(0, 0, 0, random.OneIn(4) ? random.Word() >> 27 : 0);
    bucket.slots[random.Below(storage::kSlotsPerBucket)] =
        storage::MakeSlot(storage::TagOf(hash, 0), location);
    At<std::uint64_t>(entry) = home;
    storage::SharedRoot& core = At<storage::SharedRoot>(view.core_root);
    core.directory = storage::directory::Make(pages, 1 + random.Below(2));
    storage::SharedRoot& root = At<storage::SharedRoot>(view.root);
    root.growth = storage::growth::Make(0, 0);
    root.directory = storage::directory::Make(entry, 1);
  }

 private:
  std::byte* Reserve() {
    void* const at = mmap(nullptr, kBlocks * kBlock, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    TP_CHECK(at != MAP_FAILED);
    base_ = static_cast<std::byte*>(at);
    return base_;
  }

  std::byte* base_ = nullptr;
  ArenaMap map_;
};

TEST_CASE("DirectReadOfNoiseEndsAndStaysWithinWhatIsMapped") {
  test::Random random("DirectReadOfNoise");
  GappedMemory memory;
  ManualClock clock;
  DirectReader reader(memory.map(), clock);
  std::array<std::byte, 256> room{};
  std::uint64_t answered = 0;
  std::uint64_t found = 0;
  for (int round = 0; round < 20'000; ++round) {
    if (round % 200 == 0) memory.Fill(random);
    storage::DirectView view{};
    view.core_root = memory.RandomOffset(random, 256);
    view.root = memory.RandomOffset(random, 256);
    view.serving_epoch = 5;
    view.split_blocks = random.OneIn(8) ? random.Below(1 << 20) : 0;
    view.hash_mask = random.OneIn(2) ? ~0ull : 7;
    view.block_shift = kBlockShift;
    DirectPartition opened;
    std::uint64_t missing = 0;
    REQUIRE(reader.Open(view, &opened, &missing) == DirectRefusal::kNone);
    const std::uint64_t hash = random.Word();
    const std::string key(random.OneIn(2) ? 0 : random.Below(40), 'k');
    if (!random.OneIn(8)) memory.Lead(view, hash & view.hash_mask, key, random);
    memory.At<storage::SharedRoot>(view.core_root).word = ~0ull;
    memory.At<storage::SharedRoot>(view.root).word = storage::MakeGuard(5);
    const auto get = reader.Get(opened, AsBytes(key), hash, room);
    const auto contains = reader.Contains(opened, AsBytes(key), hash);
    found += get.outcome == DirectRead::Outcome::kFound ? 1 : 0;
    found += contains.outcome == DirectRead::Outcome::kFound ? 1 : 0;
    for (int i = 0; i < 20; ++i) {
      const auto other = random.Bytes(random.Size(64));
      const DirectRead read = reader.Get(opened, other, random.Word(), room);
      answered += read.outcome != DirectRead::Outcome::kAskOwner ? 1 : 0;
    }
  }
  REQUIRE(found > 0);
  REQUIRE(answered > 0);  // Some get as far as a miss at least.
}

// Nearly right is harder than noise: single words of a live store are changed.
TEST_CASE("DirectReadOfADamagedStoreEndsAndStaysWithinWhatIsMapped") {
  test::Random random("DirectReadOfADamagedStore");
  DirectFixture fixture(TinyStore(1 << 20));
  for (int i = 0; i < 500; ++i) {
    fixture.Put("key" + std::to_string(i), std::string(random.Size(200), 'v'));
  }
  const std::uint64_t begin = fixture.pool->block_bytes();
  const std::uint64_t words = fixture.pool->usage().mapped_bytes / 8;
  std::uint64_t asked = 0;
  for (int round = 0; round < 3000; ++round) {
    // Damages the most read memory: roots, a bucket, a segment's entry, a record.
    const std::string key = "key" + std::to_string(random.Below(500));
    std::byte* at = fixture.pool->base() + begin + random.Below(words) * 8;
    switch (random.Below(5)) {
      case 0:
        at = reinterpret_cast<std::byte*>(&fixture.root()) + random.Below(8) * 8;
        break;
      case 1:
        at = reinterpret_cast<std::byte*>(&fixture.core_root()) + random.Below(8) * 8;
        break;
      case 2:
        at = reinterpret_cast<std::byte*>(&fixture.HomeOf(key)) + random.Below(8) * 8;
        break;
      case 3:
        at = reinterpret_cast<std::byte*>(&fixture.RecordOf(key)) + random.Below(6) * 8;
        break;
      default:
        break;
    }
    std::uint64_t before = 0;
    std::memcpy(&before, at, 8);
    const std::uint64_t damaged =
        random.OneIn(2) ? random.Word() : before ^ (1ull << random.Below(64));
    std::memcpy(at, &damaged, 8);
    asked += fixture.Read(key).outcome == DirectRead::Outcome::kAskOwner ? 1 : 0;
    fixture.Read("absent" + key);
    std::memcpy(at, &before, 8);
  }
  REQUIRE(asked > 0);
}

}  // namespace
}  // namespace tidepool::internal
