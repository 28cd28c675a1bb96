// One owner core's data: its memory, its log, its partitions, and the work behind the operations.
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
  // Where records go that DRAM has no room for; null: nowhere. Must outlive the store.
  Volume* volume = nullptr;
  // Blocks set aside so that deletes, reads and compaction work on a full store: two per stream
  // that is used, and as many again with a volume.
  std::uint64_t reserve_blocks = 4;
  // Buckets that a new partition starts with: rounded up to a power of two of at least 64, and down
  // when memory does not allow it. About 5 records per bucket.
  std::uint64_t buckets_initial = 64;
  // Segments looked at per choice of what to compact, at least 1: bounds a step to some 10 us
  // however large the store is. Tests only: fewer.
  std::uint32_t victim_sample_segments = 4096;
  // Of durable partitions: how much time may pass between a change and the checkpoint that covers
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
  std::uint64_t dead_bytes = 0;     // Of segments: what compaction can win.
  std::uint64_t tombstone_bytes = 0;     // Part of live_bytes.
  std::uint64_t ready_bytes = 0;         // Touched blocks kept at hand.
  std::uint64_t reserve_bytes = 0;       // Set aside for deletes and compaction.
  std::uint64_t used_bytes = 0;          // All blocks that this core holds.
  std::uint64_t limit_bytes = 0;         // Of the node, shared by its cores.
  std::uint64_t spilled_bytes = 0;       // Segments on devices; not part of used_bytes.
  std::uint64_t spilled_live_bytes = 0;  // Of these, records that an index refers to.
};

struct StoreCounters {
  std::uint64_t compacted_segments = 0;
  std::uint64_t relocated_bytes = 0;
  std::uint64_t expired_records = 0;
  std::uint64_t rebuilt_buckets = 0;
  std::uint64_t refused_for_memory = 0;
  std::uint64_t durable_bytes = 0;  // Of changes of durable partitions, each once.
  SpillCounters spill;
  CheckpointCounters checkpoint;
  CommitCounters commit;
};

// Owner core only, except Create and the destructor, which may run on another thread before and
// after the core's life. The pool and the clock must outlive it; ValueReaders and ValueWriters must
// not.
class CoreStore final : private PartitionFinder, private CheckpointSource {
 public:
  // Returns: kResourceExhausted (the pool cannot promise the reserve), kInvalidArgument, and what
  // Device::OpenQueue returns.
  static Result<std::unique_ptr<CoreStore>> Create(const CoreStoreOptions& options, ArenaPool* pool,
                                                   const Clock* clock);
  ~CoreStore() override;
  CoreStore(const CoreStore&) = delete;
  CoreStore& operator=(const CoreStore&) = delete;

  CoreId core() const { return options_.core; }

  // The partition lives until DropPartition. Returns: kAlreadyExists, kResourceExhausted,
  // kFailedPrecondition (it is to be durable, and there is no volume; or kSync, and Recover was not
  // called), kInvalidArgument (it is to be kSync, and is of kind bloom).
  Result<Partition*> AddPartition(PartitionId id, Term term, const PartitionOptions& options);
  // Null if this core does not hold it. One hash look-up.
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
  // Held from now on, under a term above the one it was filled under. Null if there is none.
  Partition* Adopt(PartitionId id, Term term);
  std::size_t partition_count() const { return partitions_.size(); }
  // Calls `visit(Partition&)` for each, in no order; it may neither add nor drop any.
  template <typename Visit>
  void ForEachPartition(Visit&& visit) {
    for (auto& [id, partition] : partitions_) visit(*partition);
  }

  // One step of the work behind the operations, of about `budget_ns` (a few us may come on top):
  // freeing, expiry, compaction, tags, memory touched ahead. Ends the validity of views that
  // operations returned. True: more to do now.
  bool BackgroundSlice(std::uint64_t budget_ns);

