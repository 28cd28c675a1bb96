// Looking up, putting, deleting, and the frame of every write. Updates that depend on the present
// value are in hash_store_update.cc, iteration in hash_store_iterate.cc.
#include "storage/hash_store.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "proto/base/check.h"
#include "proto/base/key_hash.h"
#include "proto/base/limits.h"
#include "storage/hash_store_inl.h"
#include "storage/partition.h"
#include "storage/spill/fetched_records.h"

namespace tidepool::storage {
namespace {

// An index of an absurd number of records would take the memory that they need themselves: all
// partitions of a namespace together get no more than a quarter of a node's ahead.
std::uint64_t ReservableRecords(const CoreMemory& memory, const PartitionOptions& options) {
  constexpr std::uint64_t kIndexBytesPerRecord = 20;
  return memory.limit_bytes() / 4 / kIndexBytesPerRecord / std::max(options.partition_count, 1u);
}

}  // namespace

HashStore::HashStore(Partition& partition, Log& log, CoreMemory& memory,
                     const TagIndexOptions& options)
    : Store(log),
      partition_(partition),
      locator_(log.segments().locator()),
      index_(memory, options),
      expected_records_(std::min(partition.options().expected_records,
                                 ReservableRecords(memory, partition.options()))) {
  const PrefilterOptions& prefilter = partition.options().prefilter;
  if (log.spills() && !partition.options().tombstones) stream_ = Stream::kSpill;
  if (partition.is_durable()) stream_ = Stream::kDurable;
  if (prefilter.kind == PrefilterKind::kAbsent) {
    auto made = AbsentFilter::Create(prefilter, memory);
    prefilter_made_ = made.ok();
    if (made.ok()) absent_ = *std::move(made);
  } else if (prefilter.kind == PrefilterKind::kAdmit) {
    auto made = AdmissionFilter::Create(prefilter, memory);
    prefilter_made_ = made.ok();
    if (made.ok()) admission_ = *std::move(made);
  }
}

void HashStore::PrefetchRecord(std::uint64_t hash) const {
  if (SurelyAbsent(hash)) return;
  index_.Find(hash, [at = locator_](std::uint64_t location) {
    const auto* record = reinterpret_cast<const char*>(at.Find(location));
    if (record == nullptr) [[unlikely]]
      return true;
    __builtin_prefetch(record);
    __builtin_prefetch(record + 64);
    // As in TagIndex::PrefetchBucket: else the call of a kernel that is not inlined is left out.
    asm volatile("");
    return true;
  });
}

bool HashStore::HashAt(std::uint64_t location, std::uint64_t* hash) const {
  const RecordHeader* record = log_.Peek(location);
  if (record == nullptr) return false;
  *hash = KeyHash(Log::KeyOf(*record));
  return true;
}

bool HashStore::FetchHashAt(std::uint64_t location, std::uint64_t* hash) {
  return log_.Look(location) != nullptr && HashAt(location, hash);
}

void HashStore::Touch(Bytes key, std::uint64_t hash) {
  const Found found = LookRaw(key, hash);
  if (found.slot != nullptr && found.record->type == RecordType::kPutExtent) {
    (void)log_.LookExtent(found.location(), *found.record);
  }
}

void HashStore::TouchAhead(std::uint64_t hash) {
  (void)index_.Find(hash, [this](std::uint64_t location) {
    log_.WantAhead(location);
    return false;
  });
}

bool HashStore::HasKey(Bytes key) { return LookRaw(key, KeyHash(key)).slot != nullptr; }

Lsn HashStore::Apply(const LogRecord& record) {
  for (;;) {
    const Found found = LookRaw(record.key, record.hash);
    if (log_.blocked()) [[unlikely]]
      return Lsn();
    const Room room = MakeRoom(record, found);
    if (room == Room::kNone) return Lsn();
    if (room == Room::kMoved) continue;
    LogRecord change = record;
    return ApplyFound(change, found);
  }
}

Lsn HashStore::ApplyFound(LogRecord& change, Found found) {
  partition_.Stamp(change);
  if (change.type == LogRecordType::kPut) {
    ApplyPut(change, found, change.lsn);
  } else {
    ApplyDelete(change, found, change.lsn);
  }
  partition_.Publish(change);
  return change.lsn;
}

HashStore::Found HashStore::LookExpiring(Found found, Bytes key, std::uint64_t hash,
                                         std::uint64_t now_ms) {
  if (log_.ExpiryOf(*found.record) > now_ms) return found;
  LogRecord removal;
  removal.partition = partition_.id();
  removal.type = LogRecordType::kExpire;
  removal.key = key;
  removal.hash = hash;
  if (partition_.Apply(removal).value() == 0) return {nullptr, found.record};
  return {};
}

void HashStore::SetValue(const RecordHeader& record, std::uint64_t location, HashOutcome& outcome) {
  if (record.type == RecordType::kPutExtent && !log_.LookExtent(location, record)) [[unlikely]]
    return;
  SetView(record, location, outcome);
}

void HashStore::SetExtent(std::uint64_t location, const RecordHeader& record,
                          HashOutcome& outcome) {
  log_.ExtentSegmentsOf(location, record, extent_segments_);
  extent_ = {record.value_bytes, extent_segments_, log_.ExtentRemainderOf(record)};
  outcome.extent = &extent_;
}

// One that has the key's tag and is damaged is taken for the key's own: it is another's once in
// 2^24, and then that one was lost before; where a device has failed to read, it may not be. An
// order has the key itself. A record without a value stands for it.
HashStore::Found HashStore::FindUnreadable(Bytes key, std::uint64_t hash) {
  const StatusCode lost = log_.lost();
  const bool is_gone =
      lost == StatusCode::kDataLoss || (lost == StatusCode::kDeviceError && order_ != nullptr);
  // It may be among what is wanted, and readable.
  if (!is_gone || !log_.wanted().empty()) return {};
  std::uint64_t ordered_at = 0;
  if (order_ != nullptr) {
    const TreeIndex::Place at = order_->Find(key);
    if (at.valid()) ordered_at = order_->At(at).location;
  }
  std::uint64_t* slot = index_.Find(hash, [&](std::uint64_t location) {
    return log_.Peek(location) == nullptr && (order_ == nullptr || ordered_at == location);
  });
  if (slot == nullptr) return {};
  unreadable_.type = RecordType::kTombstone;
  unreadable_.key_bytes = static_cast<std::uint16_t>(key.size());
  return {slot, &unreadable_};
}

HashOutcome HashStore::Get(Bytes key, std::uint64_t hash, std::uint64_t now_ms) {
  HashOutcome outcome;
  if (SurelyAbsent(hash)) {
    outcome.code = StatusCode::kNotFound;
    return outcome;
  }
  const Found found = Look(key, hash, now_ms);
  if (found.slot == nullptr) {
    outcome.code = StatusCode::kNotFound;
    return outcome;
  }
  SetValue(*found.record, found.location(), outcome);
  if (stream_ != Stream::kVolatile && !log_.blocked()) [[unlikely]]
    NoteRead(found);
  return outcome;
}

// A read record stays in DRAM longer, or returns to it at once: waiting for a second read warmed
// later and gained nothing. Walks and writes do not count.
void HashStore::NoteRead(Found found) {
  RecordHeader& record = *found.record;
  if (locator_.Find(found.location()) != nullptr) {
    const std::atomic_ref<std::uint32_t> sequence(record.sequence);
    const std::uint32_t read = record.sequence | kSequenceRead;
    if (read != record.sequence) sequence.store(read, std::memory_order_relaxed);
  } else if (record.type == RecordType::kPut && log_.MakeCacheRoom(log_.BytesOf(record))) {
    Refer(found.slot, record, log_.AppendCopy(record, found.location()));
  }
}

HashOutcome HashStore::Contains(Bytes key, std::uint64_t hash, std::uint64_t now_ms) {
  HashOutcome outcome;
  if (SurelyAbsent(hash)) {
    outcome.code = StatusCode::kNotFound;
    return outcome;
  }
  const Found found = Look(key, hash, now_ms);
  if (found.slot == nullptr) {
    outcome.code = StatusCode::kNotFound;
    return outcome;
  }
  outcome.version = Lsn(found.record->lsn);
  outcome.value_flags = found.record->flags & kCounterFlags;
  outcome.value_bytes = found.record->value_bytes;
  return outcome;
}

HashOutcome HashStore::Ttl(Bytes key, std::uint64_t hash, std::uint64_t now_ms) {
  HashOutcome outcome = Contains(key, hash, now_ms);
  if (outcome.code != StatusCode::kOk) return outcome;
  const Found found = LookRaw(key, hash);
  if (log_.blocked()) [[unlikely]]
    return Blocked();
  const std::uint64_t expiry_ms = log_.ExpiryOf(*found.record);
  outcome.result = expiry_ms == 0 ? kTtlNone : expiry_ms - now_ms;
  return outcome;
}

bool HashStore::BadPut(Bytes key, std::uint64_t value_bytes, std::uint8_t value_flags) const {
  return key.size() > key_bytes_max_ || value_bytes > limits::kValueBytesMax ||
         (value_flags & ~kCounterFlags) != 0 || value_flags == kCounterFlags ||
         (value_flags != 0 && value_bytes != 8);
}

bool HashStore::ConditionHolds(const PutOptions& options, Found found, HashOutcome& outcome) {
  const bool present = found.slot != nullptr;
  if (present) outcome.version = Lsn(found.record->lsn);
  switch (options.condition) {
    case PutCondition::kAlways:
      break;
    case PutCondition::kIfAbsent:
      if (present) outcome.code = StatusCode::kAlreadyExists;
      break;
    case PutCondition::kIfPresent:
      if (!present) outcome.code = StatusCode::kNotFound;
      break;
    case PutCondition::kIfVersion:
      if (!present) {
        outcome.code = StatusCode::kNotFound;
      } else if (outcome.version != options.if_version) {
        outcome.code = StatusCode::kFailedPrecondition;
      }
      break;
  }
  return outcome.code == StatusCode::kOk;
}

std::uint64_t HashStore::ExpiryAt(std::uint64_t ttl_ms, Found found, std::uint64_t now_ms) const {
  if (ttl_ms == kTtlNone) return 0;
  if (ttl_ms == kTtlKeep && found.slot != nullptr) return log_.ExpiryOf(*found.record);
  if (ttl_ms == kTtlDefault || ttl_ms == kTtlKeep) ttl_ms = partition_.options().ttl_ms;
  if (ttl_ms == 0) return 0;
  // A time to live beyond the end of time is no limit.
  return now_ms + ttl_ms < now_ms ? 0 : now_ms + ttl_ms;
}

HashOutcome HashStore::Put(Bytes key, std::uint64_t hash, Bytes value, const PutOptions& options,
                           std::uint64_t now_ms) {
  HashOutcome refused;
  if (BadPut(key, value.size(), options.value_flags)) {
    refused.code = StatusCode::kInvalidArgument;
    return refused;
  }
  if (value.size() > log_.extent_threshold_bytes()) {
    ValueWriter writer(&log_, value.size());
    refused.code = writer.Write(0, value);
    if (refused.code != StatusCode::kOk) return refused;
    return Put(key, hash, writer, options, now_ms);
  }
  const auto decide = [&](Found found, LogRecord& change, HashOutcome& outcome) {
    if (!ConditionHolds(options, found, outcome)) return false;
    if (options.condition == PutCondition::kIfAbsent && HeldBack(found, hash)) return false;
    outcome.previous = outcome.version.value();
    change.value = value;
    change.value_bytes = value.size();
    change.value_flags = options.value_flags;
    change.expiry_ms = ExpiryAt(options.ttl_ms, found, now_ms);
    return true;
  };
  return Change(key, hash, now_ms, decide, options.condition == PutCondition::kAlways);
}

HashOutcome HashStore::Put(Bytes key, std::uint64_t hash, ValueWriter& value,
                           const PutOptions& options, std::uint64_t now_ms) {
  HashOutcome outcome;
  if (BadPut(key, value.value_bytes(), options.value_flags) || !value.Complete()) {
    outcome.code = StatusCode::kInvalidArgument;
    return outcome;
  }
  const ReservationScope scope = value.UseReservation();
  bool held_back = false;
  const auto decide = [&](Found found, LogRecord& change, HashOutcome& out) {
    if (!ConditionHolds(options, found, out)) return false;
    held_back = options.condition == PutCondition::kIfAbsent && HeldBack(found, hash);
    if (held_back) return false;
    out.previous = out.version.value();
    change.value = value.Staged();
    change.extent_segments = value.segments_;
    change.value_bytes = value.value_bytes();
    change.value_flags = options.value_flags;
    change.expiry_ms = ExpiryAt(options.ttl_ms, found, now_ms);
    return true;
  };
  outcome = Change(key, hash, now_ms, decide, options.condition == PutCondition::kAlways);
  if (outcome.code == StatusCode::kOk) {
    if (!held_back) value.segments_.clear();  // They are the record's now.
    value.Release();
  }
  return outcome;
}

bool HashStore::Import(Bytes key, std::uint64_t hash, ValueWriter& value, std::uint8_t value_flags,
                       std::uint64_t expiry_ms, Lsn version) {
  TP_CHECK(value.Complete());
  const ReservationScope scope = value.UseReservation();
  LogRecord change;
  change.partition = partition_.id();
  change.lsn = version;
  change.value_flags = value_flags;
  change.key = key;
  change.hash = hash;
  change.value = value.Staged();
  change.extent_segments = value.segments_;
  change.value_bytes = value.value_bytes();
  change.expiry_ms = expiry_ms;
  if (partition_.Apply(change).value() == 0) return false;
  value.segments_.clear();  // They are the record's now.
  value.Release();
  return true;
}

HashOutcome HashStore::Delete(Bytes key, std::uint64_t hash, Lsn if_version, std::uint64_t now_ms) {
  return DeleteFound(key, hash, if_version, false, now_ms);
}

HashOutcome HashStore::Take(Bytes key, std::uint64_t hash, std::uint64_t now_ms) {
  return DeleteFound(key, hash, Lsn(), true, now_ms);
}

HashOutcome HashStore::DeleteFound(Bytes key, std::uint64_t hash, Lsn if_version, bool take,
                                   std::uint64_t now_ms) {
  Lsn deleted;
  const auto decide = [&](Found found, LogRecord& change, HashOutcome& out) {
    if (found.slot == nullptr) {
      out.code = StatusCode::kNotFound;
      return false;
    }
    deleted = Lsn(found.record->lsn);
    if (if_version.value() != 0 && if_version != deleted) {
      out.code = StatusCode::kFailedPrecondition;
      out.version = deleted;
      return false;
    }
    // The bytes of a dead record stay until the next change, so the view outlives the deletion.
    if (take) SetValue(*found.record, found.location(), out);
    change.type = LogRecordType::kDelete;
    return true;
  };
  const bool blind = !take && if_version.value() == 0;
  HashOutcome outcome = Change(key, hash, now_ms, decide, blind);
  if (outcome.code == StatusCode::kOk) outcome.version = deleted;
  return outcome;
}

Room HashStore::MakeRoom(const LogRecord& change, Found found) {
  if (change.type != LogRecordType::kPut) {
    if (found.slot == nullptr || !partition_.options().tombstones) return Room::kReady;
    return log_.MakeRoom(stream_, log_.BytesFor(change), MemoryClass::kReserve);
  }
  if (CanUpdateInPlace(change, found)) return Room::kReady;
  if (found.slot == nullptr && !MakeIndexRoom(change)) {
    // Compaction may give back a block that the index can take.
    if (log_.reclaiming()) return Room::kNone;
    return log_.Reclaim() && MakeIndexRoom(change) ? Room::kMoved : Room::kNone;
  }
  if (IsDurable(stream_) && !log_.MakeExtentDurable(change.extent_segments)) return Room::kNone;
  return log_.MakeRoom(StreamOf(change), log_.BytesFor(change), MemoryClass::kUser);
}

bool HashStore::HeldBack(Found found, std::uint64_t hash) {
  // A stuck record is refused for memory in any case.
  if (admission_ == nullptr || found.record != nullptr || admission_->Sight(hash)) return false;
  partition_.CountChange();  // A partition with sightings has something to lose.
  return true;
}

// False: part of it must be fetched first, with the records behind it.
bool HashStore::AddChainAgain(std::uint64_t bucket) {
  bool complete = true;
  index_.VisitChain(bucket,
                    [&](std::uint64_t at) { complete = log_.Look(at) != nullptr && complete; });
  if (complete) {
    index_.VisitChain(bucket, [&](std::uint64_t at) {
      std::uint64_t hash = 0;
      TP_CHECK(HashAt(at, &hash));
      absent_->AddAgain(hash);
    });
    return true;
  }
  while (++bucket < index_.bucket_count() && log_.MayWantMore()) {
    index_.VisitChain(bucket, [this](std::uint64_t at) { log_.WantAhead(at); });
  }
  return false;
}

bool HashStore::PrefilterSlice(absl::FunctionRef<bool()> done) {
  if (admission_ != nullptr) return admission_->GrowSlice(done);
  if (absent_ == nullptr) return false;
  if (!absent_->rebuilding() && !absent_->BeginRebuild(size())) return absent_->FreeReplaced(done);
  if (absent_->TouchNext(done)) return true;
  // A split moves keys to the end, behind the walk, so each one that stays is met at least once.
  for (std::uint64_t& bucket = *absent_->walk_bucket(); bucket < index_.bucket_count(); ++bucket) {
    if (done()) return true;
    if (!AddChainAgain(bucket)) return true;
  }
  absent_->FinishRebuild();
  return absent_->FreeReplaced(done);
}

bool HashStore::CanUpdateInPlace(const LogRecord& change, Found found) const {
  if (found.slot == nullptr || change.value_bytes > limits::kInPlaceValueBytesMax ||
      found.record->type != RecordType::kPut || !partition_.options().update_in_place) {
    return false;
  }
  const std::uint8_t flags = Log::FlagsOf(change);
  constexpr std::uint8_t kShape = kRecordExpiry | kRecordClient;
  // The record must keep its size, so that the segment can be walked while it changes.
  return (flags & kShape) == (found.record->flags & kShape) &&
         RecordBytes(found.record->key_bytes, change.value_bytes, flags) ==
             log_.BytesOf(*found.record) &&
         log_.IsChangeable(found.location());
}

void HashStore::UpdateInPlace(const LogRecord& change, Found found, Lsn lsn) {
  RecordHeader& record = *found.record;
  const std::atomic_ref<std::uint32_t> sequence(record.sequence);
  const std::uint32_t even = record.sequence;
  TP_DCHECK(even % 2 == 0);
  sequence.store(even + 1, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_release);
  std::byte* value = reinterpret_cast<std::byte*>(&record + 1) + record.key_bytes;
  // An append hands the present value back as the first piece.
  if (!change.value.empty()) std::memmove(value, change.value.data(), change.value.size());
  if (!change.value_tail.empty()) {
    std::memcpy(value + change.value.size(), change.value_tail.data(), change.value_tail.size());
  }
  record.lsn = lsn.value();
  record.value_bytes = static_cast<std::uint32_t>(change.value_bytes);
  record.flags = Log::FlagsOf(change);
  if (change.expiry_ms != 0) {
    StoreUnaligned(reinterpret_cast<std::byte*>(&record) + log_.ExpiryOffset(record),
                   change.expiry_ms);
    log_.NoteExpiry(found.location(), change.expiry_ms);
  }
  sequence.store(even + 2, std::memory_order_release);
}

void HashStore::ApplyPut(const LogRecord& change, Found found, Lsn lsn) {
  if (found.slot != nullptr) payload_bytes_ -= PayloadOf(*found.record);
  payload_bytes_ += change.key.size() + change.value_bytes;
  if (CanUpdateInPlace(change, found)) {
    UpdateInPlace(change, found, lsn);
    return;
  }
  const bool extent = !change.extent_segments.empty();
  const std::uint64_t location = log_.Append(
      StreamOf(change), change, extent ? RecordType::kPutExtent : RecordType::kPut, lsn);
  const bool expires = change.expiry_ms != 0;
  if (found.slot == nullptr) {
    index_.Insert(change.hash, location, Reader());
    if (absent_ != nullptr) absent_->NoteAdded(change.hash);
    if (order_ != nullptr) order_->Insert(change.key, location, expires);
  } else {
    const std::uint64_t replaced = found.location();
    TagIndex::Replace(found.slot, location);
    if (order_ != nullptr) order_->Replace(change.key, location, expires);
    KillRecord(replaced, change.extent_segments);
  }
  if (extent) log_.AdoptExtent(change.extent_segments, change.value_bytes, stream_);
}

void HashStore::ApplyDelete(const LogRecord& change, Found found, Lsn lsn) {
  if (found.slot == nullptr) return;
  payload_bytes_ -= PayloadOf(*found.record);
  if (partition_.options().tombstones) {
    log_.Append(stream_, change, RecordType::kTombstone, lsn);
  }
  const std::uint64_t deleted = found.location();
  index_.Erase(found.slot);
  if (absent_ != nullptr) absent_->NoteRemoved();
  if (order_ != nullptr) order_->Erase(change.key);
  KillRecord(deleted, {});
}

bool HashStore::Adopt(const AdoptedRecord& record) {
  if (!index_.MakeRoom(record.hash)) return false;
  if (order_ != nullptr && !order_->MakeRoom(record.key)) return false;
  index_.Insert(record.hash, record.location, Reader());
  if (absent_ != nullptr) absent_->NoteAdded(record.hash);
  if (order_ != nullptr) order_->Insert(record.key, record.location, record.expires);
  payload_bytes_ += record.payload_bytes;
  return true;
}

bool HashStore::FreeSlice(std::uint64_t* bucket, absl::FunctionRef<bool()> done) {
  if (absent_ != nullptr && absent_->FreeSlice(done)) return true;
  if (admission_ != nullptr && admission_->FreeSlice(done)) return true;
  for (; *bucket < index_.bucket_count(); ++*bucket) {
    if (done()) return true;
    index_.VisitChain(*bucket, [this](std::uint64_t location) { KillRecord(location, {}); });
    index_.ClearChain(*bucket);
  }
  return false;
}

IndexUsage HashStore::index_usage() const {
  std::uint64_t filters = 0;
  if (absent_ != nullptr) filters += absent_->allocated_bytes();
  if (admission_ != nullptr) filters += admission_->allocated_bytes();
  return {index_.bytes() + filters, index_.allocated_bytes() + filters, index_.rebuilt_buckets()};
}

std::uint64_t* HashStore::FindSlot(const RecordHeader& record, std::uint64_t location) {
  return index_.Find(KeyHash(Log::KeyOf(record)), [this, location](std::uint64_t at) {
    if (at == location) return true;
    const RecordHeader* present = locator_.Find(at);
    return present != nullptr && IsCopy(*present) && HomeOf(*present) == location;
  });
}

void HashStore::Refer(std::uint64_t* slot, const RecordHeader& record, std::uint64_t moved) {
  TagIndex::Replace(slot, moved);
  if (order_ != nullptr) {
    order_->Replace(Log::KeyOf(record), moved, (record.flags & kRecordExpiry) != 0);
  }
}

void HashStore::Relocate(std::uint64_t* slot, const RecordHeader& record, std::uint64_t moved) {
  const std::uint64_t present = SlotLocation(*slot);
  Refer(slot, record, moved);
  // A copy of what is in DRAM again has done its service.
  if (locator_.Find(present) != &record) log_.DropCopy(present);
}

void HashStore::Discard(std::uint64_t* slot, std::uint64_t /*location*/) {
  const std::uint64_t present = SlotLocation(*slot);
  index_.Erase(slot);
  KillRecord(present, {});
}

bool HashStore::IndexSlice(absl::FunctionRef<bool()> done) {
  if (expected_records_ > 0) {
    if (index_.GrowSlice(expected_records_, Reader(), done)) return true;
    expected_records_ = 0;
  }
  if (index_.RebuildDue() &&
      index_.RebuildSlice(
          [this](std::uint64_t at, std::uint64_t* hash) { return FetchHashAt(at, hash); }, done)) {
    return true;
  }
  return PrefilterSlice(done);
}

void HashStore::CheckInvariants() const {
  index_.CheckInvariants(Reader());
  if (admission_ != nullptr) admission_->CheckInvariants();
  if (absent_ == nullptr) return;
  absent_->CheckInvariants();
  if (absent_->filter().allocated_bytes() != absent_->filter().shape().bytes()) return;  // Dropped.
  VisitRecords([this](std::uint64_t at) {
    std::uint64_t hash = 0;
    if (HashAt(at, &hash)) TP_CHECK(absent_->MayContain(hash));
  });
}

void HashStore::VisitRecords(absl::FunctionRef<void(std::uint64_t)> visit) const {
  for (std::uint64_t bucket = 0; bucket < index_.bucket_count(); ++bucket) {
    index_.VisitChain(bucket, visit);
  }
}

}  // namespace tidepool::storage
