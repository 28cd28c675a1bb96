// Operations of a hash partition.
//
// daemon's handlers -> partition -> [HashStore]: look up in the tag index, decide, make a
// LogRecord, and hand it to Partition::Apply.
#pragma once

#include <absl/functional/function_ref.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "proto/base/bytes.h"
#include "proto/base/ids.h"
#include "proto/base/limits.h"
#include "proto/base/status.h"
#include "storage/layout.h"
#include "storage/log.h"
#include "storage/log_record.h"
#include "storage/prefilter.h"
#include "storage/store.h"
#include "storage/tag_index.h"
#include "storage/tree_index.h"
#include "storage/value_io.h"

namespace tidepool::storage {

class Partition;

// Time to live of a write, in ms.
inline constexpr std::uint64_t kTtlDefault = 0;   // The namespace's default.
inline constexpr std::uint64_t kTtlNone = ~0ull;  // Never expires.
inline constexpr std::uint64_t kTtlKeep =
    ~0ull - 1;  // As the record that it replaces, else the default.

enum class PutCondition : std::uint8_t { kAlways, kIfAbsent, kIfPresent, kIfVersion };

struct PutOptions {
  PutCondition condition = PutCondition::kAlways;
  std::uint8_t value_flags = 0;  // kRecordI64 or kRecordF64 with a value of 8 bytes; else 0.
  Lsn if_version;                // For kIfVersion.
  std::uint64_t ttl_ms = kTtlDefault;
};

enum class UpdateKind : std::uint8_t { kAdd, kAnd, kOr, kXor, kMin, kMax };
enum class CounterType : std::uint8_t { kI64, kF64 };

// Outcome of an operation. Expected outcomes carry no text: the daemon makes it.
struct HashOutcome : StoredValue {
  StatusCode code = StatusCode::kOk;
  std::uint8_t value_flags = 0;  // kCounterFlags of `value`.
  // Version of the record as it is now; of the deleted record after Delete and Take; 0: no record.
  Lsn version;
  // FetchUpdate: the 8 bytes before and after. Put: previous = the replaced version, 0: no record.
  std::uint64_t previous = 0;
  std::uint64_t result = 0;
};

// Decision about a record by the caller of HashStore::Update. The value is read before the store
// changes, so it may be a view of the present value.
struct UpdateDecision {
  enum class What : std::uint8_t { kKeep, kStore, kDelete };
  What what = What::kKeep;
  Bytes value;  // For kStore: at most the extent threshold (1 MiB).
  std::uint8_t value_flags = 0;
};

struct RecordView {
  Bytes key;
  Bytes value;
  const Extent* extent = nullptr;
  std::uint64_t value_bytes = 0;
  Lsn version;
  std::uint8_t value_flags = 0;
  std::uint64_t expiry_ms = 0;  // 0: never.
  std::uint64_t location = 0;
};

struct IterateResult {
  std::uint64_t cursor = 0;   // Continuation; meaningless when done.
  std::uint64_t records = 0;  // Accepted by the visitor, and passed by the cursor.
  // Unreadable records on a device that the cursor passed. Records that come with a cursor in the
  // middle of their bucket were counted before.
  std::uint64_t unreadable = 0;
  bool done = false;
};

// Owner core only, no locks. Views of keys and values need to live only for the call, and must not
// point into the store unless stated. `hash` is KeyHash(key); `now_ms` is wall time that never goes
// back (CoreStore::NowMs).
//
// An expired record is absent to every operation, and its removal goes through Partition::Apply
// before the answer. Codes are listed per operation. kResourceExhausted always means: nothing
// changed, and reads, deletes and in-place updates still work. If Log::blocked() is true after an
// operation, it met a record that must be fetched first: it changed nothing, and its outcome is
// void. Bounds: keys up to 16,384 bytes and values up to 1 GiB, otherwise kInvalidArgument.
// Without growth an operation costs two cache misses (bucket, record); an insert splits at most
// one bucket.
class HashStore : public Store {
 public:
  // Stages of a batch: hash all keys, prefetch all buckets, prefetch all records, apply. About 16
  // keys per stage hide the memory; more than 64 push each other out.
  void PrefetchBucket(std::uint64_t hash) const {
    index_.PrefetchBucket(hash);
    if (absent_ != nullptr) absent_->Prefetch(hash);
    if (admission_ != nullptr) admission_->Prefetch(hash);
  }
  void PrefetchRecord(std::uint64_t hash) const;

