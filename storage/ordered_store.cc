// Scans, counts and erasure by range, and keeping the tree in step with the log.
#include "storage/ordered_store.h"

#include <algorithm>
#include <unordered_set>

#include "proto/base/check.h"
#include "proto/base/key_hash.h"

namespace tidepool::storage {
namespace {

constexpr std::uint64_t kRecordsPerCallMax = 4096;
// Records collected and asked for together before the first is read: more than the memory system
// has in flight, and no more than the nearest cache keeps.
constexpr std::size_t kRun = 128;

// A count's budget, in leaves and records that had to be read.
constexpr std::uint64_t kCountSteps = 1024;
constexpr std::uint64_t kCountLeaves = 4;

}  // namespace

std::optional<Bytes> EndOfPrefix(Bytes prefix, std::vector<std::byte>* buffer) {
  buffer->assign(prefix.begin(), prefix.end());
  while (!buffer->empty() && buffer->back() == std::byte{0xff}) buffer->pop_back();
  if (buffer->empty()) return std::nullopt;
  buffer->back() = static_cast<std::byte>(std::to_integer<unsigned>(buffer->back()) + 1);
  return Bytes(*buffer);
}

OrderedStore::OrderedStore(Partition& partition, Log& log, CoreMemory& memory,
                           const TagIndexOptions& options, const TreeIndexOptions& tree)
    : HashStore(partition, log, memory, options), keys_(log), tree_(memory, &keys_, tree) {
  KeepOrder(&tree_);
}

RecordView OrderedStore::Seen(const TreeIndex::Entry& entry) {
  const RecordHeader& record = *log_.At(entry.location);
  if (record.type != RecordType::kPut) [[unlikely]]
    return ViewOf(entry.location);
  RecordView view;
  view.key = Log::KeyOf(record);
  view.value = {view.key.data() + record.key_bytes, record.value_bytes};
  view.value_bytes = record.value_bytes;
  view.version = Lsn(record.lsn);
  view.value_flags = record.flags & kCounterFlags;
  view.expiry_ms = entry.marked ? log_.ExpiryOf(record) : 0;
  view.location = entry.location;
  return view;
}

RangeProgress OrderedStore::Scan(const ScanOptions& options, std::uint64_t now_ms,
                                 absl::FunctionRef<bool(const RecordView&)> visitor) {
  RangeProgress progress;
  const KeyRange& range = options.range;
  const Bytes* end = range.end.has_value() ? &*range.end : nullptr;
  const std::uint64_t records_max = std::min(options.records_max, kRecordsPerCallMax);
  std::uint64_t expired_left = kRecordsPerCallMax;
  TreeIndex::Place at = !options.reverse ? Begin(range)
                        : end != nullptr ? tree_.LastBelow(*end)
                                         : tree_.Last();
  std::uint64_t passed = 0;  // Location of the last one.
  const auto stop = [&]() -> RangeProgress {
    if (passed != 0) progress.last = KeyAt(passed);
    return progress;
  };
  TreeIndex::Entry entries[kRun];
  TreeIndex::Place places[kRun];
  while (at.valid()) {
    if (progress.records == records_max || expired_left == 0) return stop();
    const std::span<TreeIndex::Entry> wanted =
        std::span(entries).first(std::min<std::uint64_t>(records_max - progress.records, kRun));
    const std::size_t count = options.reverse ? tree_.CollectDown(&at, range.begin, wanted, places)
                                              : tree_.CollectUp(&at, end, wanted, places);
    if (!options.keys_only) {
      for (std::size_t i = 0; i < count; ++i) {
        const auto* record = reinterpret_cast<const char*>(log_.At(entries[i].location));
        __builtin_prefetch(record);
        __builtin_prefetch(record + 64);
      }
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (HasExpired(entries[i], now_ms)) {
        passed = entries[i].location;
        if (--expired_left == 0) return stop();
        continue;
      }
      TreeKeyBuffer buffer;
      RecordView view;
      if (options.keys_only) {
        view.key = tree_.KeyOf(places[i], &buffer);
      } else {
        view = Seen(entries[i]);
      }
      if (!visitor(view)) return stop();
      passed = entries[i].location;
      ++progress.records;
    }
  }
  progress.done = true;
  return stop();
}

RangeProgress OrderedStore::CountRange(const KeyRange& range, std::uint64_t now_ms) const {
  RangeProgress progress;
  const Bytes* end = range.end.has_value() ? &*range.end : nullptr;
  TreeIndex::Place at = Begin(range);
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
    const TreeIndex::Place at = Begin(left);
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

void OrderedStore::Relocate(std::uint64_t* slot, const RecordHeader& record, std::uint64_t moved) {
  HashStore::Relocate(slot, record, moved);
  tree_.Replace(Log::KeyOf(record), moved, (record.flags & kRecordExpiry) != 0);
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
