// Random operations against a std::map with the expected results: with full hashes and with hashes
// of 4 bits, with tiny segments, with prefilters, and with scarce memory, so that puts are refused
// and compaction works.
#include <catch2/catch.hpp>

#include <map>
#include <unordered_set>

#include "tests/storage/store_fixture.h"

namespace tidepool::storage {
namespace {

struct Expected {
  std::string value;
  std::uint64_t expiry_ms = 0;
  std::uint8_t flags = 0;
  Lsn version;
};

class Model {
 public:
  Model(const StoreOptions& options, std::uint64_t seed, int keys, std::size_t value_bytes_max)
      : fixture_(options),
        random_(seed),
        keys_(keys),
        value_bytes_max_(value_bytes_max),
        admits_(options.partition.prefilter.kind == PrefilterKind::kAdmit) {}

  void Run(int steps, int check_every) {
    for (int step = 0; step < steps; ++step) {
      INFO("step " << step);
      Step();
      if (step % check_every == 0) Check();
    }
    Check();
  }

  std::uint64_t refused() const { return refused_; }
  std::uint64_t held_back() const { return held_back_; }
  std::uint64_t admitted_early() const { return admitted_early_; }
  StoreFixture& fixture() { return fixture_; }

 private:
  std::uint64_t Below(std::uint64_t bound) { return random_() % bound; }
  std::string RandomKey() {
    std::string key = "key" + std::to_string(Below(static_cast<std::uint64_t>(keys_)));
    // Every fourth key is long: records of mixed size, keys that differ late.
    if (key.back() % 4 == 0) key.insert(0, 100, 'k');
    return key;
  }
  std::string RandomValue() {
    std::string value(Below(4) == 0 ? Below(value_bytes_max_ + 1) : Below(64), '\0');
    for (char& c : value) c = static_cast<char>(random_());
    return value;
  }
  Expected* Find(const std::string& key) {
    const auto found = model_.find(key);
    if (found == model_.end()) return nullptr;
    if (found->second.expiry_ms != 0 && found->second.expiry_ms <= fixture_.core->NowMs()) {
      model_.erase(found);
      return nullptr;
    }
    return &found->second;
  }
  // True if the store refused for memory, which it may: then nothing has changed.
  bool Refused(const HashOutcome& outcome) {
    if (outcome.code != StatusCode::kResourceExhausted) return false;
    ++refused_;
    return true;
  }
  void Changed(const std::string& key, const HashOutcome& outcome) {
    REQUIRE(outcome.version > last_);
    last_ = outcome.version;
    if (Expected* now = Find(key)) now->version = outcome.version;
  }

  // True if an operation for admitted keys only has the outcome of a key that was sighted for the
  // first time.
  bool HeldBack(const std::string& key, const Expected* present, const HashOutcome& outcome) {
    if (!admits_ || present != nullptr || outcome.code != StatusCode::kOk) return false;
    const bool is_first = sighted_.insert(key).second;
    if (outcome.version != Lsn()) {
      admitted_early_ += is_first ? 1 : 0;
      return false;
    }
    REQUIRE(is_first);
    REQUIRE(outcome.previous == 0);
    ++held_back_;
    last_ = fixture_.partition->last_lsn();
    return true;
  }