  // Returns: kOk with value, version, flags; kNotFound.
  HashOutcome Get(Bytes key, std::uint64_t hash, std::uint64_t now_ms);
  // As Get, without a view of the value.
  HashOutcome Contains(Bytes key, std::uint64_t hash, std::uint64_t now_ms);
  // Returns: kOk with result = ms left, or kTtlNone; kNotFound.
  HashOutcome Ttl(Bytes key, std::uint64_t hash, std::uint64_t now_ms);

  // Returns: kOk with version and previous; kAlreadyExists (if absent), kNotFound (if present, if
  // version), kFailedPrecondition (if version: `version` is the present one), kInvalidArgument,
  // kResourceExhausted. With an admission filter a put if absent of a key that was never sighted
  // stores nothing: kOk without a version.
  HashOutcome Put(Bytes key, std::uint64_t hash, Bytes value, const PutOptions& options,
                  std::uint64_t now_ms);
  // Stores a value that was written ahead. After kOk the writer is empty, otherwise untouched.
  HashOutcome Put(Bytes key, std::uint64_t hash, ValueWriter& value, const PutOptions& options,
                  std::uint64_t now_ms);

  // Stores a record of another core's store: it keeps its version and expiry. For a frozen
  // partition. False: no memory, no change; true: the writer is empty.
  bool Import(Bytes key, std::uint64_t hash, ValueWriter& value, std::uint8_t value_flags,
              std::uint64_t expiry_ms, Lsn version);

  // Recovery: adds a record at the place where an earlier incarnation wrote it. Its key must be
  // absent; the record need not be in DRAM.
  struct AdoptedRecord {
    std::uint64_t hash = 0;
    std::uint64_t location = 0;
    std::uint64_t payload_bytes = 0;  // Key and value.
    Bytes key;                        // For an ordered partition.
    bool expires = false;
  };
  // False: no memory for the index.
  bool Adopt(const AdoptedRecord& record);

  // Returns: kOk, kNotFound, kFailedPrecondition (`if_version` is not 0 and differs). Works on a
  // full store.
  HashOutcome Delete(Bytes key, std::uint64_t hash, Lsn if_version, std::uint64_t now_ms);
  // As Delete; the value's view is as valid as that of Get.
  HashOutcome Take(Bytes key, std::uint64_t hash, std::uint64_t now_ms);

  // Changes a counter of the given type by `operand` (the bits of an int64 or a double). An absent
  // counter counts as 0 and is created, or refused if `if_present`. Returns: kOk with previous and
  // result; kNotFound (if present), kInvalidArgument (not a counter of this type; and/or/xor of a
  // double), kOutOfRange (add overflows an int64: unchanged), kResourceExhausted. With an admission
  // filter the first update of a never sighted key stores nothing: kOk, previous 0, no version.
  HashOutcome FetchUpdate(Bytes key, std::uint64_t hash, UpdateKind kind, CounterType type,
                          std::uint64_t operand, std::uint64_t now_ms, bool if_present = false);
  // Replaces the value if it equals `expected`; keeps the expiry, and the counter flag of 8 bytes.
  // Returns: kOk, kNotFound, kFailedPrecondition (with the present value), kInvalidArgument,
  // kResourceExhausted.
  HashOutcome CompareAndSwap(Bytes key, std::uint64_t hash, Bytes expected, Bytes desired,
                             std::uint64_t now_ms);
  // Appends to the value, which is created if absent; keeps the expiry, clears counter flags.
  // Returns: kOk with value_bytes, kOutOfRange (above 1 GiB), kInvalidArgument, kResourceExhausted.
  HashOutcome Append(Bytes key, std::uint64_t hash, Bytes suffix, std::uint64_t now_ms);
  // Lets `decide` choose the change from the present record (as Get answers; kNotFound:
  // absent). It may be called more than once: the last call counts. Keeps the expiry. Returns:
  // kOk with the version of the resulting record (0: no record), kInvalidArgument,
  // kResourceExhausted.
  HashOutcome Update(Bytes key, std::uint64_t hash,
                     absl::FunctionRef<UpdateDecision(const HashOutcome& present)> decide,
                     std::uint64_t now_ms);
  // Sets or (kTtlNone) removes the expiry. Returns: kOk, kNotFound, kResourceExhausted.
  HashOutcome Expire(Bytes key, std::uint64_t hash, std::uint64_t ttl_ms, std::uint64_t now_ms);

