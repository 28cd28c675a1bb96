// Data of an owner core: its memory, log and partitions, and the work behind the operations.
//
// daemon's core -> [CoreStore] -> Partition -> its kind's store -> index and log.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/functional/function_ref.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "proto/base/clock.h"
#include "proto/base/ids.h"
#include "proto/base/result.h"
#include "storage/arena.h"
#include "storage/compactor.h"
#include "storage/core_memory.h"
#include "storage/durable/checkpointer.h"
#include "storage/durable/commit_ring.h"
#include "storage/durable/recovery.h"
#include "storage/log.h"
#include "storage/partition.h"
#include "storage/spill/spiller.h"

namespace tidepool::storage {

struct CoreStoreOptions {
  CoreId core;
  // Volume for records that DRAM has no room for; null: no devices. Must outlive the store.
  Volume* volume = nullptr;
  // Blocks set aside for deletes, reads and compaction on a full store: two per used stream, and as
  // many again with a volume.
  std::uint64_t reserve_blocks = 4;
  // Buckets that a new partition starts with: rounded up to a power of two of at least 64, and down
  // when memory does not allow it. About 5 records per bucket.
  std::uint64_t buckets_initial = 64;
  // Segments examined per choice of a compaction victim, at least 1: bounds a step to some 10 us
  // for any store size. Tests only: fewer.
  std::uint32_t victim_sample_segments = 4096;
  // Durable partitions: longest time between a change and the checkpoint that covers
  // it.
  std::uint64_t checkpoint_interval_ms = 1000;
  // Tests only: smaller pages make deep trees of few keys.
  std::uint32_t tree_page_bytes = kPageBytes;
  // Tests only: fewer hash bits make keys collide.
  std::uint64_t hash_mask = ~0ull;
};

// In bytes. used = index + segments + tables + ready; used + reserve not in use <= limit / cores.
struct MemoryUsage {
  std::uint64_t index_bytes = 0;    // Buckets in use, overflow buckets included.
  std::uint64_t tables_bytes = 0;   // Other chunks: segment table, guards, values under way, slack.
  std::uint64_t segment_bytes = 0;  // Blocks of the log and of extents.
  std::uint64_t live_bytes = 0;     // Records and extents that an index refers to, in DRAM.
  std::uint64_t dead_bytes = 0;     // In segments: the gain of compaction.
  std::uint64_t tombstone_bytes = 0;     // Part of live_bytes.
  std::uint64_t ready_bytes = 0;         // Touched blocks kept at hand.
  std::uint64_t reserve_bytes = 0;       // Set aside for deletes and compaction.
  std::uint64_t used_bytes = 0;          // All blocks that this core holds.
  std::uint64_t limit_bytes = 0;         // Limit of the node, shared by its cores.
  std::uint64_t spilled_bytes = 0;       // Segments on devices; not part of used_bytes.
  std::uint64_t spilled_live_bytes = 0;  // Records on devices that an index refers to.
};

struct StoreCounters {
  std::uint64_t compacted_segments = 0;
  std::uint64_t relocated_bytes = 0;
  std::uint64_t expired_records = 0;
  std::uint64_t rebuilt_buckets = 0;
  std::uint64_t refused_for_memory = 0;
  std::uint64_t durable_bytes = 0;  // Changes of durable partitions, each counted once.
  SpillCounters spill;
  CheckpointCounters checkpoint;
  CommitCounters commit;
};

// Owner core only, except Create and the destructor, which may run on another thread before and
// after the core's life. The pool and the clock must outlive it; ValueReaders and ValueWriters must
// not.
class CoreStore final : private PartitionFinder, private CheckpointSource {
 public:
  // Creates the store. Errors: kResourceExhausted (the pool cannot promise the reserve),
  // kInvalidArgument, and as Device::OpenQueue.
  static Result<std::unique_ptr<CoreStore>> Create(const CoreStoreOptions& options, ArenaPool* pool,
                                                   const Clock* clock);
  ~CoreStore() override;
  CoreStore(const CoreStore&) = delete;
  CoreStore& operator=(const CoreStore&) = delete;

  CoreId core() const { return options_.core; }