  // ---- Records that are on a device.
  // The operation that has just ended has met some, or one that cannot be read: it has changed
  // nothing, and what it returned means nothing. Ask after each operation, and then Fetch or
  // TakeLost, before the next one.
  bool blocked() const { return log_.blocked(); }
  // kOk: they only have to be fetched. kDataLoss, kDeviceError: one cannot be read; unblocks.
  StatusCode TakeLost();
  // Before an operation, where others may have run since its records were fetched: what they used
  // is not kept for it.
  void BeginRun() const { log_.BeginRun(); }
  // What was met is not needed.
  void SkipWanted() { log_.Unblock(); }
  // Reads what is wanted; `run` is called from Poll, to run the operation again, which finds the
  // records as long as `run` lasts. If it meets more, `run` itself must call Fetch.
  void Fetch(std::function<void()> run);
  // No memory now, but there will be some without anything being deleted: who was refused had
  // better wait.
  bool makes_room() const { return log_.makes_room(); }
  bool has_room() const {
    return memory_.BlocksAvailable() + memory_.blocks_reserved() > kBlocksLeftMax;
  }
  // True if small values need no reservation.
  bool has_plenty() const {
    return !memory_.pool().room_waits() &&
           memory_.BlocksAvailable() > memory_.block_count_max() / 16 + 2 * kOperationBlocks;
  }
  // Returns what the operation lacked that was refused memory since the last call.
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
  // Moves on what devices do. Returns how much was done. Ends the validity of views.
  unsigned Poll() {
    return spiller_ == nullptr ? 0 : PollRing() + spiller_->Poll() + checkpointer_->Poll();
  }
  // Before the core sleeps: what Poll would hand to the devices in turns goes now. False: Poll has
  // something to do at once.
  bool SubmitToDevices() {
    if (spiller_ == nullptr) return true;
    ring_->Submit();
    const bool nothing = checkpointer_->Submit();
    return spiller_->Submit() && nothing;
  }
  // Readable while there is something for Poll.
  std::vector<int> device_descriptors() const;

  // ---- Durable partitions.
  // What an earlier incarnation has left on the volume: fills incoming partitions, which the caller
  // adopts, each under a term above the one given here, or drops. To be called once, before the
  // first partition, of a volume that keeps its slots, also if there is no partition to recover.
  // What it has filled is durable when it returns. Waits for the devices. Errors: kDeviceError,
  // kDataLoss (no sound checkpoint, though there should be one), kResourceExhausted (the indexes
  // need more memory); then the store must not be used.
  Result<RecoveryReport> Recover(std::span<const RecoverablePartition> partitions);
  // Forces a checkpoint. `done` is called from Poll: all that was applied before this call outlives
  // a crash; or kDeviceError, see commit_failed. With a volume only. `is_last`: as
  // Checkpointer::Persist.
  void Persist(std::function<void(Status)> done, bool is_last = false) {
    checkpointer_->Persist(std::move(done), is_last);
  }
  // It has devices, and so may have durable partitions.
  bool checkpoints() const { return checkpointer_ != nullptr; }
  // Wall time of the last checkpoint, 0: there is none.
  std::uint64_t last_durable_at_ms() const {
    return checkpointer_ == nullptr ? 0 : checkpointer_->last_durable_at_ms();
  }
  // After an operation on this partition: the position that must be durable before anybody hears of
  // its outcome; 0: none. One compare, but for Durability::kSync. A read waits for all that was
  // changed in its partition, whether it has met that or not.
  std::uint64_t TakeCommitWait(const Partition& partition) const {
    if (partition.options().durability != Durability::kSync) [[likely]]
      return 0;
    const std::uint64_t position = partition.commit_position();
    return position > ring_->durable_position() ? position : 0;
  }
  // Moves in Poll: whoever waits for this position or a smaller one waits no more.
  std::uint64_t durable_position() const {
    return ring_ == nullptr ? 0 : ring_->durable_position();
  }
  // Other than kOk: the device has failed (kDeviceError). Nothing becomes durable any more, writes
  // to durable partitions are to be refused, reads go on.
  StatusCode commit_failed() const {
    return checkpointer_ == nullptr ? StatusCode::kOk : checkpointer_->failed();
  }

  // Wall time in ms that never goes back; what operations take as now_ms.
  std::uint64_t NowMs() override;
  // What it has said last; no clock is read.
  std::uint64_t LastNowMs() const override { return now_ms_; }

  MemoryUsage usage() const;
  StoreCounters counters() const;

  // ---- Direct readers, in other processes (layout.h).
  // They may read until `until_ns` (monotonic), as this core may serve until then. Where the lease
  // that they were shown has run out by `now_ns`, others may have served meanwhile: so the guards
  // of all partitions are changed first, and opened again of those that `is_granted` confirms.
  // `now_ns` is to be read before `until_ns` and before what `is_granted` goes by: a core that is
  // stopped between would open what has become another's meanwhile.
  void ShowLease(std::uint64_t until_ns, std::uint64_t now_ns,
                 absl::FunctionRef<bool(const Partition&)> is_granted);
  // Readers take the monotonic clock plus `offset_ns` for the time of expiry from now on, as this
  // core does. 0: they take the machine's clock, as before the first call.
  void ShowWallOffset(std::int64_t offset_ns);
  // Where the core's thread shows that it lives: SharedRoot::life.
  std::uint64_t* life_words() { return root_->life; }
  // The core serves nothing any more. Until ShowLease.
  void EndLease();
  // Monotonic ns; 0: none.
  std::uint64_t shown_lease_ns() const;
  // How the partition is read. None: not at all, or not now; who asks is to send operations.
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
