// Random changes and ranges against a std::map, with tiny segments that compaction moves, records
// that expire, and memory that runs out. Also the promises of a scan while keys come and go.
#include <catch2/catch.hpp>

#include <map>
#include <set>

#include "storage/ordered_store.h"
#include "tests/storage/store_fixture.h"

namespace tidepool::storage {
namespace {

struct Expected {
  std::string value;
  std::uint64_t expiry_ms = 0;
};

class Model {
 public:
  Model(StoreOptions options, std::uint64_t seed, int keys, std::size_t value_bytes_max)
      : fixture_(Ordered(std::move(options))),
        ordered_(fixture_.partition->ordered()),
        random_(seed),
        keys_(keys),
        value_bytes_max_(value_bytes_max) {}

  void Run(int steps, int check_every) {
    for (int step = 0; step < steps; ++step) {
      INFO("step " << step);
      Step();
      if (step % check_every == 0) fixture_.core->CheckInvariants();
    }
    fixture_.core->CheckInvariants();
  }
  StoreFixture& fixture() { return fixture_; }
  std::uint64_t refused() const { return refused_; }

 private:
  static StoreOptions Ordered(StoreOptions options) {
    options.partition.kind = Kind::kOrdered;
    return options;
  }
  std::uint64_t Below(std::uint64_t bound) { return random_() % bound; }
  std::string RandomKey() {
    const std::uint64_t number = Below(static_cast<std::uint64_t>(keys_));
    std::string key = std::to_string(number);
    if (number % 5 == 0) key.insert(0, 60, 'p');
    // Longer than the leaf holds, where a segment holds it.
    if (number % 11 == 0) key.insert(0, 700, 'q');
    return key;
  }
  // Removes expired records when they are met.
  void Expire() {
    const std::uint64_t now_ms = fixture_.core->NowMs();
    std::erase_if(model_, [now_ms](const auto& each) {
      return each.second.expiry_ms != 0 && each.second.expiry_ms <= now_ms;
    });
  }

  void Put() {
    const std::string key = RandomKey();
    const std::string value(Below(value_bytes_max_ + 1), static_cast<char>('a' + Below(26)));
    PutOptions options;
    options.ttl_ms = Below(4) == 0 ? 1 + Below(100) : kTtlDefault;
    const StatusCode code = fixture_.Put(key, value, options).code;
    if (code == StatusCode::kResourceExhausted) {
      ++refused_;
      return;
    }
    REQUIRE(code == StatusCode::kOk);
    model_[key] = {value, options.ttl_ms == 0 ? 0 : fixture_.core->NowMs() + options.ttl_ms};
  }
  void Delete() {
    const std::string key = RandomKey();
    REQUIRE((fixture_.Delete(key).code == StatusCode::kOk) == (model_.erase(key) == 1));
  }
  using Range = std::pair<std::string, std::optional<std::string>>;
  Range RandomRange() {
    Range range{RandomKey(), RandomKey()};
    if (Below(4) == 0) range.first.clear();
    if (Below(4) == 0) range.second.reset();
    return range;
  }
  static KeyRange Of(const Range& range) {
    KeyRange of{AsBytes(range.first), false, std::nullopt};
    if (range.second.has_value()) of.end = AsBytes(*range.second);
    return of;
  }
  std::vector<std::string> KeysIn(const Range& range) const {
    std::vector<std::string> keys;
    for (auto it = model_.lower_bound(range.first);
         it != model_.end() && (!range.second.has_value() || it->first < *range.second); ++it) {
      keys.push_back(it->first);
    }
    return keys;
  }
  void Scan() {
    Range range = RandomRange();
    std::vector<std::string> wanted = KeysIn(range);
    ScanOptions options;
    options.reverse = Below(2) == 0;
    options.keys_only = Below(2) == 0;
    options.records_max = 1 + Below(300);
    if (options.reverse) std::reverse(wanted.begin(), wanted.end());
    std::vector<std::string> seen;
    bool goes_on = false;
    for (RangeProgress progress; !progress.done;) {
      options.range = Of(range);
      options.range.after_begin = goes_on && !options.reverse;
      const std::size_t before = seen.size();
      progress = fixture_.Run([&] {
        seen.resize(before);
        return ordered_.Scan(options, fixture_.core->NowMs(), [&](const RecordView& view) {
          seen.push_back(std::string(AsText(view.key)));
          if (options.keys_only) return true;
          const Expected& expected = model_.at(seen.back());
          REQUIRE(view.value_bytes == expected.value.size());
          if (view.extent == nullptr) REQUIRE(AsText(view.value) == expected.value);
          REQUIRE(view.expiry_ms == expected.expiry_ms);
          return true;
        });
      });
      REQUIRE(progress.records == seen.size() - before);
      REQUIRE(progress.records <= options.records_max);
      if (progress.done) break;
      REQUIRE(progress.last.has_value());
      goes_on = true;
      (options.reverse ? range.second.emplace() : range.first) = AsText(*progress.last);
    }
    REQUIRE(seen == wanted);
  }
  void Count() {
    const Range range = RandomRange();
    const RangeProgress progress =
        fixture_.Run([&] { return ordered_.CountRange(Of(range), fixture_.core->NowMs()); });
    if (progress.done) {
      REQUIRE(progress.records == KeysIn(range).size());
    } else {
      REQUIRE(progress.records ==
              KeysIn({range.first, std::string(AsText(*progress.last)) + '\0'}).size());
    }
  }
  void EraseRange() {
    const Range range = RandomRange();
    const std::vector<std::string> keys = KeysIn(range);
    StatusCode code = StatusCode::kOk;
    const std::uint64_t records_max = 1 + Below(40);
    const RangeProgress progress = fixture_.Run(
        [&] { return ordered_.EraseRange(Of(range), records_max, fixture_.core->NowMs(), &code); });
    REQUIRE(code == StatusCode::kOk);
    REQUIRE(progress.records <= keys.size());
    for (std::uint64_t i = 0; i < progress.records; ++i) model_.erase(keys[i]);
    if (progress.done) REQUIRE(progress.records == keys.size());
  }

