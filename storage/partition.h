// A partition as its owner core holds it: identity, term, versions, guard word and store.
//
// daemon's dispatcher (term, owner) -> [Partition] -> its kind's store -> index and log.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proto/base/check.h"
#include "proto/base/filter_shape.h"
#include "proto/base/ids.h"
#include "proto/base/kind.h"
#include "proto/base/limits.h"
#include "storage/bloom_store.h"
#include "storage/hash_store.h"
#include "storage/log_record.h"
#include "storage/ordered_store.h"
#include "storage/prefilter.h"
#include "storage/queue_store.h"
#include "storage/store.h"

namespace tidepool::storage {

class CommitRing;

// Kinds with the operations of HashStore.
inline constexpr KindMask kRecordKinds = MaskOf(Kind::kHash) | MaskOf(Kind::kOrdered);
// Kinds with the operations of QueueStore.
inline constexpr KindMask kItemKinds = MaskOf(Kind::kQueue) | MaskOf(Kind::kPriority);

// Data of a partition that survives the end of its daemon, for whatever cause.
enum class Durability : std::uint8_t {
  kVolatile = 0,  // No data.
  kAsync = 1,     // The state of the last checkpoint: at most some intervals ago.
  kSync = 2,      // Every answered operation.
};

struct PartitionOptions {
  Kind kind = Kind::kHash;
  // All but kVolatile need a volume.
  Durability durability = Durability::kVolatile;
  std::uint64_t ttl_ms = 0;           // Default time to live of the namespace; 0 is none.
  std::uint32_t partition_count = 1;  // Total of the namespace, for checks of placement.
  // Other nodes hold copies. Answers wait for the copies, so direct readers may not look.
  bool has_replicas = false;
  // Values of at most 256 bytes are overwritten in place. Only for volatile namespaces: a record
  // that a checkpoint may need never changes.
  bool update_in_place = true;
  // Deletes append a tombstone. Volatile namespaces replay no log and need no tombstones; durable
  // namespaces always have them.
  bool tombstones = false;
  // kRecordKinds: the index is prepared for this many records, in the background. 0: not prepared.
  std::uint64_t expected_records = 0;
  FilterShape filter;          // For Kind::kBloom.
  PrefilterOptions prefilter;  // For kRecordKinds.
  QueueOptions queue;          // For kItemKinds.
};

// Range of keys of an ordered namespace that belongs to a partition.
struct KeyBounds {
  std::string begin;
  std::optional<std::string> end;  // None: to the last key.

  bool Holds(Bytes key) const {
    return AsText(key) >= begin && (!end.has_value() || AsText(key) < *end);
  }
};

// Owner core only. Made and destroyed by CoreStore.
//
// Invariants: LSNs grow strictly; every change passes Apply; the guard is open only while the
// partition serves, and each time under another serving_epoch.
class Partition {
 public:
  Partition(const Partition&) = delete;
  Partition& operator=(const Partition&) = delete;

  PartitionId id() const { return id_; }
  Term term() const { return term_; }
  const PartitionOptions& options() const { return options_; }
  Kind kind() const { return options_.kind; }
  bool is_durable() const { return options_.durability != Durability::kVolatile; }
  Store& store() { return *store_; }
  const Store& store() const { return *store_; }
  bool IsOneOf(KindMask kinds) const { return (MaskOf(options_.kind) & kinds) != 0; }
  // Prefetches in stages for a batch: memory that operations on this key touch first, and then.
  void PrefetchIndex(std::uint64_t key_hash) {
    if (IsOneOf(kRecordKinds)) [[likely]]
      hash().PrefetchBucket(key_hash);
    if (kind() == Kind::kBloom) bloom().Prefetch(key_hash);
  }
  void PrefetchRecord(std::uint64_t key_hash) {
    if (IsOneOf(kRecordKinds)) [[likely]]
      hash().PrefetchRecord(key_hash);
  }
  // Each only of a partition of its kind.
  HashStore& hash() { return As<HashStore>(kRecordKinds); }
  OrderedStore& ordered() { return As<OrderedStore>(MaskOf(Kind::kOrdered)); }
  BloomStore& bloom() { return As<BloomStore>(MaskOf(Kind::kBloom)); }
  QueueStore& queue() { return As<QueueStore>(kItemKinds); }
  // The version of the last change.
  Lsn last_lsn() const { return last_lsn_; }

  // Kind::kOrdered: its own range of keys. Another range comes with another term.
  const KeyBounds& bounds() const { return bounds_; }
  void SetBounds(KeyBounds bounds) { bounds_ = std::move(bounds); }
  // Approximate count of records beyond its bounds, which left it by a split and are not removed
  // yet. Only a count of the whole store ever meets them.
  bool has_moved_out() const { return moved_out_.has_value(); }
  void SetMovedOut(std::optional<std::uint64_t> records) { moved_out_ = records; }
  // Records within its bounds, including expired records that were not yet removed.
  std::uint64_t records() const {
    return store_->size() - std::min(moved_out_.value_or(0), store_->size());
  }
  // Operations so far, for measures of load.
  std::uint64_t operations() const { return operations_; }
  void CountOperations(std::uint64_t count) { operations_ += count; }
  // Operations that read records, and operations that had to wait for a device.
  std::uint64_t reads() const { return reads_; }
  std::uint64_t device_reads() const { return device_reads_; }
  void CountReads(std::uint64_t count) { reads_ += count; }
  void CountDeviceRead() { ++device_reads_; }
  class ResidenceWalk;  // Where its records are: residence.h.

