// Scans, counts and erasure by range, and keeping the tree in step with the log.
#include "storage/ordered_store.h"

#include <algorithm>
#include <unordered_set>

#include "proto/base/check.h"
#include "proto/base/key_hash.h"

namespace tidepool::storage {
namespace {

constexpr std::uint64_t kRecordsPerCallMax = 4096;
constexpr std::uintptr_t kLine = 64;
// How many records before it is shown one is asked for, and what its header tells of it.
constexpr std::size_t kHeaderAhead = 12;
constexpr std::size_t kRestAhead = 6;

// Of one record: the processor itself goes on with what is read in order.
constexpr std::uint64_t kPrefetchBytesMax = 1024;

// A count's budget, in leaves and records that had to be read.
constexpr std::uint64_t kCountSteps = 1024;
constexpr std::uint64_t kCountLeaves = 4;

}  // namespace

OrderedStore::OrderedStore(Partition& partition, Log& log, CoreMemory& memory,
                           const TagIndexOptions& options, const TreeIndexOptions& tree)
    : HashStore(partition, log, memory, options), keys_(log), tree_(memory, &keys_, tree) {
  KeepOrder(&tree_);
}

// In place: a view that is returned is stored in words and copied in pairs of them, which the
// processor cannot forward (6 ns a record).
void OrderedStore::ShowRecord(const TreeIndex::Entry& entry, RecordView* view) {
  const RecordHeader& record = *log_.At(entry.location);
  if (record.type != RecordType::kPut) [[unlikely]] {
    *view = ViewOf(entry.location);
    return;
  }
  view->key = Log::KeyOf(record);
  view->value = {view->key.data() + record.key_bytes, record.value_bytes};
  view->value_bytes = record.value_bytes;
  view->version = Lsn(record.lsn);
  view->value_flags = record.flags & kCounterFlags;
  view->expiry_ms = entry.marked ? log_.ExpiryOf(record) : 0;
  view->location = entry.location;
  view->extent = nullptr;
}

// The record's header and what mostly is all of it.
[[gnu::always_inline]] inline void OrderedStore::PrefetchHeader(std::uint64_t location) const {
  const auto* record = reinterpret_cast<const char*>(log_.At(location));
  __builtin_prefetch(record);
  __builtin_prefetch(record + kLine);
}

// What PrefetchHeader has left out: the header is here by now and tells how far the record goes.
[[gnu::always_inline]] inline void OrderedStore::PrefetchRest(std::uint64_t location) const {
  const RecordHeader& record = *log_.At(location);
  const auto begin = reinterpret_cast<std::uintptr_t>(&record);
  const std::uintptr_t end =
      begin + std::min<std::uint64_t>(sizeof record + record.key_bytes + record.value_bytes,
                                      kPrefetchBytesMax);
  for (std::uintptr_t line = AlignUp(begin + kLine + 1, kLine); line < end; line += kLine) {
    __builtin_prefetch(reinterpret_cast<const char*>(line));
  }
}

// The next records of a scan, found together.
struct OrderedStore::Run {
  std::size_t count = 0;
  TreeIndex::Entry entries[kRun];
  TreeIndex::Place places[kRun];  // For keys only.
};

void OrderedStore::Collect(const ScanOptions& options, TreeIndex::Place* from,
                           std::uint64_t records_max, Run* run) const {
  const std::span<TreeIndex::Entry> wanted =
      std::span(run->entries).first(std::min<std::uint64_t>(records_max, kRun));
  const Bytes* end = options.range.end.has_value() ? &*options.range.end : nullptr;
  TreeIndex::Place* places = options.keys_only ? run->places : nullptr;
  run->count = options.reverse ? tree_.CollectDown(from, options.range.begin, wanted, places)
                               : tree_.CollectUp(from, end, wanted, places);
}

// Shows the run's records, and asks for each some time before: the memory system works while those
// before are copied out. False: the visitor refused one, or too many had expired.
bool OrderedStore::Show(const Run& run, bool keys_only, std::uint64_t now_ms,
                        absl::FunctionRef<bool(const RecordView&)> visitor, ScanState* state) {
  TreeKeyBuffer buffer;
  RecordView view;
  const auto ask_for = [&](std::size_t i) __attribute__((always_inline)) {
    if (i < run.count) PrefetchHeader(run.entries[i].location);
    if (i >= kHeaderAhead - kRestAhead && i - (kHeaderAhead - kRestAhead) < run.count) {
      PrefetchRest(run.entries[i - (kHeaderAhead - kRestAhead)].location);
    }
  };
  if (!keys_only) {
    for (std::size_t i = 0; i < kHeaderAhead; ++i) ask_for(i);
  }
  for (std::size_t i = 0; i < run.count; ++i) {
    const TreeIndex::Entry& entry = run.entries[i];
    if (!keys_only) ask_for(i + kHeaderAhead);
    if (HasExpired(entry, now_ms)) {
      state->passed = entry.location;
      if (--state->expired_left == 0) return false;
      continue;
    }
    if (keys_only) {
      view.key = tree_.KeyOf(run.places[i], &buffer);
    } else {
      ShowRecord(entry, &view);
    }
    if (!visitor(view)) return false;
    state->passed = entry.location;
    ++state->records;
  }
  return true;
}

RangeProgress OrderedStore::Scan(const ScanOptions& asked, std::uint64_t now_ms,
                                 absl::FunctionRef<bool(const RecordView&)> visitor) {
  ScanOptions options = asked;
  if (options.reverse && options.range.after_begin) {
    // Downwards the beginning is where the scan stops: the lowest key above it.
    const Bytes begin = options.range.begin;
    scan_begin_.assign(begin.begin(), begin.end());
    scan_begin_.push_back(std::byte{0});
    options.range.begin = scan_begin_;
  }
  const std::uint64_t records_max = std::min(options.records_max, kRecordsPerCallMax);
  ScanState state{0, kRecordsPerCallMax, 0};
  TreeIndex::Place at = !options.reverse ? Begin(options.range, TreeIndex::Ahead::kRun)
                        : options.range.end.has_value()
                            ? tree_.LastBelow(*options.range.end, TreeIndex::Ahead::kRun)
                            : tree_.Last();
  Run run;
  bool goes_on = true;
  while (goes_on && at.valid() && state.records < records_max) {
    Collect(options, &at, records_max - state.records, &run);
    goes_on = Show(run, options.keys_only, now_ms, visitor, &state);
  }
  RangeProgress progress;
  progress.records = state.records;
  progress.done = goes_on && !at.valid();
  if (state.passed != 0) progress.last = KeyAt(state.passed);
  return progress;
}

RangeProgress OrderedStore::CountRange(const KeyRange& range, std::uint64_t now_ms) const {
  RangeProgress progress;
  const Bytes* end = range.end.has_value() ? &*range.end : nullptr;
  TreeIndex::Place at = Begin(range, TreeIndex::Ahead::kOneCell);
  std::uint64_t steps = 0;
  while (at.valid() && steps < kCountSteps) {
    steps += kCountLeaves;
    progress.records += tree_.CountUp(&at, end, kCountLeaves, [&](const TreeIndex::Entry& entry) {
      ++steps;
      return !HasExpired(entry, now_ms);
    });
  }
  progress.done = !at.valid();
  if (at.valid()) progress.last = KeyAt(tree_.At(tree_.Previous(at)).location);
  return progress;
}

RangeProgress OrderedStore::EraseRange(const KeyRange& range, std::uint64_t records_max,
                                       std::uint64_t now_ms, StatusCode* code) {
  RangeProgress progress;
  *code = StatusCode::kOk;
  KeyRange left = range;
  for (std::uint64_t steps = 0; steps < std::min(records_max, kRecordsPerCallMax); ++steps) {
    const TreeIndex::Place at = Begin(left, TreeIndex::Ahead::kOneCell);
    if (!at.valid()) {
      progress.done = true;
      return progress;
    }
    // A copy: the record goes, and room for a tombstone may move others.
    const Bytes key = KeyAt(tree_.At(at).location);
    if (range.end.has_value() && AsText(key) >= AsText(*range.end)) {
      progress.done = true;
      return progress;
    }
    erase_key_.assign(key.begin(), key.end());
    left.begin = erase_key_;
    const StatusCode erased = Delete(left.begin, KeyHash(left.begin), Lsn(), now_ms).code;
    if (erased == StatusCode::kResourceExhausted) {
      *code = erased;
      return progress;
    }
    if (erased == StatusCode::kOk) ++progress.records;
    left.after_begin = true;
    progress.last = left.begin;
  }
  return progress;
}

std::optional<std::vector<std::byte>> OrderedStore::SplitKey() const {
  const TreeIndex::Place middle = tree_.Median();
  if (!middle.valid()) return std::nullopt;
  const TreeIndex::Place before = tree_.Previous(middle);
  if (!before.valid()) return std::nullopt;
  const Bytes below = KeyAt(tree_.At(before).location);
  const Bytes above = KeyAt(tree_.At(middle).location);
  std::size_t common = 0;
  while (common < below.size() && below[common] == above[common]) ++common;
  return std::vector<std::byte>(above.begin(),
                                above.begin() + static_cast<std::ptrdiff_t>(common) + 1);
}

IndexUsage OrderedStore::index_usage() const {
  IndexUsage usage = HashStore::index_usage();
  usage.used_bytes += tree_.bytes();
  usage.allocated_bytes += tree_.allocated_bytes();
  return usage;
}

void OrderedStore::Discard(std::uint64_t* slot, std::uint64_t location) {
  dropped_ = true;
  HashStore::Discard(slot, location);
}

bool OrderedStore::FreeSlice(std::uint64_t* bucket, absl::FunctionRef<bool()> done) {
  dropped_ = true;
  return tree_.FreeSlice(done) || HashStore::FreeSlice(bucket, done);
}

void OrderedStore::CheckInvariants() const {
  HashStore::CheckInvariants();
  if (dropped_) return;
  tree_.CheckInvariants();
  TP_CHECK(tree_.size() == size());
  std::unordered_set<std::uint64_t> locations;
  VisitRecords([&](std::uint64_t location) { TP_CHECK(locations.insert(location).second); });
  TreeKeyBuffer buffer;
  for (TreeIndex::Place at = tree_.First(); at.valid(); at = tree_.Next(at)) {
    const TreeIndex::Entry entry = tree_.At(at);
    TP_CHECK(locations.erase(entry.location) == 1);
    const RecordHeader& record = *log_.At(entry.location);
    TP_CHECK(AsText(tree_.KeyOf(at, &buffer)) == AsText(Log::KeyOf(record)));
    TP_CHECK(entry.marked == ((record.flags & kRecordExpiry) != 0));
  }
  TP_CHECK(locations.empty());
}

}  // namespace tidepool::storage
