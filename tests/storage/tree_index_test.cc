// The ordered index by itself, against a std::map: small and deep trees, long common prefixes, keys
// of all lengths, memory that runs out, and pages that come back.
#include "storage/tree_index.h"

#include <catch2/catch.hpp>

#include <map>
#include <memory>

#include "tests/storage/store_fixture.h"

namespace tidepool::storage {
namespace {

// Location i is the i-th string. Strings of removed records are emptied, so that a read of them is
// noticed.
class Records final : public TreeKeyReader {
 public:
  Bytes KeyAt(std::uint64_t location) const override { return AsBytes(keys_[location]); }
  std::uint64_t Add(std::string key) {
    keys_.push_back(std::move(key));
    return keys_.size() - 1;
  }
  void Forget(std::uint64_t location) { keys_[location].clear(); }

 private:
  std::vector<std::string> keys_{"no location is 0"};
};

struct Expected {
  std::uint64_t location = 0;
  bool marked = false;
};

struct TreeFixture {
  explicit TreeFixture(std::uint32_t page_bytes = kPageBytes,
                       std::uint64_t memory_bytes = 64ull << 20,
                       std::uint64_t block_bytes = 2ull << 20) {
    ArenaPoolOptions options;
    options.memory_bytes = memory_bytes;
    options.block_bytes = block_bytes;
    options.arena_first_bytes = 4 * block_bytes;
    pool = ArenaPool::Create(options).value();
    memory = std::make_unique<CoreMemory>(*pool, 0);
    tree = std::make_unique<TreeIndex>(*memory, &records, TreeIndexOptions{page_bytes});
  }

  bool Insert(const std::string& key, bool marked = false) {
    if (!tree->MakeRoom(AsBytes(key))) return false;
    const std::uint64_t location = records.Add(key);
    tree->Insert(AsBytes(key), location, marked);
    map[key] = {location, marked};
    return true;
  }
  void Replace(const std::string& key, bool marked) {
    Expected& expected = map.at(key);
    const std::uint64_t location = records.Add(key);
    tree->Replace(AsBytes(key), location, marked);
    records.Forget(expected.location);
    expected = {location, marked};
  }
  void Erase(const std::string& key) {
    const auto found = map.find(key);
    tree->Erase(AsBytes(key));
    records.Forget(found->second.location);
    map.erase(found);
  }
  void EraseFirst() {
    tree->EraseFirst();
    records.Forget(map.begin()->second.location);
    map.erase(map.begin());
  }
  std::string KeyOf(TreeIndex::Place place) const {
    TreeKeyBuffer buffer;
    return std::string(AsText(tree->KeyOf(place, &buffer)));
  }
  void RequireAt(TreeIndex::Place place, std::map<std::string, Expected>::const_iterator it) const {
    REQUIRE(place.valid() == (it != map.end()));
    if (!place.valid()) return;
    REQUIRE(tree->At(place).location == it->second.location);
    REQUIRE(tree->At(place).marked == it->second.marked);
    REQUIRE(KeyOf(place) == it->first);
  }
  // Checks all answers about a key, present or not.
  void CheckAround(const std::string& key) const {
    RequireAt(tree->Find(AsBytes(key)), map.find(key));
    const auto lower = map.lower_bound(key);
    RequireAt(tree->LowerBound(AsBytes(key)), lower);
    RequireAt(tree->UpperBound(AsBytes(key)), map.upper_bound(key));
    RequireAt(tree->LastBelow(AsBytes(key)), lower == map.begin() ? map.end() : std::prev(lower));
  }
  void CheckAll() const {
    tree->CheckInvariants();
    REQUIRE(tree->size() == map.size());
    auto it = map.begin();
    for (TreeIndex::Place at = tree->First(); at.valid(); at = tree->Next(at)) RequireAt(at, it++);
    REQUIRE(it == map.end());
    for (TreeIndex::Place at = tree->Last(); at.valid(); at = tree->Previous(at)) {
      RequireAt(at, --it);
    }
    REQUIRE(it == map.begin());
  }

