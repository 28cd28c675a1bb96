#include "daemon/core/range_source.h"

#include <utility>

#include "daemon/core/core.h"
#include "proto/base/check.h"
#include "proto/base/clock.h"
#include "proto/base/key_hash.h"
#include "storage/ordered_store.h"

namespace tidepool::daemon {
namespace {

// Some 20 us: records that are not in the cache cost 100 ns to read and as much to copy.
constexpr std::uint64_t kRecordsPerStep = 64;
constexpr std::size_t kBytesPerStep = 64 * 1024;
constexpr std::size_t kParcelBytes = 32 * 1024;

}  // namespace

RangeSource::RangeSource(RangeMovePtr move, storage::CoreStore& store)
    : move_(std::move(move)), store_(store), copied_up_to_(move_->key) {
  store_.Find(move_->from)->AddObserver(this);
  attached_ = true;
}

RangeSource::~RangeSource() {
  storage::Partition* held = store_.Find(move_->from);
  if (attached_ && held != nullptr) held->RemoveObserver(this);
}

// Null once it is gone, or goes on under a term that the move does not know.
storage::Partition* RangeSource::Held() const {
  storage::Partition* held = store_.Find(move_->from);
  return held != nullptr && (cut_ || held->term() == move_->term) ? held : nullptr;
}

void RangeSource::Send(const RangeItem& item) {
  AppendItem(item, &outbox_);
  if (outbox_.size() >= kParcelBytes) Flush();
}

void RangeSource::Flush() {
  if (outbox_.empty()) return;
  auto parcel = std::make_shared<const std::vector<std::byte>>(std::exchange(outbox_, {}));
  move_->unapplied_bytes.fetch_add(parcel->size(), std::memory_order_relaxed);
  move_->post(move_->target, [move = move_, parcel = std::move(parcel)](Core& core) {
    core.dispatcher().range_moves().Receive(move->to, parcel);
  });
}

void RangeSource::OnRecord(const storage::LogRecord& record) {
  if (over_ || AsText(record.key) < move_->key) return;
  const std::string_view key = AsText(record.key);
  if (sending_.has_value() && sending_->key == key) {
    Send({.kind = RangeItem::Kind::kLargeDrop});
    sending_.reset();
  }
  RangeItem item;
  if (record.type == storage::LogRecordType::kPut && !record.extent_segments.empty()) {
    // Until it comes nothing older may be there: it may expire before.
    large_.emplace(key);
    item.kind = RangeItem::Kind::kDelete;
    item.key = record.key;
    item.version = record.lsn.value();
    return Send(item);
  }
  item.kind = record.type == storage::LogRecordType::kPut ? RangeItem::Kind::kPut
                                                          : RangeItem::Kind::kDelete;
  item.value_flags = record.value_flags;
  item.key = record.key;
  item.value = record.value;
  item.value_tail = record.value_tail;
  item.version = record.lsn.value();
  item.expiry_ms = record.expiry_ms;
  Send(item);
}

void RangeSource::Fail() {
  over_ = true;
  sending_.reset();
  outbox_.clear();
  auto stage = move_->stage.load();
  if (stage != RangeMove::Stage::kDone) move_->stage.store(RangeMove::Stage::kFailed);
}

const std::string* RangeSource::LargeFrom(const std::string& key) const {
  const auto found = large_.lower_bound(key);
  const std::string* first = found == large_.end() ? nullptr : &*found;
  if (!sending_.has_value() || sending_->key < key) return first;
  return first == nullptr || sending_->key < *first ? &sending_->key : first;
}

bool RangeSource::OnMap() {
  if (over_ || cut_) return false;
  storage::Partition* held = store_.Find(move_->from);
  if (held == nullptr) {
    attached_ = false;
    Fail();
    return false;
  }
  if (held->term() == move_->term) return false;
  held->RemoveObserver(this);
  attached_ = false;
  // The grant differs from the requested one.
  if (held->bounds().end != move_->key || copied_up_to_.has_value()) {
    Fail();
    return false;
  }
  cut_ = true;
  move_->stage.store(RangeMove::Stage::kCut);
  return true;
}

bool RangeSource::Slice(std::uint64_t end_ns) {
  if (over_) return false;
  storage::Partition* held = Held();
  // The target no longer takes copies; records that were cut belong to the target all the same.
  const bool is_refused = !cut_ && move_->stage.load() == RangeMove::Stage::kFailed;
  if (held == nullptr || is_refused) {
    Fail();
    return false;
  }
  bool more = true;
  do {
    if (move_->unapplied_bytes.load(std::memory_order_relaxed) > RangeMove::kUnappliedBytesMax) {
      Flush();
      return false;  // The target wakes this core.
    }
    more = copied_up_to_.has_value() ? CopySlice(*held) : LargeSlice(*held);
  } while (more && !store_.blocked() && Clock::Real().MonotonicNs() < end_ns);
  if (over_ || store_.blocked()) return false;
  if (more) return true;
  if (cut_) {
    Send({.kind = RangeItem::Kind::kEnd});
    over_ = true;
  } else {
    auto copying = RangeMove::Stage::kCopying;
    move_->stage.compare_exchange_strong(copying, RangeMove::Stage::kFollowing);
  }
  Flush();
  return false;
}

bool RangeSource::CopySlice(storage::Partition& partition) {
  storage::ScanOptions options;
  options.range.begin = AsBytes(*copied_up_to_);
  options.range.after_begin = behind_;
  const std::optional<std::string>& end = partition.bounds().end;
  if (end.has_value()) options.range.end = AsBytes(*end);
  options.records_max = kRecordsPerStep;
  std::size_t bytes = 0;
  std::uint64_t records = 0;
  const storage::RangeProgress progress =
      partition.ordered().Scan(options, store_.NowMs(), [&](const storage::RecordView& record) {
        if (bytes > kBytesPerStep) return false;
        ++records;
        if (record.extent != nullptr) {
          large_.emplace(AsText(record.key));
          return true;
        }
        bytes += record.key.size() + record.value.size();
        RangeItem item;
        item.value_flags = record.value_flags;
        item.key = record.key;
        item.value = record.value;
        item.version = record.version.value();
        item.expiry_ms = record.expiry_ms;
        Send(item);
        return true;
      });
  if (store_.blocked()) {
    if (store_.TakeLost() != StatusCode::kOk) Fail();
    return false;
  }
  if (progress.unreadable > 0) {
    Fail();  // It would be lost unsaid where it goes.
    return false;
  }
  move_->records.fetch_add(records, std::memory_order_relaxed);
  if (progress.done) {
    copied_up_to_.reset();
  } else if (progress.last.has_value()) {
    copied_up_to_ = std::string(AsText(*progress.last));
    behind_ = true;
  }
  return true;
}

// Returns false if no large value is left.
bool RangeSource::LargeSlice(storage::Partition& partition) {
  if (!sending_.has_value()) {
    if (large_.empty()) return false;
    const std::string key = *large_.begin();
    large_.erase(large_.begin());
    if (!BeginLarge(partition, key)) return true;
  }
  Large& large = *sending_;
  std::size_t bytes = 0;
  while (large.sent < large.reader.value_bytes() && bytes < kBytesPerStep) {
    RangeItem part;
    part.kind = RangeItem::Kind::kLargePart;
    part.number = large.sent;
    part.value = large.reader.Part(large.sent, kParcelBytes);
    large.sent += part.value.size();
    bytes += part.value.size();
    Send(part);
  }
  if (large.sent < large.reader.value_bytes()) return true;
  large.record.kind = RangeItem::Kind::kLargeEnd;
  large.record.key = AsBytes(large.key);
  Send(large.record);
  sending_.reset();
  return true;
}

// Returns false if the key is gone or has a small value, which is in the stream.
bool RangeSource::BeginLarge(storage::Partition& partition, const std::string& key) {
  storage::ScanOptions options;
  const std::string behind = key + '\0';
  options.range.begin = AsBytes(key);
  options.range.end = AsBytes(behind);
  const auto look = [&](const storage::RecordView& record) {
    if (record.extent == nullptr) return true;
    if (!partition.ordered().IsReadable(record)) return false;
    storage::StoredValue stored;
    stored.value = record.value;
    stored.extent = record.extent;
    stored.value_bytes = record.value_bytes;
    stored.location = record.location;
    Large large;
    large.key = key;
    large.record.value_flags = record.value_flags;
    large.record.version = record.version.value();
    large.record.expiry_ms = record.expiry_ms;
    large.reader = storage::ValueReader::Pin(partition.store(), stored);
    sending_ = std::move(large);
    return true;
  };
  if (partition.ordered().Scan(options, store_.NowMs(), look).unreadable > 0) Fail();
  // Records of large values leave memory, too: it comes back when it has been read.
  if (store_.blocked()) {
    large_.insert(key);
    if (store_.TakeLost() != StatusCode::kOk) Fail();
  }
  if (!sending_.has_value()) return false;
  RangeItem begin;
  begin.kind = RangeItem::Kind::kLargeBegin;
  begin.number = sending_->reader.value_bytes();
  Send(begin);
  return true;
}

}  // namespace tidepool::daemon