  void Step() {
    Expire();
    switch (Below(32)) {
      case 0:
        return Scan();
      case 1:
        return Count();
      case 2:
        return Below(6) == 0 ? EraseRange() : Scan();
      case 3:
        if (Below(4) == 0) fixture_.AdvanceMs(Below(40));
        fixture_.core->BackgroundSlice(Below(2) * 100'000'000);
        return;
      case 4:
      case 5:
      case 6:
      case 7:
      case 8:
      case 9:
      case 10:
        return Delete();
      default:
        return Put();
    }
  }

  StoreFixture fixture_;
  OrderedStore& ordered_;
  std::mt19937_64 random_;
  const int keys_;
  const std::size_t value_bytes_max_;
  std::map<std::string, Expected> model_;
  std::uint64_t refused_ = 0;
};

void RunModel(const StoreOptions& options, int keys, std::size_t value_bytes_max, int steps,
              int check_every, bool little_memory = false) {
  const std::uint64_t seed = TestSeed();
  INFO("TP_TEST_SEED=" << seed);
  Model model(options, seed, keys, value_bytes_max);
  model.Run(steps, check_every);
  if (!little_memory) return;
  REQUIRE(model.refused() > 0);
  REQUIRE(model.fixture().core->counters().compacted_segments > 0);
}

TEST_CASE("RangesOfFullSegments") { RunModel({}, 5000, 2000, 30'000, 3'000); }

TEST_CASE("RangesOfTinySegmentsAndPages") {
  StoreOptions options = TinyStore(32 << 20);
  options.core.tree_page_bytes = 256;
  RunModel(options, 3000, 1500, 40'000, 1'000);
}

TEST_CASE("RangesWithExtents") { RunModel(TinyStore(16 << 20, 8192), 200, 30'000, 20'000, 1'000); }

TEST_CASE("RangesWithLittleMemory") {
  RunModel(TinyStore(100 * 4096), 800, 1500, 40'000, 500, true);
}

void RunSpillModel(StoreOptions options, std::uint64_t slots, int keys, std::size_t value_bytes_max,
                   int steps) {
  const std::uint64_t seed = TestSeed();
  INFO("TP_TEST_SEED=" << seed);
  options.slots = slots;
  options.device_seed = seed;
  Model model(options, seed, keys, value_bytes_max);
  model.Run(steps, 500);
  const SpillCounters counters = model.fixture().core->counters().spill;
  REQUIRE(counters.spilled_segments > 0);
  REQUIRE(model.fixture().fetches > 0);
}

TEST_CASE("RangesThatLeaveMemory") {
  RunSpillModel(TinyStore(96 * 8192, 8192), 2048, 2000, 1'500, 30'000);
}

TEST_CASE("RangesThatLeaveMemoryWithTinyPages") {
  StoreOptions options = TinyStore(200 * 4096);
  options.core.tree_page_bytes = 256;
  RunSpillModel(options, 4096, 3000, 1'000, 30'000);
}

TEST_CASE("RangesThatFillTheDevice") {
  RunSpillModel(TinyStore(64 * 8192, 8192), 64, 1200, 1'500, 30'000);
}

TEST_CASE("RangesWithTombstones") {
  StoreOptions options = TinyStore(8 << 20);
  options.partition.tombstones = true;
  options.partition.update_in_place = false;
  RunModel(options, 500, 300, 20'000, 1'000);
}

TEST_CASE("KeysPresentThroughoutAScanAreSeenOnceInOrder") {
  const std::uint64_t seed = TestSeed();
  INFO("TP_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  StoreOptions options = TinyStore(8 << 20);
  options.partition.kind = Kind::kOrdered;
  options.core.tree_page_bytes = 256;
  StoreFixture fixture(options);
  OrderedStore& ordered = fixture.partition->ordered();
  std::set<std::string> stay;
  for (int i = 0; i < 2000; ++i) {
    const std::string key = std::to_string(random() % 100'000);
    fixture.Put(key, "value");
    stay.insert(key);
  }
  for (const bool reverse : {false, true}) {
    ScanOptions scan;
    scan.reverse = reverse;
    scan.records_max = 10;
    std::string last;
    std::vector<std::string> seen;
    for (RangeProgress progress; !progress.done;) {
      progress = ordered.Scan(scan, fixture.core->NowMs(), [&](const RecordView& view) {
        const std::string key(AsText(view.key));
        if (!last.empty()) REQUIRE((reverse ? key < last : key > last));
        last = key;
        if (stay.contains(key)) seen.push_back(key);
        return true;
      });
      if (reverse) {
        scan.range.end = AsBytes(last);
      } else {
        scan.range.begin = AsBytes(last);
        scan.range.after_begin = true;
      }
      // Other records come, go and change; pages split and merge, records move.
      for (int i = 0; i < 60; ++i) {
        const std::string key = std::to_string(random() % 100'000);
        if (stay.contains(key)) {
          fixture.Put(key, std::string(random() % 300, 'v'));
        } else if (random() % 2 == 0) {
          fixture.Put(key, "other");
        } else {
          fixture.Delete(key);
        }
      }
      fixture.core->BackgroundSlice(100'000'000);
    }
    if (reverse) std::reverse(seen.begin(), seen.end());
    REQUIRE(seen == std::vector<std::string>(stay.begin(), stay.end()));
  }
  fixture.core->CheckInvariants();
}

}  // namespace
}  // namespace tidepool::storage