  void Put(const std::string& key) {
    PutOptions options;
    Expected* present = Find(key);
    options.condition = static_cast<PutCondition>(Below(4));
    if (Below(2) == 0) options.condition = PutCondition::kAlways;
    options.if_version = present != nullptr && Below(2) == 0 ? present->version : Lsn(Term(1), 7);
    options.ttl_ms = Below(5) == 0 ? 1 + Below(200) : kTtlDefault;
    const std::string value = RandomValue();
    const bool version_fits = present != nullptr && options.if_version == present->version;
    const HashOutcome outcome = fixture_.Put(key, value, options);
    if (Refused(outcome)) return;
    StatusCode wanted = StatusCode::kOk;
    if (options.condition == PutCondition::kIfAbsent && present)
      wanted = StatusCode::kAlreadyExists;
    if (options.condition == PutCondition::kIfPresent && !present) wanted = StatusCode::kNotFound;
    if (options.condition == PutCondition::kIfVersion && !version_fits) {
      wanted = present ? StatusCode::kFailedPrecondition : StatusCode::kNotFound;
    }
    REQUIRE(outcome.code == wanted);
    if (wanted != StatusCode::kOk) return;
    if (options.condition == PutCondition::kIfAbsent && HeldBack(key, present, outcome)) return;
    REQUIRE(outcome.previous == (present ? present->version.value() : 0));
    model_[key] = {value, options.ttl_ms == 0 ? 0 : fixture_.core->NowMs() + options.ttl_ms, 0, {}};
    Changed(key, outcome);
  }
  void Add(const std::string& key) {
    Expected* present = Find(key);
    const auto by = static_cast<std::int64_t>(random_()) / 4;
    const HashOutcome outcome = fixture_.Add(key, by);
    if (Refused(outcome)) return;
    if (present && present->flags != kRecordI64) {
      REQUIRE(outcome.code == StatusCode::kInvalidArgument);
      return;
    }
    if (HeldBack(key, present, outcome)) return;
    std::int64_t before = 0;
    if (present) std::memcpy(&before, present->value.data(), 8);
    std::int64_t after = 0;
    if (__builtin_add_overflow(before, by, &after)) {
      REQUIRE(outcome.code == StatusCode::kOutOfRange);
      return;
    }
    REQUIRE(outcome.code == StatusCode::kOk);
    REQUIRE(static_cast<std::int64_t>(outcome.previous) == before);
    REQUIRE(static_cast<std::int64_t>(outcome.result) == after);
    Expected& now = model_[key];
    now.value.assign(reinterpret_cast<const char*>(&after), 8);
    now.flags = kRecordI64;
    Changed(key, outcome);
  }
  void Append(const std::string& key) {
    const std::string suffix = RandomValue();
    const HashOutcome outcome = fixture_.Append(key, suffix);
    if (Refused(outcome)) return;
    REQUIRE(outcome.code == StatusCode::kOk);
    Expected* present = Find(key);
    if (present == nullptr) present = &model_[key];
    present->value += suffix;
    present->flags = 0;
    REQUIRE(outcome.value_bytes == present->value.size());
    Changed(key, outcome);
    // Keeps the values from growing without bound.
    if (present->value.size() > 4 * value_bytes_max_) Delete(key);
  }
  void Swap(const std::string& key) {
    Expected* present = Find(key);
    const std::string expected = present && Below(3) != 0 ? present->value : RandomValue();
    const std::string desired = RandomValue();
    const HashOutcome outcome = fixture_.Swap(key, expected, desired);
    if (Refused(outcome) || outcome.code == StatusCode::kInvalidArgument) return;
    if (!present) {
      REQUIRE(outcome.code == StatusCode::kNotFound);
    } else if (outcome.code == StatusCode::kOk) {
      REQUIRE(present->value == expected);
      present->value = desired;
      if (desired.size() != 8) present->flags = 0;
      Changed(key, outcome);
    } else {
      REQUIRE(outcome.code == StatusCode::kFailedPrecondition);
      REQUIRE(outcome.value_bytes == present->value.size());
      // An extent never equals a value that fits a frame.
      REQUIRE((present->value != expected || outcome.extent != nullptr));
    }
  }
  void Delete(const std::string& key) {
    Expected* present = Find(key);
    const bool take = Below(2) == 0;
    const HashOutcome outcome = take ? fixture_.Take(key) : fixture_.Delete(key);
    if (!present) {
      REQUIRE(outcome.code == StatusCode::kNotFound);
      return;
    }
    // Deletes work on a full store too.
    REQUIRE(outcome.code == StatusCode::kOk);
    REQUIRE(outcome.version == present->version);
    if (take) REQUIRE(outcome.value_bytes == present->value.size());
    if (take) REQUIRE(fixture_.Text(outcome) == present->value);
    last_ = fixture_.partition->last_lsn();
    model_.erase(key);
  }
  void Expire(const std::string& key) {
    Expected* present = Find(key);
    const std::uint64_t ttl_ms = Below(2) == 0 ? kTtlNone : 1 + Below(300);
    const HashOutcome outcome = fixture_.Expire(key, ttl_ms);
    if (Refused(outcome)) return;
    if (!present) {
      REQUIRE(outcome.code == StatusCode::kNotFound);
      return;
    }
    REQUIRE(outcome.code == StatusCode::kOk);
    present->expiry_ms = ttl_ms == kTtlNone ? 0 : fixture_.core->NowMs() + ttl_ms;
    Changed(key, outcome);
  }
  void Get(const std::string& key) {
    const Expected* present = Find(key);
    const HashOutcome outcome = fixture_.Get(key);
    if (!present) {
      REQUIRE(outcome.code == StatusCode::kNotFound);
      return;
    }
    REQUIRE(outcome.code == StatusCode::kOk);
    REQUIRE(outcome.version == present->version);
    REQUIRE(outcome.value_flags == present->flags);
    REQUIRE(fixture_.Text(outcome) == present->value);
    const HashOutcome ttl = fixture_.Ttl(key);
    REQUIRE(ttl.result ==
            (present->expiry_ms == 0 ? kTtlNone : present->expiry_ms - fixture_.core->NowMs()));
  }