  // Whether operations under this term may run now. Never while it is frozen.
  bool Serves(Term term) const { return serving_ == term; }

  // Goes on under a greater (or the same) term, thawed; the guard has changed before this returns.
  void SetTerm(Term term);
  // Blocks changes by clients until Thaw or SetTerm, so that the content can be copied in slices.
  // Expiry and compaction go on. Freezing twice is freezing once.
  void Freeze();
  void Thaw() { SetTerm(term_); }
  bool frozen() const { return serving_ == kNoTerm; }
  // The guard is changed for good: direct readers fail from now on. Before a move, a drop, or the
  // renewal of a lease that had run out. SetTerm opens it again, under another serving_epoch.
  void CloseGuard();
  // Direct readers wait while an atomic batch is applied. Nothing happens while the guard is gone.
  void SetBusy(bool busy);
  std::uint64_t guard() const;
  // Whether direct readers may look at it at all. Not where a change can be seen in memory before
  // it is durable or copied, nor where a read takes something.
  bool MayBeReadDirectly() const {
    return IsOneOf(kRecordKinds | MaskOf(Kind::kBloom)) &&
           options_.durability != Durability::kSync && !options_.has_replicas;
  }

  // The only door of changes. Gives the change its version unless it has a version, which must then
  // be greater than the last. Returns its version, or 0 when memory is used up and no change was
  // made (a delete without tombstones never needs memory). Observers have seen the change on
  // return.
  Lsn Apply(const LogRecord& record);

  // ---- For the store, around each change: its version and its observers.
  // Gives the change the next version unless it has one.
  void Stamp(LogRecord& change) {
    if (change.lsn.value() == 0) change.lsn = Lsn(last_lsn_.value() + 1);
    // Records copied into a frozen partition keep the versions of their earlier owner.
    TP_CHECK(change.lsn > last_lsn_ || frozen());
    last_lsn_ = std::max(last_lsn_, change.lsn);
    change.keyed = kind() != Kind::kHash;
  }
  void Publish(const LogRecord& change) {
    for (LogObserver* observer : observers_) observer->OnRecord(change);
    if (ring_ != nullptr) [[unlikely]]
      Commit(change);
  }
  // For recovery: the partition had versions up to `lsn`.
  void RaiseLsn(Lsn lsn) { last_lsn_ = std::max(last_lsn_, lsn); }
  // Durability::kSync: sets the ring for its changes from now on, which must outlive it. Earlier
  // changes there, such as the drop of an earlier partition of this id, become durable first.
  void UseRing(CommitRing* ring);
  // Where its last change stands there.
  std::uint64_t commit_position() const { return commit_position_; }
  // For stores whose changes are not records.
  void CountChange() { last_lsn_ = Lsn(last_lsn_.value() + 1); }
  void CountRefused() {
    ++refused_for_memory_;
    log_.NoteRefused();
  }

  // Observers see the changes after the present one, in the order of their addition. Not owned;
  // must outlive the partition or be removed.
  void AddObserver(LogObserver* observer);
  void RemoveObserver(LogObserver* observer);

  // Tombstones below this version are no longer needed; compaction may drop them.
  void DropTombstonesBelow(Lsn floor);
  Lsn tombstone_floor() const { return tombstone_floor_; }

 private:
  friend class CoreStore;
  void Commit(const LogRecord& change);
  Partition(PartitionId id, Term term, const PartitionOptions& options, Log& log,
            CoreMemory& memory, SharedRoot* root, TagIndexOptions index,
            const TreeIndexOptions& tree);
  void OpenGuard();

  template <typename OfKind>
  OfKind& As(KindMask kinds) {
    TP_DCHECK((MaskOf(options_.kind) & kinds) != 0);
    return static_cast<OfKind&>(*store_);
  }

  // No grant has it.
  static constexpr Term kNoTerm{~0u};
  static_assert(limits::kTermMax < kNoTerm.value());

  const PartitionId id_;
  Term term_;
  Term serving_;  // term_, or kNoTerm while frozen: a single compare.
  Lsn last_lsn_;
  KeyBounds bounds_;
  std::optional<std::uint64_t> moved_out_;
  std::uint64_t operations_ = 0;
  std::uint64_t reads_ = 0;
  std::uint64_t device_reads_ = 0;
  const PartitionOptions options_;
  SharedRoot* const root_;
  Lsn tombstone_floor_;
  std::vector<LogObserver*> observers_;
  CommitRing* ring_ = nullptr;
  std::uint64_t commit_position_ = 0;
  std::uint64_t refused_for_memory_ = 0;
  Log& log_;
  std::unique_ptr<Store> store_;
};

}  // namespace tidepool::storage
