#include "daemon/staging/store_access.h"

#include <map>
#include <utility>

#include "daemon/core.h"
#include "proto/base/key_hash.h"
#include "proto/base/limits.h"
#include "proto/manifest/keys.h"
#include "proto/placement/owner.h"

namespace tidepool::daemon::staging {
namespace {

Status StatusOfCode(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return OkStatus();
    case StatusCode::kResourceExhausted:
      return Status(code, "the store is full",
                    "delete something, or start the daemons with more --memory");
    default:
      return Status(code, "the store refused it");
  }
}

void CopyValue(storage::HashStore& store, const storage::HashOutcome& outcome, std::string* to) {
  to->clear();
  if (outcome.extent == nullptr) {
    to->assign(AsText(outcome.value));
    return;
  }
  const storage::ValueReader reader = storage::ValueReader::Pin(store, outcome);
  to->reserve(reader.value_bytes());
  while (to->size() < reader.value_bytes()) {
    to->append(AsText(reader.Part(to->size(), reader.value_bytes())));
  }
}

// The rest runs on the owner core.

void LookUpOne(storage::HashStore& store, std::uint64_t now_ms, std::size_t data_bytes_max,
               StagedRecord* record, std::string* entry_bytes) {
  const Bytes key = AsBytes(record->key);
  const storage::HashOutcome data = store.Get(key, KeyHash(key), now_ms);
  record->has_data = data.code == StatusCode::kOk;
  record->data_version = data.version;
  record->data_bytes = data.value_bytes;
  if (record->has_data && data.value_bytes <= data_bytes_max) {
    CopyValue(store, data, &record->data);
  }
  const std::string manifest_key = manifest::ManifestKey(record->key);
  const Bytes about = AsBytes(manifest_key);
  const storage::HashOutcome entry = store.Get(about, KeyHash(about), now_ms);
  record->has_entry = entry.code == StatusCode::kOk;
  if (record->has_entry) CopyValue(store, entry, entry_bytes);
}

StatusCode StoreOne(storage::HashStore& store, std::uint64_t now_ms, StagedRecord* record) {
  const Bytes key = AsBytes(record->key);
  if (record->delete_data) {
    (void)store.Delete(key, KeyHash(key), Lsn(), now_ms);
    record->data_version = Lsn();
  }
  if (record->put_data) {
    const storage::HashOutcome put =
        store.Put(key, KeyHash(key), AsBytes(record->data), storage::PutOptions{}, now_ms);
    if (put.code != StatusCode::kOk) return put.code;
    record->data_version = put.version;
  }
  if (!record->put_entry) return StatusCode::kOk;
  record->entry.data_version = record->data_version.value();
  const std::string manifest_key = manifest::ManifestKey(record->key);
  const std::string value = manifest::EncodeEntry(record->entry);
  const Bytes about = AsBytes(manifest_key);
  storage::PutOptions for_ever;
  for_ever.ttl_ms = storage::kTtlNone;
  return store.Put(about, KeyHash(about), AsBytes(value), for_ever, now_ms).code;
}

// Owned by its task, which may run after the caller has given up.
struct CoreBatch {
  std::vector<StagedRecord> records;
  std::vector<std::string> entry_bytes;
  bool store = false;
  std::size_t data_bytes_max = 0;
  std::uint64_t changes = 0;
};

void RunBatch(Core& core, CoreBatch& batch) {
  const Ownership& ownership = core.dispatcher().ownership();
  const bool leased = core.lease().ValidAt(Clock::Real().MonotonicNs());
  const std::uint64_t now_ms = core.store().NowMs();
  for (std::size_t i = 0; i < batch.records.size(); ++i) {
    StagedRecord& record = batch.records[i];
    const Verdict verdict = ownership.Check(record.partition, record.term);
    if (!leased || verdict.kind != Verdict::Kind::kRun) {
      record.status =
          Status(StatusCode::kUnavailable, "this node does not serve its partition any more",
                 "run the same command again");
      continue;
    }
    storage::Partition& partition = *verdict.partition;
    const std::uint64_t before = partition.last_lsn().value();
    const std::string* refusal = nullptr;
    if (batch.store && record.put_data) {
      refusal = core.dispatcher().ownership().shares().Refusal(
          record.partition, record.key.size() + record.data.size() + kRecordOverheadBytes);
    }
    if (refusal != nullptr) {
      record.status = Status(StatusCode::kResourceExhausted, *refusal);
    } else if (batch.store) {
      record.status = StatusOfCode(StoreOne(partition.hash(), now_ms, &record));
    } else {
      LookUpOne(partition.hash(), now_ms, batch.data_bytes_max, &record, &batch.entry_bytes[i]);
    }
    batch.changes += partition.last_lsn().value() - before;
  }
  if (core.lease().ValidAt(Clock::Real().MonotonicNs())) return;
  for (StagedRecord& record : batch.records) {
    record.status = Status(StatusCode::kUnavailable, "this node's lease ran out meanwhile",
                           "run the same command again");
  }
}

}  // namespace

void StoreAccess::Locate(StagedRecord* record) const {
  const std::uint32_t index = placement::PartitionIndexOf(
      AsBytes(record->key), static_cast<std::uint32_t>(space_->partitions.size()));
  const placement::PartitionPlace& place = space_->partitions[index];
  record->core = place.core;
  record->partition = PartitionId(space_->id, index);
  record->term = place.term;
  if (place.node != router_.context().self()) {
    record->status = Status(StatusCode::kWrongEpoch, "this node does not own the key any more",
                            "run the same command again");
  }
}

void StoreAccess::LookUp(std::vector<StagedRecord>* records, std::size_t data_bytes_max) {
  RunOnCores(records, false, data_bytes_max);
}

void StoreAccess::Store(std::vector<StagedRecord>* records) { RunOnCores(records, true, 0); }

void StoreAccess::RunOnCores(Batch* records, bool store, std::size_t data_bytes_max) {
  std::map<CoreId, std::vector<StagedRecord*>> by_core;
  for (StagedRecord& record : *records) {
    if (record.status.ok()) by_core[record.core].push_back(&record);
  }
  for (auto& [core, of_core] : by_core) RunOnCore(core, std::move(of_core), store, data_bytes_max);
}

void StoreAccess::RunOnCore(CoreId core, std::vector<StagedRecord*> records, bool store,
                            std::size_t data_bytes_max) {
  auto batch = std::make_shared<CoreBatch>();
  batch->store = store;
  batch->data_bytes_max = data_bytes_max;
  batch->entry_bytes.resize(records.size());
  for (StagedRecord* record : records) batch->records.push_back(std::move(*record));
  const Status ran = router_.context().cores->Run(
      core, [batch](Core& at) { RunBatch(at, *batch); }, Deadline::AfterMs(limits::kCallTimeoutMs));
  if (!ran.ok()) {
    // The task may still run and has the records: only the failure comes back.
    for (StagedRecord* record : records) {
      *record = StagedRecord();
      record->status = ran;
    }
    return;
  }
  own_changes_.fetch_add(batch->changes);
  for (std::size_t i = 0; i < records.size(); ++i) {
    *records[i] = std::move(batch->records[i]);
    if (store || !records[i]->has_entry) continue;
    auto entry = manifest::DecodeEntry(AsBytes(batch->entry_bytes[i]));
    records[i]->has_entry = entry.ok();  // One of another version counts as none.
    if (entry.ok()) records[i]->entry = *std::move(entry);
  }
}

}  // namespace tidepool::daemon::staging