  void Step() {
    const std::string key = RandomKey();
    switch (Below(16)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
        return Put(key);
      case 5:
      case 6:
        return Add(key);
      case 7:
        return Append(key);
      case 8:
        return Swap(key);
      case 9:
      case 10:
      case 11:
        return Delete(key);
      case 12:
        return Expire(key);
      case 13:
        if (Below(8) == 0) fixture_.AdvanceMs(Below(60));
        fixture_.core->BackgroundSlice(Below(2) * 100'000'000);
        last_ = std::max(last_, fixture_.partition->last_lsn());
        return;
      default:
        return Get(key);
    }
  }

  void Check() {
    fixture_.core->CheckInvariants();
    std::map<std::string, std::string> seen;
    std::uint64_t cursor = 0;
    for (bool done = false; !done;) {
      const std::uint64_t records_max = 1 + Below(50);
      std::vector<std::pair<std::string, std::string>> page;
      const IterateResult result = fixture_.Run([&] {
        page.clear();
        return fixture_.store->Iterate(
            cursor, records_max, fixture_.core->NowMs(), [&](const RecordView& view) {
              HashOutcome outcome;
              outcome.value = view.value;
              outcome.extent = view.extent;
              outcome.value_bytes = view.value_bytes;
              outcome.location = view.location;
              if (!fixture_.store->IsReadable(view)) return false;
              page.emplace_back(AsText(view.key), fixture_.Text(outcome));
              return true;
            });
      });
      page.resize(result.records);
      for (auto& record : page) REQUIRE(seen.insert(std::move(record)).second);
      cursor = result.cursor;
      done = result.done;
    }
    for (auto it = model_.begin(); it != model_.end();) {
      const std::string key = (it++)->first;
      const Expected* present = Find(key);
      if (present == nullptr) continue;
      INFO(key);
      REQUIRE(seen.contains(key));
      REQUIRE(seen[key] == present->value);
      seen.erase(key);
    }
    REQUIRE(seen.empty());
  }

