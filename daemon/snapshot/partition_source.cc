#include "daemon/snapshot/partition_source.h"

#include <utility>
#include <vector>

#include "proto/base/key_hash.h"
#include "storage/partition.h"

namespace tidepool::daemon::snapshot {
namespace {

// Some 100 us: records that are not in the cache cost 100 ns to read and as much to copy.
constexpr std::uint64_t kRecordsPerSlice = 256;
constexpr std::size_t kBytesPerSlice = 256 * 1024;
// Large values that change while they are sent are sent again. Where they do so for ever there is
// no end to it: so many, and this many times what the walk has found.
constexpr std::uint64_t kAgainMin = 64;
constexpr std::uint64_t kAgainTimes = 4;

}  // namespace

PartitionSource::PartitionSource(storage::CoreStore& store, PartitionId partition)
    : store_(store), id_(partition), term_(store.Find(partition)->term()) {
  store_.Find(id_)->AddSink(this);
}

PartitionSource::~PartitionSource() {
  if (storage::Partition* held = store_.Find(id_); held != nullptr) held->RemoveSink(this);
}

void PartitionSource::Fail(StatusCode code) {
  code_ = code;
  items_ = {};
  large_.clear();
  sending_.reset();
}

void PartitionSource::Add(const ImageItem& item) {
  AppendItem(item, &items_);
  ++entries_;
}

void PartitionSource::AddAgain(Bytes key) {
  large_.emplace(AsText(key));
  if (++large_again_ > kAgainMin + kAgainTimes * large_found_) Fail(StatusCode::kResourceExhausted);
}

// What has left by a split is another partition's, whose image would be undone by its removal here.
bool PartitionSource::Holds(storage::Partition& partition, Bytes key) const {
  return partition.kind() != Kind::kOrdered || partition.bounds().Holds(key);
}

bool PartitionSource::HasPassed(storage::Partition& partition, std::uint64_t hash) const {
  return walked_ || partition.hash().index().PositionOf(hash) < cursor_;
}

void PartitionSource::OnRecord(const storage::LogRecord& record) {
  if (over_ || code_ != StatusCode::kOk) return;
  storage::Partition& partition = *store_.Find(id_);
  // The walk will meet what it has not passed as it is then.
  if (!HasPassed(partition, record.hash) || !Holds(partition, record.key)) return;
  if (sending_.has_value() && sending_->key == AsText(record.key)) {
    Add({.kind = ImageItem::Kind::kLargeDrop});
    sending_.reset();
  }
  if (record.type == storage::LogRecordType::kPut && !record.extent_segments.empty()) {
    Add({.kind = ImageItem::Kind::kDelete, .key = record.key, .version = record.lsn.value()});
    AddAgain(record.key);
    return;
  }
  large_.erase(std::string(AsText(record.key)));
  ImageItem item;
  item.key = record.key;
  item.version = record.lsn.value();
  item.kind = ImageItem::Kind::kDelete;
  if (record.type == storage::LogRecordType::kPut) {
    item.kind = ImageItem::Kind::kPut;
    item.value_flags = record.value_flags;
    item.value = record.value;
    item.value_tail = record.value_tail;
    item.expiry_ms = record.expiry_ms;
  }
  if (items_.size() + item.bytes() > kUntakenBytesMax) return Fail(StatusCode::kResourceExhausted);
  Add(item);
}

void PartitionSource::Slice(SourceSlice* slice) {
  storage::Partition* held = store_.Find(id_);
  if (code_ == StatusCode::kOk && (held == nullptr || held->term() != term_)) {
    Fail(StatusCode::kAborted);
  }
  if (code_ == StatusCode::kOk) {
    if (!walked_) {
      WalkSlice(*held);
    } else if (sending_.has_value() || !large_.empty()) {
      LargeSlice(*held);
    }
    if (store_.blocked()) {
      const StatusCode lost = store_.TakeLost();
      if (lost == StatusCode::kOk) return;
      Fail(lost);
    }
  }
  if (code_ == StatusCode::kOk && walked_ && large_.empty() && !sending_.has_value()) {
    ImageItem end;
    end.kind = ImageItem::Kind::kEnd;
    end.version = held->last_lsn().value();
    end.number = entries_;
    AppendItem(end, &items_);
    slice->done = true;
    slice->entries = entries_;
    slice->end = held->last_lsn();
    slice->taken_at_ms = store_.NowMs();
    over_ = true;
    held->RemoveSink(this);
  }
  slice->code = code_;
  slice->items = std::exchange(items_, {});
}

void PartitionSource::WalkSlice(storage::Partition& partition) {
  struct Seen {
    std::size_t items_bytes;  // Behind it.
    bool counted;
    std::string large_key;
  };
  std::vector<Seen> seen;
  const std::size_t before = items_.size();
  Bytes last_key;
  const storage::IterateResult result = partition.hash().Iterate(
      cursor_, kRecordsPerSlice, store_.NowMs(), [&](const storage::RecordView& record) {
        // Keys of one hash go together, or the cursor would not get past them.
        if (items_.size() - before > kBytesPerSlice && KeyHash(record.key) != KeyHash(last_key)) {
          return false;
        }
        last_key = record.key;
        Seen one{items_.size(), false, {}};
        if (!Holds(partition, record.key)) {
          seen.push_back(std::move(one));
          return true;
        }
        if (record.extent != nullptr) {
          one.large_key = AsText(record.key);
        } else {
          ImageItem item;
          item.value_flags = record.value_flags;
          item.key = record.key;
          item.value = record.value;
          item.version = record.version.value();
          item.expiry_ms = record.expiry_ms;
          AppendItem(item, &items_);
          one.counted = true;
          one.items_bytes = items_.size();
        }
        seen.push_back(std::move(one));
        return true;
      });
  if (result.unreadable > 0) return Fail(StatusCode::kDataLoss);
  // What was visited beyond the count comes again.
  seen.resize(static_cast<std::size_t>(result.records));
  items_.resize(seen.empty() ? before : seen.back().items_bytes);
  for (Seen& one : seen) {
    if (one.counted) ++entries_;
    if (one.large_key.empty()) continue;
    ++large_found_;
    large_.insert(std::move(one.large_key));
  }
  cursor_ = result.cursor;
  walked_ = result.done;
}

void PartitionSource::LargeSlice(storage::Partition& partition) {
  if (!sending_.has_value()) BeginLarge(partition);
  if (!sending_.has_value()) return;
  Large& large = *sending_;
  for (std::size_t bytes = 0; large.sent < large.reader.value_bytes() && bytes < kBytesPerSlice;) {
    ImageItem part;
    part.kind = ImageItem::Kind::kLargePart;
    part.number = large.sent;
    part.value = large.reader.Part(large.sent, kBytesPerSlice);
    large.sent += part.value.size();
    bytes += part.value.size();
    Add(part);
  }
  if (large.sent < large.reader.value_bytes()) return;
  Add({.kind = ImageItem::Kind::kLargeEnd});
  sending_.reset();
}

void PartitionSource::BeginLarge(storage::Partition& partition) {
  const std::string key = *large_.begin();
  storage::HashStore& store = partition.hash();
  const Bytes bytes = AsBytes(key);
  const std::uint64_t now_ms = store_.NowMs();
  const storage::HashOutcome ttl = store.Ttl(bytes, KeyHash(bytes), now_ms);
  const storage::HashOutcome found = store.Get(bytes, KeyHash(bytes), now_ms);
  if (store_.blocked()) return;
  // It may have been found expired, which OnRecord was told.
  large_.erase(key);
  if (found.code != StatusCode::kOk) return;
  ImageItem begin;
  begin.kind = ImageItem::Kind::kLargeBegin;
  begin.key = bytes;
  begin.version = found.version.value();
  begin.expiry_ms = ttl.result == storage::kTtlNone ? 0 : now_ms + ttl.result;
  begin.number = found.value_bytes;
  Add(begin);
  sending_ = Large{key, storage::ValueReader::Pin(store, found), 0};
}

}  // namespace tidepool::daemon::snapshot