  // Adds a partition, which lives until DropPartition. Errors: kAlreadyExists, kResourceExhausted,
  // kFailedPrecondition (durable without a volume; or kSync before a call of Recover),
  // kInvalidArgument (kSync with kind bloom).
  Result<Partition*> AddPartition(PartitionId id, Term term, const PartitionOptions& options);
  // Returns null if this core does not hold the partition. A single hash look-up.
  Partition* Find(PartitionId id) const {
    const auto found = partitions_.find(id.value());
    return found == partitions_.end() ? nullptr : found->second.get();
  }
  // Gone for every caller when this returns; its memory comes back in background slices. Unknown
  // ids are ignored.
  void DropPartition(PartitionId id);
  // A partition that is filled from elsewhere before this core serves it: Find does not know it. It
  // lives until DropIncoming or Adopt. Returns: kAlreadyExists (held or incoming),
  // kResourceExhausted, kFailedPrecondition (as AddPartition).
  Result<Partition*> AddIncoming(PartitionId id, Term term, const PartitionOptions& options);
  Partition* FindIncoming(PartitionId id) const;
  // As DropPartition.
  void DropIncoming(PartitionId id);
  // Holds an incoming partition from now on, under a term above its earlier term. Null: unknown.
  Partition* Adopt(PartitionId id, Term term);
  std::size_t partition_count() const { return partitions_.size(); }
  // Calls `visit(Partition&)` for each, in no order; it may neither add nor drop any.
  template <typename Visit>
  void ForEachPartition(Visit&& visit) {
    for (auto& [id, partition] : partitions_) visit(*partition);
  }

  // Runs a step of the work behind the operations, of about `budget_ns` (a few us may come on top):
  // freeing, expiry, compaction, tags, memory touched ahead. Ends the validity of views that
  // operations returned. True: more to do now.
  bool BackgroundSlice(std::uint64_t budget_ns);

  // ---- Records on a device.
  // True if the operation that has just ended met records on a device, or an unreadable record: it
  // changed nothing, and its outcome is void. Ask after each operation, and call Fetch or TakeLost
  // before the next operation.
  bool blocked() const { return log_.blocked(); }
  // kOk: the records can be fetched. kDataLoss, kDeviceError: a record is unreadable; unblocks.
  StatusCode TakeLost();
  // Begins an operation after others may have run with the same fetched records: records that they
  // used are not kept for it.
  void BeginRun() const { log_.BeginRun(); }
  // Discards the wanted records.
  void SkipWanted() { log_.Unblock(); }
  // Reads the wanted records. Poll calls `run` to repeat the operation, which finds the records
  // while `run` lasts. If it meets more records, `run` itself must call Fetch. An operation that
  // was denied room stays denied when `run` repeats it: it would wait for room and read again, in
  // turns, until its deadline.
  void Fetch(std::function<void()> run);
  // True if memory will come without deletes: a refused operation should
  // wait.
  bool makes_room() const { return log_.makes_room(); }
  bool has_room() const {
    return memory_.BlocksAvailable() + memory_.blocks_reserved() > kBlocksLeftMax;
  }
  // True if small values need no reservation.
  bool has_plenty() const {
    return !memory_.pool().room_waits() &&
           memory_.BlocksAvailable() > memory_.block_count_max() / 16 + 2 * kOperationBlocks;
  }
  // Returns the blocks that the refused operation lacked since the last call.
  Refusal TakeRefused() { return log_.TakeRefused(); }
  void NoteRefused(std::uint64_t blocks = kOperationBlocks) { log_.NoteRefused(blocks); }