  StoreFixture fixture_;
  std::mt19937_64 random_;
  const int keys_;
  const std::size_t value_bytes_max_;
  std::map<std::string, Expected> model_;
  Lsn last_;
  std::uint64_t refused_ = 0;
  const bool admits_;
  std::unordered_set<std::string> sighted_;
  std::uint64_t held_back_ = 0;
  std::uint64_t admitted_early_ = 0;
};

void RunModel(const StoreOptions& options, int keys, std::size_t value_bytes_max, int steps,
              int check_every, bool expect_refused = false) {
  const std::uint64_t seed = TestSeed();
  INFO("TP_TEST_SEED=" << seed);
  Model model(options, seed, keys, value_bytes_max);
  model.Run(steps, check_every);
  if (expect_refused) {
    REQUIRE(model.refused() > 0);
    REQUIRE(model.fixture().core->counters().compacted_segments > 0);
  }
}

TEST_CASE("ModelWithFullSegments") { RunModel({}, 2000, 40'000, 30'000, 5'000); }

TEST_CASE("ModelWithTinySegments") { RunModel(TinyStore(8 << 20), 3000, 1500, 60'000, 2'000); }

TEST_CASE("ModelWithTinySegmentsAndExtents") {
  RunModel(TinyStore(16 << 20, 8192), 200, 60'000, 20'000, 1'000);
}

TEST_CASE("ModelWithHashOfFourBits") {
  StoreOptions options = TinyStore(8 << 20);
  options.core.hash_mask = 0xF;
  RunModel(options, 400, 1000, 20'000, 1'000);
}

TEST_CASE("ModelWithLittleMemory") { RunModel(TinyStore(40 * 4096), 800, 1500, 60'000, 500, true); }

TEST_CASE("ModelWithLittleMemoryAndExtents") {
  RunModel(TinyStore(40 * 8192, 8192), 100, 30'000, 30'000, 500, true);
}

TEST_CASE("ModelWithTombstones") {
  StoreOptions options = TinyStore(2 << 20);
  options.partition.tombstones = true;
  options.partition.update_in_place = false;
  RunModel(options, 500, 300, 20'000, 1'000);
}

// The same operations with the order in addition; CheckInvariants compares the two indexes.
StoreOptions Ordered(StoreOptions options, std::uint32_t tree_page_bytes = 4096) {
  options.partition.kind = Kind::kOrdered;
  options.core.tree_page_bytes = tree_page_bytes;
  return options;
}

TEST_CASE("ModelOfOrderedPartition") {
  RunModel(Ordered(TinyStore(16 << 20), 256), 3000, 1500, 60'000, 2'000);
}

TEST_CASE("ModelOfOrderedPartitionWithExtents") {
  RunModel(Ordered(TinyStore(16 << 20, 8192)), 200, 60'000, 20'000, 1'000);
}

TEST_CASE("ModelOfOrderedPartitionWithLittleMemory") {
  RunModel(Ordered(TinyStore(60 * 4096)), 800, 1500, 60'000, 500, true);
}

TEST_CASE("ModelOfOrderedPartitionWithTombstones") {
  StoreOptions options = Ordered(TinyStore(2 << 20), 256);
  options.partition.tombstones = true;
  options.partition.update_in_place = false;
  RunModel(options, 500, 300, 20'000, 1'000);
}

// More than memory holds: records leave it, are read back, and make place on the device again.
StoreOptions Spilling(StoreOptions options, std::uint64_t slots, std::uint64_t seed) {
  options.slots = slots;
  options.device_seed = seed;
  return options;
}

void RunSpillModel(const StoreOptions& options, std::uint64_t slots, int keys,
                   std::size_t value_bytes_max, int steps, bool device_fills,
                   std::uint64_t seed = TestSeed()) {
  INFO("TP_TEST_SEED=" << seed);
  Model model(Spilling(options, slots, seed), seed, keys, value_bytes_max);
  model.Run(steps, 1'000);
  const SpillCounters counters = model.fixture().core->counters().spill;
  INFO(counters.spilled_segments << " segments left, " << counters.returned_segments
                                 << " came back, " << counters.reads << " records were read, "
                                 << model.refused() << " refused");
  REQUIRE(counters.spilled_segments > 50);
  REQUIRE(counters.reads > 1'000);
  REQUIRE(counters.failed_reads == 0);
  REQUIRE(counters.failed_writes == 0);
  REQUIRE((model.refused() > 0) == device_fills);
  if (device_fills) REQUIRE(counters.returned_segments > 0);
}

TEST_CASE("ModelOfRecordsThatLeaveMemory") {
  RunSpillModel(TinyStore(64 * 4096), 4096, 4000, 1500, 60'000, false);
}

TEST_CASE("ModelOfRecordsThatLeaveMemoryBehindAFilter") {
  StoreOptions options = TinyStore(80 * 4096);
  options.partition.prefilter.kind = PrefilterKind::kAbsent;
  RunSpillModel(options, 4096, 4000, 1500, 60'000, false);
}

// Several seeds, because the errors here need rare coincidences. While too few slots were reserved
// for it, a large value never came back with a quarter of the seeds 1 to 150.
TEST_CASE("ModelOfRecordsThatLeaveMemoryAndFillTheDevice") {
  constexpr std::uint64_t kRuns = 8;
  const std::uint64_t first = TestSeed();
  for (std::uint64_t run = 0; run < kRuns; ++run) {
    RunSpillModel(TinyStore(40 * 4096), 96, 3000, 1500, 60'000, true, first + run);
  }
}

// With this seed an operation on a full device needs room, is denied it, and meets a record on the
// device. Its repetition requested room again, without end.
TEST_CASE("ARefusalOfRoomOutlivesAReadOfTheOperation") {
  RunSpillModel(TinyStore(40 * 4096), 96, 3000, 1500, 60'000, true, 2000);
}

TEST_CASE("ModelOfRecordsThatLeaveMemoryWithHashOfFourBits") {
  StoreOptions options = TinyStore(40 * 4096);
  options.core.hash_mask = 0xF;
  RunSpillModel(options, 2048, 600, 1500, 10'000, false);
}

TEST_CASE("ModelOfRecordsAndExtentsThatLeaveMemory") {
  RunSpillModel(TinyStore(96 * 8192, 8192), 2048, 2000, 3'000, 30'000, false);
}

StoreOptions WithPrefilter(StoreOptions options, PrefilterKind kind) {
  options.partition.prefilter.kind = kind;
  return options;
}

// CheckInvariants finds a key that is there and not in the filter.
void RunAbsentModel(const StoreOptions& options, int keys, int steps) {
  const std::uint64_t seed = TestSeed();
  INFO("TP_TEST_SEED=" << seed);
  Model model(WithPrefilter(options, PrefilterKind::kAbsent), seed, keys, 300);
  model.Run(steps, 1'000);
  REQUIRE(model.fixture().store->absent_filter()->generation() >= 2);
}

TEST_CASE("ModelWithAbsentFilter") { RunAbsentModel(TinyStore(16 << 20), 20'000, 80'000); }

TEST_CASE("ModelWithAbsentFilterOfFewKeys") { RunAbsentModel(TinyStore(2 << 20), 300, 60'000); }

TEST_CASE("ModelWithAbsentFilterAndLittleMemory") {
  RunModel(WithPrefilter(TinyStore(40 * 4096), PrefilterKind::kAbsent), 800, 1500, 60'000, 500,
           true);
}

TEST_CASE("ModelOfOrderedPartitionWithAbsentFilter") {
  RunAbsentModel(Ordered(TinyStore(16 << 20), 256), 10'000, 40'000);
}

void RunAdmitModel(const StoreOptions& options, int keys, int steps) {
  const std::uint64_t seed = TestSeed();
  INFO("TP_TEST_SEED=" << seed);
  Model model(WithPrefilter(options, PrefilterKind::kAdmit), seed, keys, 300);
  model.Run(steps, 1'000);
  // Each key comes once; 1 % is the filter's rate, and layers may double it.
  INFO(model.held_back() << " held back, " << model.admitted_early() << " admitted early");
  REQUIRE(model.held_back() > 100);
  REQUIRE(model.admitted_early() <= 10 + model.held_back() / 30);
}

TEST_CASE("ModelWithAdmissionFilter") { RunAdmitModel(TinyStore(16 << 20), 30'000, 80'000); }

TEST_CASE("ModelWithAdmissionFilterAndLittleMemory") {
  RunAdmitModel(TinyStore(60 * 4096), 3000, 60'000);
}

TEST_CASE("ModelOfOrderedPartitionWithAdmissionFilter") {
  RunAdmitModel(Ordered(TinyStore(16 << 20), 256), 10'000, 40'000);
}

}  // namespace
}  // namespace tidepool::storage