  // Store
  bool valid() const override { return index_.valid() && prefilter_made_; }
  std::uint64_t size() const override { return index_.size(); }
  std::uint64_t payload_bytes() const override { return payload_bytes_; }
  IndexUsage index_usage() const override;
  Lsn Apply(const LogRecord& record) override;
  std::uint64_t* FindSlot(const RecordHeader& record, std::uint64_t location) override;
  void Relocate(std::uint64_t* slot, const RecordHeader& record, std::uint64_t moved) override;
  void Discard(std::uint64_t* slot, std::uint64_t location) override;
  bool HasKey(Bytes key) override;  // Expired or not.
  bool IndexSlice(absl::FunctionRef<bool()> done) override;
  bool FreeSlice(std::uint64_t* bucket, absl::FunctionRef<bool()> done) override;
  void CheckInvariants() const override;
  void VisitRecords(absl::FunctionRef<void(std::uint64_t)> visit) const override;

  // Before the value of a view is pinned: false, if it must be fetched first (Log::blocked).
  bool IsReadable(const RecordView& view) {
    return view.extent == nullptr || log_.LookExtent(view.location, *log_.Peek(view.location));
  }

  // Looks the key up like an operation, so that its record is wanted (Log::blocked) before the
  // first change.
  void Touch(Bytes key, std::uint64_t hash);
  // Wants the record of a coming operation while another operation is blocked, to read both
  // together as far as useful. Without the segments of a large value.
  void TouchAhead(std::uint64_t hash);

  // Visits records in the order of their bit-reversed hash from `cursor` on (0: the beginning)
  // until `records_max` were accepted or the visitor refuses a record by returning false. A key
  // that is present from the first to the last call of an iteration is visited exactly once however
  // the index grows; a key that comes or goes meanwhile at most once per life. Keys of the same
  // 64-bit hash are accepted or refused together: discard records accepted beyond `records`, they
  // come again. `records_max` may be exceeded by these keys. The visitor must not call the store.
  IterateResult Iterate(std::uint64_t cursor, std::uint64_t records_max, std::uint64_t now_ms,
                        absl::FunctionRef<bool(const RecordView&)> visitor);

  const TagIndex& index() const { return index_; }
  // Null: the partition has no such filter.
  const AbsentFilter* absent_filter() const { return absent_.get(); }
  const AdmissionFilter* admission_filter() const { return admission_.get(); }
  // The key of the record at a location that index() has given.
  Bytes KeyAt(std::uint64_t location) const { return Log::KeyOf(*log_.At(location)); }

 protected:
  HashStore(Partition& partition, Log& log, CoreMemory& memory, const TagIndexOptions& options);

  // From now on `order` leads to every record too, in the order of keys. Before the first record.
  void KeepOrder(TreeIndex* order, std::size_t key_bytes_max) {
    order_ = order;
    key_bytes_max_ = key_bytes_max;
  }
  RecordView ViewOf(std::uint64_t location);

 private:
  friend class Partition;

  // A looked-up key. Two words, passed by value: it stays in registers (through memory it was
  // stored in halves and loaded whole, which the processor cannot forward: 15 ns per operation).
  struct Found {
    std::uint64_t* slot = nullptr;   // Null: absent.
    RecordHeader* record = nullptr;  // Null if absent, but see stuck().

    std::uint64_t location() const { return SlotLocation(*slot); }
    // Expired, but a tombstone for it found no memory: absent to readers, and not writable.
    bool stuck() const { return slot == nullptr && record != nullptr; }
  };

  static std::uint64_t PayloadOf(const RecordHeader& record) {
    return std::uint64_t{record.key_bytes} + record.value_bytes;
  }
  Found LookRaw(Bytes key, std::uint64_t hash);
  // Removes the record first if it has expired.
  Found Look(Bytes key, std::uint64_t hash, std::uint64_t now_ms);
  Found LookExpiring(Found found, Bytes key, std::uint64_t hash, std::uint64_t now_ms);

