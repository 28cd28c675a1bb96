// Walks a hash partition by positions of the bit-reversed hash: growth neither loses nor repeats
// keys.
#include <algorithm>

#include "storage/hash_store_inl.h"
#include "storage/spill/fetched_records.h"

namespace tidepool::storage {
namespace {

// As far as a call's steps follow the records wanted: 65,600 buckets, about 1 ms when all are
// empty.
constexpr std::uint64_t kIteratedPerCallMax = 4096;
// Behind a bucket with records on a device: as many as have some 32 of them.
constexpr std::uint64_t kBucketsAhead = 64;

}  // namespace

bool HashStore::CollectChain(std::uint64_t bucket, std::uint64_t cursor, std::uint64_t now_ms,
                             std::uint64_t* unreadable) {
  visits_.clear();
  bool complete = true;
  index_.VisitChain(bucket, [&](std::uint64_t location) {
    if (log_.IsUnreadable(location)) [[unlikely]] {
      ++*unreadable;
      return;
    }
    std::uint64_t hash = 0;
    if (!FetchHashAt(location, &hash)) {
      complete = false;
      return;
    }
    const std::uint64_t position = index_.PositionOf(hash);
    if (position < cursor) return;
    const std::uint64_t expiry_ms = log_.ExpiryOf(*log_.Peek(location));
    if (expiry_ms != 0 && expiry_ms <= now_ms) return;
    visits_.push_back({position, location});
  });
  if (!complete) return false;
  std::sort(visits_.begin(), visits_.end(),
            [](const Visit& a, const Visit& b) { return a.position < b.position; });
  return true;
}

bool HashStore::BeginsBucket(std::uint64_t position) const {
  if (position == 0) return true;
  std::uint64_t next = 0;
  (void)index_.BucketOfPosition(position - 1, &next);
  return next == position;
}

// Wants the records that the walk will meet next, to read them together.
void HashStore::WantAhead(std::uint64_t position) {
  for (std::uint64_t steps = 0; steps < kBucketsAhead; ++steps) {
    if (position == 0 || log_.wanted().size() >= kFetchedRecordsMax / 2) return;
    std::uint64_t next = 0;
    const std::uint64_t bucket = index_.BucketOfPosition(position, &next);
    index_.VisitChain(bucket, [&](std::uint64_t location) { log_.WantAhead(location); });
    position = next;
  }
}

RecordView HashStore::ViewOf(std::uint64_t location) {
  HashOutcome outcome;
  const RecordHeader& record = *log_.Peek(location);
  SetView(record, location, outcome);
  RecordView view;
  view.key = Log::KeyOf(record);
  view.value = outcome.value;
  view.extent = outcome.extent;
  view.value_bytes = outcome.value_bytes;
  view.version = outcome.version;
  view.value_flags = outcome.value_flags;
  view.expiry_ms = log_.ExpiryOf(record);
  view.location = location;
  return view;
}

IterateResult HashStore::Iterate(std::uint64_t cursor, std::uint64_t records_max,
                                 std::uint64_t now_ms,
                                 absl::FunctionRef<bool(const RecordView&)> visitor) {
  IterateResult result;
  result.cursor = cursor;
  // Empty buckets count too, or a sparse partition would be walked to its end in one call.
  // What is asked for comes from the wire: beyond 4,096 records it buys no more time.
  std::uint64_t steps_left = 64 + 16 * std::min(records_max, kIteratedPerCallMax);
  while (result.records < records_max && steps_left-- != 0) {
    std::uint64_t next = 0;
    const std::uint64_t bucket = index_.BucketOfPosition(result.cursor, &next);
    std::uint64_t unreadable = 0;
    if (!CollectChain(bucket, result.cursor, now_ms, &unreadable)) {
      // The passed records stand; the next call begins here.
      if (result.cursor != cursor) {
        log_.Unblock();
      } else {
        WantAhead(next);
      }
      return result;
    }
    if (unreadable > 0 && BeginsBucket(result.cursor)) result.unreadable += unreadable;
    for (std::size_t i = 0; i < visits_.size();) {
      if (result.records >= records_max) {
        result.cursor = visits_[i].position;
        return result;
      }
      // Keys of one hash go together: the cursor cannot stand between them.
      std::size_t end = i;
      for (; end < visits_.size() && visits_[end].position == visits_[i].position; ++end) {
        if (!visitor(ViewOf(visits_[end].location))) {
          // For want of a large value (IsReadable): what was passed before stands.
          if (log_.blocked() && visits_[i].position != cursor) log_.Unblock();
          result.cursor = visits_[i].position;
          return result;
        }
      }
      result.records += end - i;
      i = end;
    }
    result.cursor = next;
    if (next == 0) {
      result.done = true;
      return result;
    }
  }
  return result;
}

}  // namespace tidepool::storage
