#include "daemon/snapshot/record_source.h"

#include <utility>
#include <vector>

#include "proto/base/key_hash.h"
#include "storage/partition.h"

namespace tidepool::daemon::snapshot {
namespace {

// Large values that change during the sending are sent again. If they change for ever, the repeats
// need a bound: this number, and this multiple of the values found by the walk.
constexpr std::uint64_t kAgainMin = 64;
constexpr std::uint64_t kAgainTimes = 4;

}  // namespace

RecordSource::RecordSource(storage::CoreStore& store, PartitionId partition)
    : PartitionSource(store, partition) {
  Find()->AddObserver(this);
}

RecordSource::~RecordSource() {
  if (storage::Partition* held = Find(); held != nullptr) held->RemoveObserver(this);
}

void RecordSource::Forget() {
  large_.clear();
  sending_.reset();
}

void RecordSource::AddAgain(Bytes key) {
  large_.emplace(AsText(key));
  if (++large_again_ > kAgainMin + kAgainTimes * large_found_) Fail(StatusCode::kResourceExhausted);
}

// A record that has left by a split belongs to another partition. A removal here would undo it
// there.
bool RecordSource::Holds(storage::Partition& partition, Bytes key) const {
  return partition.kind() != Kind::kOrdered || partition.bounds().Holds(key);
}

bool RecordSource::HasPassed(storage::Partition& partition, std::uint64_t hash) const {
  return walked_ || partition.hash().index().PositionOf(hash) < cursor_;
}

void RecordSource::OnRecord(const storage::LogRecord& record) {
  if (!listening()) return;
  storage::Partition& partition = *Find();
  // The walk will meet a record that it has not passed, in its later state.
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
  Note(item);
}

void RecordSource::Walk(storage::Partition& partition) {
  walked_ ? LargeSlice(partition) : WalkSlice(partition);
}

void RecordSource::WalkSlice(storage::Partition& partition) {
  struct Seen {
    std::size_t items_bytes;  // Behind it,
    std::uint64_t entries;    // and with it.
    std::string large_key;
  };
  std::vector<Seen> seen;
  const std::size_t before = untaken_bytes();
  const std::uint64_t entries_before = entries();
  Bytes last_key;
  const storage::IterateResult result = partition.hash().Iterate(
      cursor_, kRecordsPerSlice, store().NowMs(), [&](const storage::RecordView& record) {
        // Keys with equal hashes go together. Otherwise the cursor could not pass them.
        if (untaken_bytes() - before > kBytesPerSlice && KeyHash(record.key) != KeyHash(last_key)) {
          return false;
        }
        last_key = record.key;
        Seen one{untaken_bytes(), entries(), {}};
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
          Add(item);
          one.items_bytes = untaken_bytes();
          one.entries = entries();
        }
        seen.push_back(std::move(one));
        return true;
      });
  if (result.unreadable > 0) return Fail(StatusCode::kDataLoss);
  // Records visited beyond the count come again.
  seen.resize(static_cast<std::size_t>(result.records));
  CutTo(seen.empty() ? before : seen.back().items_bytes,
        seen.empty() ? entries_before : seen.back().entries);
  for (Seen& one : seen) {
    if (one.large_key.empty()) continue;
    ++large_found_;
    large_.insert(std::move(one.large_key));
  }
  cursor_ = result.cursor;
  walked_ = result.done;
}

void RecordSource::LargeSlice(storage::Partition& partition) {
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

void RecordSource::BeginLarge(storage::Partition& partition) {
  const std::string key = *large_.begin();
  storage::HashStore& records = partition.hash();
  const Bytes bytes = AsBytes(key);
  const std::uint64_t now_ms = store().NowMs();
  const storage::HashOutcome ttl = records.Ttl(bytes, KeyHash(bytes), now_ms);
  const storage::HashOutcome found = records.Get(bytes, KeyHash(bytes), now_ms);
  if (store().blocked()) return;
  // It may have expired, and OnRecord was then notified.
  large_.erase(key);
  if (found.code != StatusCode::kOk) return;
  ImageItem begin;
  begin.kind = ImageItem::Kind::kLargeBegin;
  begin.key = bytes;
  begin.version = found.version.value();
  begin.expiry_ms = ttl.result == storage::kTtlNone ? 0 : now_ms + ttl.result;
  begin.number = found.value_bytes;
  Add(begin);
  sending_ = Large{key, storage::ValueReader::Pin(records, found), 0};
}

}  // namespace tidepool::daemon::snapshot