  // The frame of every write: look up, decide(found, change, outcome) -> false if the outcome
  // stands without a change, make room, apply. Decides again when making room has moved records.
  // `blind`: the caller does not use the present value, so it need not be readable.
  template <typename Decide>
  HashOutcome Change(Bytes key, std::uint64_t hash, std::uint64_t now_ms, Decide&& decide,
                     bool blind = false);
  // Returns the unreadable record that a look-up of this key has met.
  Found FindUnreadable(Bytes key, std::uint64_t hash);
  // Outcome of an operation that met a record which must be fetched.
  static HashOutcome Blocked() {
    HashOutcome outcome;
    outcome.code = StatusCode::kUnavailable;
    return outcome;
  }
  Room MakeRoom(const LogRecord& change, Found found);
  bool MakeIndexRoom(const LogRecord& change) {
    return index_.MakeRoom(change.hash) && (order_ == nullptr || order_->MakeRoom(change.key));
  }
  bool CanUpdateInPlace(const LogRecord& change, Found found) const;
  // Returns whether the record stays absent because its key is sighted for the first time.
  bool HeldBack(Found found, std::uint64_t hash);
  // Returns whether the prefilter excludes the key, which spares the look-up.
  bool SurelyAbsent(std::uint64_t hash) const {
    return absent_ != nullptr && !absent_->MayContain(hash);
  }
  bool PrefilterSlice(absl::FunctionRef<bool()> done);
  bool AddChainAgain(std::uint64_t bucket);
  // False, with the code set, if the condition does not hold.
  static bool ConditionHolds(const PutOptions& options, Found found, HashOutcome& outcome);
  bool BadPut(Bytes key, std::uint64_t value_bytes, std::uint8_t value_flags) const;
  // All of a large value must be in DRAM: otherwise it is wanted, and the outcome is not set.
  void SetValue(const RecordHeader& record, std::uint64_t location, HashOutcome& outcome);
  // An unread value need not be in DRAM.
  void SetView(const RecordHeader& record, std::uint64_t location, HashOutcome& outcome);
  void SetExtent(std::uint64_t location, const RecordHeader& record, HashOutcome& outcome);
  void NoteRead(Found found);
  std::uint64_t ExpiryAt(std::uint64_t ttl_ms, Found found, std::uint64_t now_ms) const;
  // The present value as the value of `change`; of an extent with its segments.
  void TakeOverValue(Found found, LogRecord& change);
  HashOutcome AppendLarge(Bytes key, std::uint64_t hash, Bytes suffix, std::uint64_t now_ms);
  HashOutcome DeleteFound(Bytes key, std::uint64_t hash, Lsn if_version, bool take,
                          std::uint64_t now_ms);
  // False: some of it must be fetched first.
  bool CollectChain(std::uint64_t bucket, std::uint64_t cursor, std::uint64_t now_ms,
                    std::uint64_t* unreadable);
  bool BeginsBucket(std::uint64_t position) const;
  void WantAhead(std::uint64_t position);

  // Decided, looked up, and room is made: gives it its version and applies it.
  Lsn ApplyFound(LogRecord& change, Found found);
  // The only places that change index and log.
  void ApplyPut(const LogRecord& change, Found found, Lsn lsn);
  void ApplyDelete(const LogRecord& change, Found found, Lsn lsn);
  void UpdateInPlace(const LogRecord& change, Found found, Lsn lsn);

  bool HashAt(std::uint64_t location, std::uint64_t* hash) const;  // A TagIndex::HashReader.
  bool FetchHashAt(std::uint64_t location, std::uint64_t* hash);   // As HashAt; else it is wanted.
  auto Reader() const {
    return [this](std::uint64_t at, std::uint64_t* hash) { return HashAt(at, hash); };
  }
  // Index and order refer to the record at `moved` from now on.
  void Refer(std::uint64_t* slot, const RecordHeader& record, std::uint64_t moved);
  Stream StreamOf(const LogRecord& change) const {
    const bool stays = order_ != nullptr && change.key.size() > order_->whole_key_bytes_max();
    return stays ? Stream::kVolatile : stream_;
  }

  Partition& partition_;
  const SegmentTable::Locator locator_;
  // Records of keys that an order reads in DRAM stay there.
  Stream stream_ = Stream::kVolatile;
  TagIndex index_;
  std::uint64_t expected_records_;  // The index is still to be prepared for these.
  TreeIndex* order_ = nullptr;      // For an ordered partition: refers to the same records.
  std::size_t key_bytes_max_ = limits::kKeyBytesMax;
  // At most one of them.
  std::unique_ptr<AbsentFilter> absent_;
  std::unique_ptr<AdmissionFilter> admission_;
  bool prefilter_made_ = true;  // Or not wanted.
  std::uint64_t payload_bytes_ = 0;
  RecordHeader unreadable_{};                   // Target of Found::record if unreadable.
  Extent extent_;                               // Target of HashOutcome::extent.
  std::vector<std::uint32_t> extent_segments_;  // Target of extent_.segments.
  struct Visit {
    std::uint64_t position;
    std::uint64_t location;
  };
  std::vector<Visit> visits_;  // Visits of a chain, in order of position.
};

}  // namespace tidepool::storage
