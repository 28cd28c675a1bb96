#include "daemon/staging/store_access.h"

#include <map>
#include <utility>

#include "daemon/core/core.h"
#include "daemon/core/local_values.h"
#include "proto/base/key_hash.h"
#include "proto/base/limits.h"
#include "proto/manifest/keys.h"

namespace tidepool::daemon::staging {
namespace {

using stage::StagedRecord;

constexpr const char* kMakeRoom = "delete something, or start the daemons with more --memory";

Deadline CallDeadline() { return Deadline::AfterMs(limits::kCallTimeoutMs); }
// Deadline of a step that may wait for room in memory: a job has no deadline.
Deadline RoomCallDeadline() { return Deadline::AfterMs(limits::kRoomTimeoutMs); }

Status StatusOfCode(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return OkStatus();
    case StatusCode::kResourceExhausted:
      return Status(code, "the store is full, and so are its devices, if it has some", kMakeRoom);
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
  storage::HashOutcome data = store.Contains(key, KeyHash(key), now_ms);
  record->has_data = data.code == StatusCode::kOk;
  record->data_version = data.version;
  record->data_bytes = data.value_bytes;
  // A large value that is not asked for stays where it is.
  if (record->has_data && data.value_bytes <= data_bytes_max) {
    data = store.Get(key, KeyHash(key), now_ms);
    if (data.code == StatusCode::kOk) CopyValue(store, data, &record->data);
  }
  const std::string manifest_key = manifest::ManifestKey(record->key);
  const Bytes about = AsBytes(manifest_key);
  const storage::HashOutcome entry = store.Get(about, KeyHash(about), now_ms);
  record->has_entry = entry.code == StatusCode::kOk;
  if (record->has_entry) CopyValue(store, entry, entry_bytes);
}

// `*data_stored`: an earlier run has stored the data, and had to wait for room for the entry.
StatusCode StoreOne(Core& core, storage::HashStore& store, std::uint64_t now_ms,
                    StagedRecord* record, bool* data_stored) {
  const Bytes key = AsBytes(record->key);
  const std::string manifest_key = manifest::ManifestKey(record->key);
  const Bytes about = AsBytes(manifest_key);
  // Records on a device are met before any change.
  store.Touch(key, KeyHash(key));
  store.Touch(about, KeyHash(about));
  if (core.store().blocked()) return StatusCode::kUnavailable;
  if (record->delete_data) {
    const Lsn only = record->delete_entry ? record->data_version : Lsn();
    const StatusCode deleted = store.Delete(key, KeyHash(key), only, now_ms).code;
    if (deleted == StatusCode::kFailedPrecondition) return deleted;
    record->delete_data = false;  // Another run finds a newer record, if any.
    record->data_version = Lsn();
  }
  if (record->delete_entry) {
    (void)store.Delete(about, KeyHash(about), Lsn(), now_ms);
    return StatusCode::kOk;
  }
  if (record->put_data && !*data_stored) {
    const storage::HashOutcome put =
        store.Put(key, KeyHash(key), AsBytes(record->data), storage::PutOptions{}, now_ms);
    if (put.code != StatusCode::kOk) return put.code;
    record->data_version = put.version;
    *data_stored = true;
  }
  if (!record->put_entry) return StatusCode::kOk;
  record->entry.data_version = record->data_version.value();
  const std::string value = manifest::EncodeEntry(record->entry);
  storage::PutOptions for_ever;
  for_ever.ttl_ms = storage::kTtlNone;
  return store.Put(about, KeyHash(about), AsBytes(value), for_ever, now_ms).code;
}

// Owned by its task, which may run after the caller has given up.
struct CoreBatch {
  std::vector<StagedRecord> records;
  std::vector<PartitionId> partitions;  // Partition of each record, with its term.
  std::vector<Term> terms;
  std::vector<std::string> entry_bytes;
  bool store = false;
  std::size_t data_bytes_max = 0;
  std::uint64_t changes = 0;
  // How far it has come: a run that has to wait for a device, or for room, is followed by another.
  std::size_t done = 0;
  bool data_stored = false;  // Concerns the record at `done`.
};

// False: it has met a record on a device, or no memory while some is on its way. True, with the
// code: it cannot be read.
bool IsOver(Core& core, StatusCode* code) {
  const bool refused = *code == StatusCode::kResourceExhausted && core.store().refused();
  if (!core.store().blocked() && !refused) return true;
  const StatusCode lost = core.store().TakeLost();
  if (lost != StatusCode::kOk) *code = lost;
  return lost != StatusCode::kOk;
}

// Reads the current record and the following records together.
void ReadAhead(Core& core, const CoreBatch& batch) {
  const Ownership& ownership = core.dispatcher().ownership();
  for (std::size_t i = batch.done + 1; i < batch.records.size(); ++i) {
    const Verdict verdict = ownership.Check(batch.partitions[i], batch.terms[i]);
    if (verdict.kind != Verdict::Kind::kRun) return;
    const std::string manifest_key = manifest::ManifestKey(batch.records[i].key);
    for (const Bytes key : {AsBytes(batch.records[i].key), AsBytes(manifest_key)}) {
      verdict.partition->hash().TouchAhead(KeyHash(key));
    }
  }
}

void RunBatch(Core& core, CoreBatch& batch) {
  const Ownership& ownership = core.dispatcher().ownership();
  const bool leased = core.lease().ValidAt(Clock::Real().MonotonicNs());
  const std::uint64_t now_ms = core.store().NowMs();
  for (; batch.done < batch.records.size(); ++batch.done, batch.data_stored = false) {
    const std::size_t i = batch.done;
    StagedRecord& record = batch.records[i];
    const Verdict verdict = ownership.Check(batch.partitions[i], batch.terms[i]);
    if (!leased || verdict.kind != Verdict::Kind::kRun) {
      record.status =
          Status(StatusCode::kUnavailable, "this node does not serve its partition any more",
                 "run the same command again");
      continue;
    }
    storage::Partition& partition = *verdict.partition;
    const std::uint64_t before = partition.last_lsn().value();
    const std::string* refusal = nullptr;
    if (batch.store && partition.options().durability != storage::Durability::kVolatile &&
        core.store().commit_failed() != StatusCode::kOk) {
      record.status = Status(StatusCode::kDeviceError,
                             "a device of the node has failed: nothing durable can be changed");
      continue;
    }
    if (batch.store && record.put_data) {
      refusal = core.dispatcher().ownership().shares().Refusal(
          batch.partitions[i], record.key.size() + record.data.size() + kRecordOverheadBytes);
    }
    if (refusal != nullptr) {
      record.status = Status(StatusCode::kResourceExhausted, *refusal);
    } else {
      StatusCode code = StatusCode::kOk;
      if (batch.store) {
        code = StoreOne(core, partition.hash(), now_ms, &record, &batch.data_stored);
      } else {
        LookUpOne(partition.hash(), now_ms, batch.data_bytes_max, &record, &batch.entry_bytes[i]);
      }
      batch.changes += partition.last_lsn().value() - before;
      core.dispatcher().NoteTaskWait(partition);
      if (!IsOver(core, &code)) {
        if (core.store().blocked()) ReadAhead(core, batch);
        return;  // CoreGroup::Run comes back.
      }
      record.status = StatusOfCode(code);
    }
  }
  if (core.lease().ValidAt(Clock::Real().MonotonicNs())) return;
  for (StagedRecord& record : batch.records) {
    record.status = Status(StatusCode::kUnavailable, "this node's lease ran out meanwhile",
                           "run the same command again");
  }
}

}  // namespace

Result<StoreAccess::Place> StoreAccess::Locate(std::string_view key) const {
  const std::uint32_t index = space_->IndexOf(AsBytes(key));
  const placement::PartitionPlace& place = space_->partitions[index];
  if (place.node == router_.context().self()) {
    return Place{place.core, PartitionId(space_->id, index), place.term};
  }
  return Status(StatusCode::kWrongEpoch, "this node does not own the key any more",
                "run the same command again");
}

void StoreAccess::LookUp(std::vector<StagedRecord>* records, std::size_t data_bytes_max) {
  RunOnCores(records, false, data_bytes_max);
}

void StoreAccess::Put(std::vector<StagedRecord>* records) { RunOnCores(records, true, 0); }

Result<Lsn> StoreAccess::Write(const StagedRecord& record, std::uint64_t bytes, const Next& next) {
  const auto place = Locate(record.key);
  if (!place.ok()) return place.status();
  CoreGroup& cores = *router_.context().cores;
  auto writer = LocalValueWriter::Begin(cores, place->core, bytes, RoomCallDeadline());
  if (!writer.ok()) return writer.status();
  for (;;) {
    auto piece = next();
    if (!piece.ok()) return piece.status();
    if (piece->empty()) break;
    TP_RETURN_IF_ERROR(writer->Write(*std::move(piece), CallDeadline()));
  }
  wire::Operation put;
  put.opcode = wire::Opcode::kPut;
  put.key = AsBytes(record.key);
  auto outcome = writer->Put(place->partition, place->term, put, RoomCallDeadline());
  if (!outcome.ok()) return outcome.status();
  if (outcome->code != StatusCode::kOk) {
    return Status(outcome->code, "the store refused it: " + outcome->value,
                  outcome->code == StatusCode::kResourceExhausted ? kMakeRoom : "");
  }
  own_changes_.fetch_add(1);
  return outcome->version;
}

Status StoreAccess::Read(const StagedRecord& record, const Take& take) {
  const auto place = Locate(record.key);
  if (!place.ok()) return place.status();
  auto reader = LocalValueReader::Open(*router_.context().cores, place->core, place->partition,
                                       place->term, record.key, CallDeadline());
  if (!reader.ok()) return reader.status();
  if (reader->outcome().version != record.data_version) {
    return Status(StatusCode::kAborted, "its value changed meanwhile",
                  "run the same command again");
  }
  for (std::uint64_t at = 0; at < reader->value_bytes();) {
    auto piece = reader->Read(at, stage::kPieceBytes, CallDeadline());
    if (!piece.ok()) return piece.status();
    at += piece->size();
    TP_RETURN_IF_ERROR(take(AsBytes(*piece)));
  }
  return OkStatus();
}

void StoreAccess::RunOnCores(Batch* records, bool store, std::size_t data_bytes_max) {
  std::map<CoreId, std::vector<std::pair<StagedRecord*, Place>>> by_core;
  for (StagedRecord& record : *records) {
    if (!record.status.ok()) continue;
    const auto place = Locate(record.key);
    if (place.ok()) {
      by_core[place->core].emplace_back(&record, *place);
    } else {
      record.status = place.status();
    }
  }
  for (auto& [core, of_core] : by_core) RunOnCore(core, std::move(of_core), store, data_bytes_max);
}

void StoreAccess::RunOnCore(CoreId core, std::vector<std::pair<StagedRecord*, Place>> records,
                            bool store, std::size_t data_bytes_max) {
  auto batch = std::make_shared<CoreBatch>();
  batch->store = store;
  batch->data_bytes_max = data_bytes_max;
  batch->entry_bytes.resize(records.size());
  for (auto& [record, place] : records) {
    batch->records.push_back(std::move(*record));
    batch->partitions.push_back(place.partition);
    batch->terms.push_back(place.term);
  }
  const Status ran = router_.context().cores->Run(
      core, [batch](Core& at) { RunBatch(at, *batch); }, RoomCallDeadline());
  if (!ran.ok()) {
    // The task may still run and has the records: only the failure comes back.
    for (auto& [record, place] : records) {
      *record = StagedRecord();
      record->status = ran;
    }
    return;
  }
  own_changes_.fetch_add(batch->changes);
  for (std::size_t i = 0; i < records.size(); ++i) {
    StagedRecord& record = *records[i].first;
    record = std::move(batch->records[i]);
    if (store || !record.has_entry) continue;
    auto entry = manifest::DecodeEntry(AsBytes(batch->entry_bytes[i]));
    record.has_entry = entry.ok();  // An entry of another version counts as absent.
    if (entry.ok()) record.entry = *std::move(entry);
  }
}

}  // namespace tidepool::daemon::staging