  // ---- Waiting for room, on nodes with devices. A refused operation reserves the blocks that it
  // lacks. It runs again under a RoomScope when the reservation is granted or refused.
  // True if the refused operation should wait. An operation that had all its blocks lacks slots:
  // it waits only while this core makes room.
  bool MayWait(const Refusal& refusal) const {
    if (spiller_ == nullptr || room_denied_ || !refusal) return false;
    const Reservation* const had = memory_.reservation();
    return had == nullptr || had->left() == 0 || refusal.waits != nullptr ||
           refusal.blocks > had->wanted_blocks() || makes_room();
  }
  bool refused() const { return MayWait(log_.refusal()); }
  std::shared_ptr<Reservation> Reserve(Reservation::Kind kind, std::uint64_t blocks) {
    return memory_.pool().Reserve(kind, blocks, room_core_);
  }
  // Sets the call, from any thread, that wakes this core's thread. The core answers with EndWake.
  void set_wake(std::function<void()> wake) {
    if (room_core_ != nullptr) memory_.pool().SetWake(room_core_, std::move(wake));
  }
  void EndWake() { ArenaPool::EndWake(room_core_); }
  // True if a reservation of this core was granted or refused since the last call.
  bool TakeRoomNews() { return room_core_ != nullptr && ArenaPool::TakeRoomNews(room_core_); }
  // True while a reservation of the node waits: this core may have to make room.
  bool room_waits() const { return spiller_ != nullptr && memory_.pool().room_waits(); }
  // Continues the devices' work. Returns the number of steps. Ends the validity of views.
  unsigned Poll() {
    return spiller_ == nullptr ? 0 : PollRing() + spiller_->Poll() + checkpointer_->Poll();
  }
  // Submits at once the requests that Poll would submit in turns; before the core sleeps. False:
  // Poll has work at once.
  bool SubmitToDevices() {
    if (spiller_ == nullptr) return true;
    ring_->Submit();
    const bool nothing = checkpointer_->Submit();
    return spiller_->Submit() && nothing;
  }
  // The descriptors are readable while Poll has work.
  std::vector<int> device_descriptors() const;

  // ---- Durable partitions.
  // Fills incoming partitions from the records that an earlier incarnation left on the volume. The
  // caller adopts each under a term above the term given here, or drops it. Call it once, before
  // the first partition, on a volume that keeps its slots, also without partitions to recover. The
  // filled partitions are durable when it returns. Waits for the devices. Errors: kDeviceError,
  // kDataLoss (no sound checkpoint, though there should be a checkpoint), kResourceExhausted (the
  // indexes need more memory). After an error the store must not be used.
  Result<RecoveryReport> Recover(std::span<const RecoverablePartition> partitions);
  // Forces a checkpoint. Poll calls `done`: all changes applied before this call survive a
  // crash; or kDeviceError, see commit_failed. With a volume only. `is_last`: as
  // Checkpointer::Persist.
  void Persist(std::function<void(Status)> done, bool is_last = false) {
    checkpointer_->Persist(std::move(done), is_last);
  }
  // True with devices: the store may have durable partitions.
  bool checkpoints() const { return checkpointer_ != nullptr; }
  // Wall time of the last checkpoint; 0: no checkpoint.
  std::uint64_t last_durable_at_ms() const {
    return checkpointer_ == nullptr ? 0 : checkpointer_->last_durable_at_ms();
  }
  // Returns the position that must be durable before the outcome of the last operation on this
  // partition is revealed; 0: no wait. A single compare, except for Durability::kSync. A read waits
  // for all changes of its partition, whether it has met them or not.
  std::uint64_t TakeCommitWait(const Partition& partition) const {
    if (partition.options().durability != Durability::kSync) [[likely]]
      return 0;
    const std::uint64_t position = partition.commit_position();
    return position > ring_->durable_position() ? position : 0;
  }
  // Moves in Poll, and ends the wait for this position or a smaller position.
  std::uint64_t durable_position() const {
    return ring_ == nullptr ? 0 : ring_->durable_position();
  }
  // Other than kOk: the device has failed (kDeviceError). No change becomes durable any more,
  // writes to durable partitions are to be refused, reads go on.
  StatusCode commit_failed() const {
    return checkpointer_ == nullptr ? StatusCode::kOk : checkpointer_->failed();
  }

  // Wall time in ms that never goes back; operations take it as now_ms.
  std::uint64_t NowMs() override;
  // Last result of NowMs; reads no clock.
  std::uint64_t LastNowMs() const override { return now_ms_; }

  MemoryUsage usage() const;
  StoreCounters counters() const;

  // ---- Direct readers, in other processes (layout.h).
  // Allows direct reads until `until_ns` (monotonic), as this core may serve until then. If the
  // lease shown before has run out by `now_ns`, other cores may have served meanwhile: the guards
  // of all partitions are changed first, and opened again for partitions that `is_granted`
  // confirms. Read `now_ns` before `until_ns` and before the state behind `is_granted`: a core that
  // stops between the reads would open a partition that has another owner by then.
  void ShowLease(std::uint64_t until_ns, std::uint64_t now_ns,
                 absl::FunctionRef<bool(const Partition&)> is_granted);
  // Readers take the monotonic clock plus `offset_ns` for the time of expiry from now on, as this
  // core does. 0: they take the machine's clock, as before the first call.
  void ShowWallOffset(std::int64_t offset_ns);
  // Where the core's thread shows that it lives: SharedRoot::life.
  std::uint64_t* life_words() { return root_->life; }
  // Ends all direct reads, until ShowLease.
  void EndLease();
  // Monotonic ns; 0: none.
  std::uint64_t shown_lease_ns() const;
  // Returns how to read the partition. Unset: not directly now; the reader sends operations.
  std::optional<DirectView> ViewOf(const Partition& partition) const;

