// Scans, counts and erasure by range, and keeping the tree in step with the log.
#include "storage/ordered_store.h"

#include <algorithm>
#include <unordered_set>

#include "proto/base/check.h"
#include "proto/base/key_hash.h"
#include "storage/partition.h"
#include "storage/spill/fetched_records.h"

namespace tidepool::storage {
namespace {

constexpr std::uint64_t kRecordsPerCallMax = 4096;
constexpr std::uintptr_t kLine = 64;
// Distance at which a record is prefetched before it is shown, and the size that its header gives.
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
  KeepOrder(&tree_,
            partition.is_durable() ? limits::kDurableOrderedKeyBytesMax : limits::kKeyBytesMax);
  // With the pages of tests they would stay in DRAM, and be lost.
  TP_CHECK(!partition.is_durable() ||
           tree_.whole_key_bytes_max() >= limits::kDurableOrderedKeyBytesMax);
}

// In place: a view that is returned is stored in words and copied in pairs of them, which the
// processor cannot forward (6 ns a record).
void OrderedStore::ShowRecord(const RecordHeader& record, const TreeIndex::Entry& entry,
                              RecordView* view) {
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
  const auto* record = reinterpret_cast<const char*>(log_.segments().Find(location));
  __builtin_prefetch(record);
  __builtin_prefetch(record + kLine);
}

// What PrefetchHeader has left out: the header is here by now and tells how far the record goes.
[[gnu::always_inline]] inline void OrderedStore::PrefetchRest(std::uint64_t location) const {
  const RecordHeader* record = log_.segments().Find(location);
  if (record == nullptr) [[unlikely]]
    return;
  const auto begin = reinterpret_cast<std::uintptr_t>(record);
  const std::uintptr_t end =
      begin + std::min<std::uint64_t>(sizeof *record + record->key_bytes + record->value_bytes,
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

struct OrderedStore::ScanState {
  std::uint64_t records = 0;
  std::uint64_t expired_left = kRecordsPerCallMax;
  std::uint64_t unreadable = 0;
  std::uint64_t passed = 0;  // Location of the last record; 0: no record.
  TreeIndex::Place place;    // The same, where places are collected.

  void Pass(const Run& run, std::size_t i) {
    passed = run.entries[i].location;
    place = run.places[i];
  }
};

// Keys are not taken from records.
bool OrderedStore::NeedsPlaces(const ScanOptions& options) const {
  return options.keys_only || log_.meets_unreadable();
}

void OrderedStore::Collect(const ScanOptions& options, TreeIndex::Place* from,
                           std::uint64_t records_max, Run* run) const {
  const std::span<TreeIndex::Entry> wanted =
      std::span(run->entries).first(std::min<std::uint64_t>(records_max, kRun));
  const Bytes* end = options.range.end.has_value() ? &*options.range.end : nullptr;
  TreeIndex::Place* places = NeedsPlaces(options) ? run->places : nullptr;
  run->count = options.reverse ? tree_.CollectDown(from, options.range.begin, wanted, places)
                               : tree_.CollectUp(from, end, wanted, places);
}

// Fetches together the records from `first` on that a scan will have to read.
void OrderedStore::WantRun(const Run& run, std::size_t first, bool keys_only) {
  for (std::size_t i = first; i < run.count && log_.MayWantMore(); ++i) {
    if (!keys_only || run.entries[i].marked) log_.WantAhead(run.entries[i].location);
  }
}

// Shows the run's records, and asks for each some time before: the memory system works while those
// before are copied out. False: the visitor refused one, too many had expired, or one must be
// fetched first.
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
    const RecordHeader* record = nullptr;
    if (!keys_only || entry.marked) {
      record = log_.Look(entry.location);
      if (record == nullptr && log_.lost() != StatusCode::kOk) {
        log_.Unblock();
        state->Pass(run, i);
        ++state->unreadable;
        if (--state->expired_left == 0) return false;
        continue;
      }
      if (record == nullptr) [[unlikely]] {
        WantRun(run, i + 1, keys_only);
        return false;
      }
    }
    if (entry.marked && log_.ExpiryOf(*record) <= now_ms) {
      state->Pass(run, i);
      if (--state->expired_left == 0) return false;
      continue;
    }
    if (keys_only) {
      view.key = tree_.KeyOf(run.places[i], &buffer);
    } else {
      ShowRecord(*record, entry, &view);
    }
    if (!visitor(view)) return false;
    state->Pass(run, i);
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
  ScanState state;
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
  progress.unreadable = state.unreadable;
  progress.done = goes_on && !at.valid();
  if (state.passed == 0) return progress;
  if (log_.blocked()) [[unlikely]]
    log_.Unblock();  // The passed records stand; the next call begins here.
  progress.last = NeedsPlaces(options) ? tree_.KeyOf(state.place, &last_key_)
                                       : Log::KeyOf(*log_.Peek(state.passed));
  return progress;
}

RangeProgress OrderedStore::CountRange(const KeyRange& range, std::uint64_t now_ms) {
  RangeProgress progress;
  const Bytes* end = range.end.has_value() ? &*range.end : nullptr;
  const TreeIndex::Place begin = Begin(range, TreeIndex::Ahead::kOneCell);
  TreeIndex::Place at = begin;
  std::uint64_t steps = 0;
  while (at.valid() && steps < kCountSteps) {
    steps += kCountLeaves;
    const TreeIndex::Place from = at;
    const std::uint64_t counted =
        tree_.CountUp(&at, end, kCountLeaves, [&](const TreeIndex::Entry& entry) {
          ++steps;
          if (log_.blocked()) {
            log_.WantAhead(entry.location);
            return true;
          }
          const RecordHeader* record = log_.Look(entry.location);
          if (log_.lost() != StatusCode::kOk)
            log_.Unblock();  // It counts: it may not have expired.
          return record == nullptr || log_.ExpiryOf(*record) > now_ms;
        });
    if (log_.blocked()) [[unlikely]] {
      if (from == begin) return progress;
      // The counted records stand; the next call begins here.
      log_.Unblock();
      at = from;
      break;
    }
    progress.records += counted;
  }
  progress.done = !at.valid();
  if (at.valid()) progress.last = tree_.KeyOf(tree_.Previous(at), &last_key_);
  return progress;
}

// As far as they will be met next, the records of these keys are fetched together.
void OrderedStore::WantFrom(TreeIndex::Place at, const KeyRange& range) {
  Run run;
  ScanOptions options;
  options.range = range;
  Collect(options, &at, kRun, &run);
  WantRun(run, 0, false);
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
    // A copy: the key goes.
    const Bytes key = tree_.KeyOf(at, &last_key_);
    if (range.end.has_value() && AsText(key) >= AsText(*range.end)) {
      progress.done = true;
      return progress;
    }
    erase_key_.assign(key.begin(), key.end());
    const StatusCode erased = Delete(erase_key_, KeyHash(erase_key_), Lsn(), now_ms).code;
    if (log_.blocked()) [[unlikely]] {
      // The erased records stand; the next call begins here.
      progress.last.has_value() ? log_.Unblock() : WantFrom(at, range);
      return progress;
    }
    if (erased == StatusCode::kResourceExhausted) {
      *code = erased;
      return progress;
    }
    if (erased == StatusCode::kOk) ++progress.records;
    erased_key_.swap(erase_key_);
    left.begin = erased_key_;
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
  TreeKeyBuffer below_buffer;
  TreeKeyBuffer above_buffer;
  const Bytes below = tree_.KeyOf(before, &below_buffer);
  const Bytes above = tree_.KeyOf(middle, &above_buffer);
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
    const RecordHeader* record = log_.segments().Find(entry.location);
    if (record == nullptr) continue;
    TP_CHECK(AsText(tree_.KeyOf(at, &buffer)) == AsText(Log::KeyOf(*record)));
    TP_CHECK(entry.marked == ((record->flags & kRecordExpiry) != 0));
  }
  TP_CHECK(locations.empty());
}

}  // namespace tidepool::storage
