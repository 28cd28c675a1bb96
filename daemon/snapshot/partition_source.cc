#include "daemon/snapshot/partition_source.h"

#include <utility>

#include "daemon/snapshot/filter_source.h"
#include "daemon/snapshot/item_source.h"
#include "daemon/snapshot/record_source.h"
#include "proto/base/check.h"

namespace tidepool::daemon::snapshot {

std::unique_ptr<PartitionSource> PartitionSource::Make(storage::CoreStore& store,
                                                       PartitionId partition) {
  const storage::Partition& held = *store.Find(partition);
  TP_CHECK(held.IsOneOf(kSnapshotKinds));
  if (held.kind() == Kind::kBloom) return std::make_unique<FilterSource>(store, partition);
  if (held.IsOneOf(storage::kItemKinds)) return std::make_unique<ItemSource>(store, partition);
  return std::make_unique<RecordSource>(store, partition);
}

PartitionSource::PartitionSource(storage::CoreStore& store, PartitionId partition)
    : store_(store), id_(partition), term_(store.Find(partition)->term()) {}

void PartitionSource::Fail(StatusCode code) {
  code_ = code;
  items_ = {};
  Forget();
}

void PartitionSource::Add(const ImageItem& item) {
  AppendItem(item, &items_);
  ++entries_;
}

void PartitionSource::Note(const ImageItem& item) {
  if (items_.size() + item.bytes() > kUntakenBytesMax) return Fail(StatusCode::kResourceExhausted);
  Add(item);
}

void PartitionSource::CutTo(std::size_t untaken_bytes, std::uint64_t entries) {
  TP_CHECK(untaken_bytes <= items_.size());
  TP_CHECK(entries <= entries_);
  items_.resize(untaken_bytes);
  entries_ = entries;
}

void PartitionSource::Slice(SourceSlice* slice) {
  storage::Partition* held = Find();
  if (code_ == StatusCode::kOk && (held == nullptr || held->term() != term_)) {
    Fail(StatusCode::kAborted);
  }
  if (code_ == StatusCode::kOk) {
    if (!HasSentAll()) Walk(*held);
    if (store_.blocked()) {
      const StatusCode lost = store_.TakeLost();
      if (lost == StatusCode::kOk) return;
      Fail(lost);
    }
  }
  if (code_ == StatusCode::kOk && HasSentAll()) {
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
    Detach(*held);
  }
  slice->code = code_;
  slice->items = std::exchange(items_, {});
}

}  // namespace tidepool::daemon::snapshot