  // Walks everything; for tests. Ends the program at the first broken invariant.
  void CheckInvariants();

 private:
  friend class ValueWriter;
  friend class Recovery;
  friend class RoomScope;
  void TellRoom();
  CoreStore(const CoreStoreOptions& options, ArenaPool* pool, const Clock* clock);
  SharedRoot* AllocateRoot();
  Result<std::unique_ptr<Partition>> MakePartition(PartitionId id, Term term,
                                                   PartitionOptions options,
                                                   std::uint64_t records = 0);
  Result<Partition*> AddFilled(const RecoverablePartition& wanted, std::uint64_t records);
  unsigned PollRing();
  void NoteDrop(PartitionId id);
  void NoteDropsAgain();
  void Retire(std::unique_ptr<Partition> partition);
  bool FreeDroppedSlice(absl::FunctionRef<bool()> done);
  bool IndexSlice(absl::FunctionRef<bool()> done);
  bool IndexSlices(absl::FunctionRef<bool()> done);
  void ReadWanted(std::function<void()> run);
  Partition* FindHolder(const RecordHeader& record, std::uint64_t location, std::uint64_t** slot,
                        bool* dropped) override;
  Partition* FindLive(PartitionId id) override {
    Partition* const found = Find(id);
    return found != nullptr ? found : FindIncoming(id);
  }

  // CheckpointSource: durable filters.
  bool HasUnsaved() const override;
  void BeginSave() override;
  Save SaveSlice(absl::FunctionRef<bool()> done, std::uint64_t* bytes) override;

  const CoreStoreOptions options_;
  const Clock& clock_;
  std::uint64_t now_ms_ = 0;
  CoreMemory memory_;
  Log log_;
  Compactor compactor_;
  std::unique_ptr<CommitRing> ring_;            // Null: there is no volume.
  std::unique_ptr<Checkpointer> checkpointer_;  // The same.
  std::unique_ptr<Spiller> spiller_;            // Null: nothing leaves DRAM.
  bool recovered_ = false;
  std::vector<PartitionId> unnoted_drops_;
  bool fetching_index_ = false;  // Work on an index waits for records.
  std::uint64_t index_not_before_ns_ = 0;
  std::uint64_t last_fetch_ns_ = 0;  // For an operation.
  absl::flat_hash_map<std::uint32_t, std::unique_ptr<Partition>> partitions_;
  std::vector<std::unique_ptr<Partition>> incoming_;  // A few at most.
  std::vector<BloomStore*> durable_filters_;          // Of both.
  std::vector<std::unique_ptr<Partition>> dropped_;   // Freed from the back.
  std::uint64_t dropped_bucket_ = 0;                  // How far dropped_.back() is freed.
  std::vector<std::uint64_t> root_chunks_;
  std::vector<SharedRoot*> free_roots_;
  SharedRoot* root_ = nullptr;     // The core's own.
  RoomCore* room_core_ = nullptr;  // Null: there is no volume.
  bool room_denied_ = false;
  std::uint64_t fixed_blocks_ = 0;  // As of a moment ago.
  std::uint64_t look_not_before_ms_ = 0;
  std::uint64_t revoke_not_before_ms_ = 0;
  std::uint64_t refused_before_ = 0;  // By partitions that were dropped.
  std::uint64_t rebuilt_before_ = 0;
};

// While it lives operations have these blocks. With `denied` an operation without room is refused
// and does not wait.
class RoomScope {
 public:
  RoomScope(CoreStore& store, Reservation* room, bool denied)
      : store_(store), reserved_(store.memory_, room) {
    store_.room_denied_ = denied;
  }
  ~RoomScope() { store_.room_denied_ = false; }
  RoomScope(const RoomScope&) = delete;
  RoomScope& operator=(const RoomScope&) = delete;

 private:
  CoreStore& store_;
  const ReservationScope reserved_;
};

}  // namespace tidepool::storage