  Records records;
  std::unique_ptr<ArenaPool> pool;
  std::unique_ptr<CoreMemory> memory;
  std::unique_ptr<TreeIndex> tree;
  std::map<std::string, Expected> map;
};

std::string BigEndian(std::uint64_t number) {
  std::string text(8, '\0');
  for (int i = 7; i >= 0; --i, number >>= 8) {
    text[static_cast<std::size_t>(i)] = static_cast<char>(number);
  }
  return text;
}

using MakeKey = std::function<std::string(std::mt19937_64&)>;

// Returns keys of few different bytes, zeros and 255 among them: equal heads, prefixes of other
// keys, the empty key.
std::string ShortKey(std::mt19937_64& random) {
  std::string key(random() % 9, '\0');
  for (char& c : key) c = "\0a\xff"[random() % 3];
  return key;
}

// Long common prefixes, of a length that pages cut off, and longer.
MakeKey WithPrefix(std::size_t prefix_bytes) {
  return [prefix_bytes](std::mt19937_64& random) {
    std::string key(random() % 4 == 0 ? random() % (prefix_bytes + 1) : prefix_bytes, 'p');
    return key + std::to_string(random() % 3000);
  };
}

// Up to the longest key, differing at the front, in the middle and at the end.
std::string LongKey(std::mt19937_64& random) {
  const std::size_t sizes[] = {1, 300, 409, 410, 700, 4000, 16'384};
  std::string key(sizes[random() % std::size(sizes)], 'k');
  for (int i = 0; i < 3; ++i) {
    key[random() % key.size()] = static_cast<char>('a' + random() % 3);
  }
  key.back() = static_cast<char>(random());
  return key;
}

std::string AnyKey(std::mt19937_64& random) {
  switch (random() % 8) {
    case 0:
      return ShortKey(random);
    case 1:
      return LongKey(random);
    case 2:
      return WithPrefix(2000)(random);
    default:
      return WithPrefix(30)(random);
  }
}

// Grows to `size_wanted` keys, stays there a while, shrinks to nothing, twice.
void RunModel(TreeFixture& fixture, const MakeKey& make_key, std::size_t size_wanted, int steps) {
  const std::uint64_t seed = TestSeed();
  INFO("TP_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 2; ++round) {
    for (int step = 0; step < steps || !fixture.map.empty(); ++step) {
      INFO("round " << round << " step " << step);
      const std::string key = make_key(random);
      const bool wanted =
          step < steps ? fixture.map.size() < size_wanted || random() % 2 == 0 : random() % 8 == 0;
      if (fixture.map.contains(key)) {
        if (random() % 4 != 0) {
          fixture.Erase(key);
        } else {
          fixture.Replace(key, random() % 3 == 0);
        }
      } else if (wanted) {
        REQUIRE(fixture.Insert(key, random() % 3 == 0));
      } else if (!fixture.map.empty()) {
        const auto next = fixture.map.lower_bound(key);
        fixture.Erase(next == fixture.map.end() ? fixture.map.begin()->first : next->first);
      }
      fixture.CheckAround(make_key(random));
      if (step % 997 == 0) fixture.CheckAll();
    }
    fixture.CheckAll();
    // Of pages and separators only the root and the reserve are left.
    REQUIRE(fixture.tree->page_count() == 1);
    REQUIRE(fixture.tree->height() == 1);
    REQUIRE(fixture.tree->bytes() == kPageBytes);
    REQUIRE(fixture.tree->allocated_bytes() <= 64 * kPageBytes);
  }
}

TEST_CASE("EmptyTreeHasOnePageAndNoPlaces") {
  TreeFixture fixture;
  fixture.CheckAll();
  fixture.CheckAround("");
  fixture.CheckAround("a");
  REQUIRE(!fixture.tree->Median().valid());
  REQUIRE(fixture.tree->allocated_bytes() == kPageBytes);
}

TEST_CASE("EmptyKeyIsTheFirst") {
  TreeFixture fixture;
  for (const char* key : {"b", "", "a"}) REQUIRE(fixture.Insert(key));
  REQUIRE(fixture.Insert(std::string(1, '\0')));
  REQUIRE(fixture.Insert(std::string(4, '\0')));
  REQUIRE(fixture.KeyOf(fixture.tree->First()).empty());
  fixture.CheckAll();
}

TEST_CASE("ModelOfShortKeys") {
  TreeFixture fixture;
  RunModel(fixture, ShortKey, 3000, 20'000);
}

TEST_CASE("ModelOfShortKeysInTinyPages") {
  TreeFixture fixture(256);
  RunModel(fixture, ShortKey, 3000, 20'000);
}

TEST_CASE("ModelOfKeysWithALongPrefix") {
  TreeFixture fixture;
  RunModel(fixture, WithPrefix(200), 2000, 10'000);
}

TEST_CASE("ModelOfKeysWithAPrefixLongerThanAPage") {
  TreeFixture fixture;
  RunModel(fixture, WithPrefix(9000), 600, 2'000);
}

TEST_CASE("ModelOfLongKeysInTinyPages") {
  TreeFixture fixture(256, 256ull << 20);
  RunModel(fixture, LongKey, 500, 3'000);
}

TEST_CASE("ModelOfAnyKeys") {
  TreeFixture fixture(kPageBytes, 256ull << 20);
  RunModel(fixture, AnyKey, 2000, 8'000);
}

TEST_CASE("ModelOfAnyKeysInTinyPages") {
  TreeFixture fixture(256, 256ull << 20);
  RunModel(fixture, AnyKey, 2000, 8'000);
  REQUIRE(fixture.memory->chunk_bytes_used() == fixture.tree->allocated_bytes());
}

TEST_CASE("TinyPagesMakeADeepTree") {
  TreeFixture fixture(256);
  for (std::uint64_t i = 0; i < 20'000; ++i)
    REQUIRE(fixture.Insert(BigEndian(i * 0x9e3779b97f4a7c15)));
  REQUIRE(fixture.tree->height() >= 4);
  fixture.CheckAll();
}

TEST_CASE("WithoutMemoryNothingChangesAndEraseWorks") {
  // 40 pages of memory in blocks of a page: every chunk is a block.
  TreeFixture fixture(kPageBytes, 40 * 4096, 4096);
  const std::uint64_t seed = TestSeed();
  INFO("TP_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 3; ++round) {
    int refused = 0;
    while (refused < 2000) {
      const std::string key = BigEndian(random()) + BigEndian(random());
      const std::size_t before = fixture.map.size();
      if (fixture.Insert(key)) continue;
      ++refused;
      REQUIRE(fixture.tree->size() == before);
      REQUIRE(!fixture.tree->Find(AsBytes(key)).valid());
    }
    fixture.CheckAll();
    // Keys that fit their leaf were still taken: leaves are nearly full.
    REQUIRE(fixture.map.size() > 36u * 80);
    while (fixture.map.size() > 10) {
      const auto next = fixture.map.lower_bound(BigEndian(random()));
      fixture.Erase(next == fixture.map.end() ? fixture.map.begin()->first : next->first);
    }
    fixture.CheckAll();
    REQUIRE(fixture.tree->page_count() == 1);
  }
}

TEST_CASE("LongSeparatorsNeedMemoryToo") {
  // Two blocks of 16 KiB beside the tree's own: separators of long keys use them up.
  TreeFixture fixture(kPageBytes, 6 * 16'384, 16'384);
  int taken = 0;
  const std::string stem(10'000, 's');
  while (fixture.Insert(stem + BigEndian(static_cast<std::uint64_t>(taken)))) ++taken;
  REQUIRE(taken > 9);
  fixture.CheckAll();
  while (!fixture.map.empty()) fixture.EraseFirst();
  fixture.CheckAll();
  REQUIRE(fixture.tree->bytes() == kPageBytes);
}

TEST_CASE("KeysInOrderFillTheirPages") {
  TreeFixture fixture;
  constexpr std::uint64_t kCount = 50'000;
  SECTION("upwards") {
    for (std::uint64_t i = 0; i < kCount; ++i) REQUIRE(fixture.Insert(BigEndian(i)));
  }
  SECTION("downwards") {
    for (std::uint64_t i = kCount; i-- > 0;) REQUIRE(fixture.Insert(BigEndian(i)));
  }
  fixture.CheckAll();
  // 8-byte keys: slot 8, location 5, little of the key; half-full pages would take 30.
  REQUIRE(fixture.tree->bytes() <= kCount * 20);
}

TEST_CASE("QueueOfRisingKeysKeepsFewPages") {
  const std::uint32_t page_bytes = GENERATE(256u, kPageBytes);
  TreeFixture fixture(page_bytes);
  constexpr std::uint64_t kLength = 500;
  std::uint64_t pages_max = 0;
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    REQUIRE(fixture.Insert(BigEndian(i)));
    if (fixture.map.size() > kLength) fixture.EraseFirst();
    if (i == 2 * kLength) pages_max = fixture.tree->page_count() * 2;
    if (i > 2 * kLength) REQUIRE(fixture.tree->page_count() <= pages_max);
    if (i % 9973 == 0) fixture.CheckAll();
  }
  while (!fixture.map.empty()) fixture.EraseFirst();
  REQUIRE(fixture.tree->page_count() == 1);
}

TEST_CASE("ErasingAtRandomGivesPagesBack") {
  TreeFixture fixture;
  const std::uint64_t seed = TestSeed();
  INFO("TP_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 100'000; ++i) fixture.Insert(BigEndian(random()) + BigEndian(random()));
  const std::uint64_t full = fixture.memory->chunk_bytes_used();
  // The state when a hundredth of the keys is left: pages are at least an eighth full on average.
  while (fixture.map.size() > 1000) {
    const auto next = fixture.map.lower_bound(BigEndian(random()));
    fixture.Erase(next == fixture.map.end() ? fixture.map.begin()->first : next->first);
  }
  fixture.CheckAll();
  REQUIRE(fixture.memory->chunk_bytes_used() < full / 10);
  REQUIRE(fixture.tree->bytes() <= 8 * 1000 * 30);
}

TEST_CASE("CollectsRunsInBothDirections") {
  const std::uint32_t page_bytes = GENERATE(256u, kPageBytes);
  TreeFixture fixture(page_bytes);
  const std::uint64_t seed = TestSeed();
  INFO("TP_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  while (fixture.map.size() < 2000) {
    const std::string key = ShortKey(random);
    if (!fixture.map.contains(key)) fixture.Insert(key, random() % 3 == 0);
  }
  const TreeIndex& tree = *fixture.tree;
  for (int i = 0; i < 2000; ++i) {
    const std::string begin = ShortKey(random);
    const std::string end = ShortKey(random);
    const bool open = random() % 8 == 0;
    const Bytes end_bytes = AsBytes(end);
    std::vector<std::uint64_t> wanted;
    std::uint64_t unmarked = 0;
    for (auto it = fixture.map.lower_bound(begin);
         it != fixture.map.end() && (open || it->first < end); ++it) {
      wanted.push_back(it->second.location);
      if (!it->second.marked) ++unmarked;
    }
    std::vector<std::uint64_t> got;
    TreeIndex::Entry entries[37];
    TreeIndex::Place places[37];
    for (TreeIndex::Place at = tree.LowerBound(AsBytes(begin)); at.valid();) {
      const std::size_t count = tree.CollectUp(&at, open ? nullptr : &end_bytes,
                                               std::span(entries).first(1 + random() % 37), places);
      for (std::size_t j = 0; j < count; ++j) {
        got.push_back(entries[j].location);
        REQUIRE(tree.At(places[j]).location == entries[j].location);
      }
    }
    REQUIRE(got == wanted);
    got.clear();
    for (TreeIndex::Place at = open ? tree.Last() : tree.LastBelow(end_bytes); at.valid();) {
      const std::size_t count = tree.CollectDown(
          &at, AsBytes(begin), std::span(entries).first(1 + random() % 37), places);
      for (std::size_t j = 0; j < count; ++j) got.push_back(entries[j].location);
    }
    std::reverse(got.begin(), got.end());
    REQUIRE(got == wanted);
    for (const bool count_marked : {true, false}) {
      std::uint64_t counted = 0;
      for (TreeIndex::Place at = tree.LowerBound(AsBytes(begin)); at.valid();) {
        counted += tree.CountUp(&at, open ? nullptr : &end_bytes, 1 + random() % 3,
                                [&](const TreeIndex::Entry&) { return count_marked; });
      }
      REQUIRE(counted == (count_marked ? wanted.size() : unmarked));
    }
  }
}

TEST_CASE("MedianCutsTheKeysInHalf") {
  const std::uint32_t page_bytes = GENERATE(256u, kPageBytes);
  TreeFixture fixture(page_bytes);
  const std::uint64_t seed = TestSeed();
  INFO("TP_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  while (fixture.map.size() < 60'000) {
    // Keys in order at one end and random keys at the other: pages of different fill.
    const std::uint64_t number = fixture.map.size();
    fixture.Insert(number % 2 == 0 ? "a" + BigEndian(number) : "b" + BigEndian(random()));
    if (number != 10 && number != 1000 && number != 59'999) continue;
    const std::string median = fixture.KeyOf(fixture.tree->Median());
    const auto below = static_cast<std::uint64_t>(
        std::distance(fixture.map.begin(), fixture.map.lower_bound(median)));
    const std::uint64_t size = fixture.map.size();
    if (number == 10) REQUIRE(below == size / 2);
    REQUIRE(below > size * 3 / 10);
    REQUIRE(below < size * 7 / 10);
  }
}

TEST_CASE("FreesInSlicesWithoutReadingKeys") {
  TreeFixture fixture(256, 256ull << 20);
  std::mt19937_64 random(7);
  for (int i = 0; i < 3000; ++i) {
    const std::string key = AnyKey(random);
    if (!fixture.map.contains(key)) REQUIRE(fixture.Insert(key));
  }
  for (const auto& [key, expected] : fixture.map) fixture.records.Forget(expected.location);
  int slices = 1;
  int steps = 0;
  while (fixture.tree->FreeSlice([&] { return ++steps % 10 == 0; })) ++slices;
  REQUIRE(slices > 10);
  REQUIRE(fixture.memory->chunk_bytes_used() == 0);
}

}  // namespace
}  // namespace tidepool::storage
