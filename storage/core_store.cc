// Partitions coming and going, the order of background work, and the accounts.
#include "storage/core_store.h"

#include <algorithm>
#include <string>
#include <utility>

#include "proto/base/check.h"
#include "proto/base/key_hash.h"

namespace tidepool::storage {
namespace {

// The clock is read once per 8 steps: a step of 50 ns would pay half of itself for it.
constexpr std::uint64_t kStepsPerClockRead = 8;
constexpr std::uint64_t kFetchedSliceNs = 50'000;
constexpr std::uint64_t kIndexPauseNs = 60'000'000'000;
// Pause after each reading for an index: the device serves operations for this multiple of its
// time, if there were operations a moment ago. Without pauses the rebuild of tags took half of the
// device: with one client, 3.4 reads for each of its operations, with 64 up to 40,000 a second
// beside theirs. There is time: tags are rebuilt 6 doublings before they have to be.
constexpr std::uint64_t kIndexRests = 9;
constexpr std::uint64_t kDeviceIdleNs = 100'000'000;
constexpr std::uint64_t kLookPauseMs = 10;
constexpr std::uint64_t kRevokePauseMs = 1'000;
// Records per bucket of an index that is made for what is known to come.
constexpr std::uint64_t kBucketRecords = 5;

std::uint64_t SlotCount(const CoreStoreOptions& options) {
  return options.volume == nullptr ? 0 : options.volume->slot_count();
}

std::uint64_t Incarnation(const CoreStoreOptions& options) {
  return options.volume == nullptr ? 0 : options.volume->incarnation();
}

}  // namespace

Result<std::unique_ptr<CoreStore>> CoreStore::Create(const CoreStoreOptions& options,
                                                     ArenaPool* pool, const Clock* clock) {
  TP_CHECK(pool != nullptr);
  TP_CHECK(clock != nullptr);
  const std::uint64_t slots = SlotCount(options);
  if (pool->block_count_max() + slots >= SegmentTable::CountMax(pool->block_bytes())) {
    return Status(StatusCode::kInvalidArgument, "a node's memory and devices are above 8 TiB",
                  "give less --memory, or less --nvm-size");
  }
  // Both are parts of the numbers of segments.
  if (Incarnation(options) >> 32 != 0) {
    return Status(StatusCode::kInvalidArgument, "this node was started more than 2^32 times",
                  "start it with an empty --data-dir and empty --nvm-dir");
  }
  std::unique_ptr<CoreStore> core(new CoreStore(options, pool, clock));
  if (core->spiller_ != nullptr) {
    TP_RETURN_IF_ERROR(core->spiller_->Open());
    TP_RETURN_IF_ERROR(core->ring_->Open());
    TP_RETURN_IF_ERROR(core->checkpointer_->Open());
  }
  if (core->memory_.reserve_promised()) core->root_ = core->AllocateRoot();
  if (core->root_ == nullptr) {
    return Status(StatusCode::kResourceExhausted,
                  "core " + std::to_string(options.core.value()) + " cannot set " +
                      std::to_string(options.reserve_blocks * pool->block_bytes()) +
                      " bytes aside for deletes and compaction",
                  "give more --memory or fewer --cores");
  }
  core->log_.segments().ShowIn(core->root_);
  return core;
}

CoreStore::CoreStore(const CoreStoreOptions& options, ArenaPool* pool, const Clock* clock)
    : options_(options),
      clock_(*clock),
      memory_(*pool, options.reserve_blocks * (options.volume == nullptr ? 1 : 2)),
      log_(memory_, options.core, SlotCount(options), Incarnation(options)),
      compactor_(log_, *this, options.victim_sample_segments) {
  log_.set_reclaimer(&compactor_);
  if (options.volume == nullptr) return;
  PartitionFinder& finder = *this;
  ring_ = std::make_unique<CommitRing>(*options.volume, options.core);
  checkpointer_ = std::make_unique<Checkpointer>(log_, *options.volume, *ring_,
                                                 static_cast<CheckpointSource&>(*this),
                                                 options.core, options.checkpoint_interval_ms);
  log_.set_durable_target(checkpointer_.get());
  spiller_ = std::make_unique<Spiller>(log_, compactor_, finder, *options.volume, *checkpointer_);
  log_.set_spill_target(spiller_.get());
  room_core_ = pool->AddCore();
  spiller_->set_room_core(room_core_);
}

CoreStore::~CoreStore() {
  if (room_core_ != nullptr) memory_.pool().RemoveCore(room_core_);
  // Its memory may serve other cores from now on.
  if (root_ != nullptr) EndLease();
  for (auto& [id, partition] : partitions_) partition->CloseGuard();
  // Their indexes give memory back to memory_, which outlives them only until here.
  dropped_.clear();
  incoming_.clear();
  partitions_.clear();
  spiller_.reset();
  checkpointer_.reset();
  ring_.reset();
  for (const std::uint64_t chunk : root_chunks_) memory_.FreeChunk(chunk, kChunkBytesMin);
}

SharedRoot* CoreStore::AllocateRoot() {
  if (free_roots_.empty()) {
    const std::uint64_t chunk = log_.AllocateChunk(kChunkBytesMin);
    if (chunk == 0) return nullptr;
    root_chunks_.push_back(chunk);
    auto* const roots = reinterpret_cast<SharedRoot*>(memory_.At(chunk));
    for (std::size_t i = kChunkBytesMin / sizeof(SharedRoot); i-- > 0;) {
      roots[i] = SharedRoot{};
      free_roots_.push_back(&roots[i]);
    }
  }
  SharedRoot* const root = free_roots_.back();
  free_roots_.pop_back();
  return root;
}

Result<std::unique_ptr<Partition>> CoreStore::MakePartition(PartitionId id, Term term,
                                                            PartitionOptions options,
                                                            std::uint64_t records) {
  if (partitions_.contains(id.value()) || FindIncoming(id) != nullptr) {
    return Status(StatusCode::kAlreadyExists,
                  "partition " + std::to_string(id.value()) + " is on this core already");
  }
  if (options.durability != Durability::kVolatile && options_.volume == nullptr) {
    return Status(StatusCode::kFailedPrecondition,
                  "partition " + std::to_string(id.value()) +
                      " is to be durable, and this node has no device for that",
                  "start the daemons with --nvm-dir, or make the namespace volatile");
  }
  if (options.durability != Durability::kVolatile) {
    if (options.kind == Kind::kBloom && options.durability == Durability::kSync) {
      return Status(StatusCode::kInvalidArgument,
                    "a filter is durable with a checkpoint and not before, and partition " +
                        std::to_string(id.value()) + " is one",
                    "make the namespace async");
    }
    if (std::find(unnoted_drops_.begin(), unnoted_drops_.end(), id) != unnoted_drops_.end()) {
      return Status(StatusCode::kResourceExhausted,
                    "the device has no room to note that partition " + std::to_string(id.value()) +
                        " was dropped from this core",
                    "delete something, or start with more --nvm-size");
    }
    if (options.durability == Durability::kSync && !recovered_) {
      return Status(StatusCode::kFailedPrecondition,
                    "partition " + std::to_string(id.value()) +
                        " is to be durable at once, and the device was not recovered");
    }
    options.tombstones = true;
    // Their slots are published before the commit, so readers may reach them only through here.
    if (options.durability == Durability::kSync) options.update_in_place = false;
  }
  const Status exhausted(StatusCode::kResourceExhausted,
                         "no memory for the index of partition " + std::to_string(id.value()),
                         "delete something, or start with more --memory");
  SharedRoot* const root = AllocateRoot();
  if (root == nullptr) return exhausted;
  std::unique_ptr<Partition> partition(
      new Partition(id, term, options, log_, memory_, root,
                    TagIndexOptions{std::max(options_.buckets_initial, records / kBucketRecords),
                                    options_.hash_mask},
                    TreeIndexOptions{options_.tree_page_bytes}));
  if (!partition->store().valid()) {
    free_roots_.push_back(root);
    return exhausted;
  }
  if (options.durability == Durability::kSync) partition->UseRing(ring_.get());
  if (partition->is_durable() && options.kind == Kind::kBloom) {
    durable_filters_.push_back(&partition->bloom());
  }
  return partition;
}

Result<Partition*> CoreStore::AddPartition(PartitionId id, Term term,
                                           const PartitionOptions& options) {
  auto made = MakePartition(id, term, options);
  if (!made.ok()) return made.status();
  if ((*made)->is_durable() && log_.lost_below() != 0) {
    log_.NoteBegin(id);
    ring_->AddDrop(id, log_.lost_below());
  }
  (*made)->Thaw();
  return partitions_.emplace(id.value(), *std::move(made)).first->second.get();
}

Result<Partition*> CoreStore::AddIncoming(PartitionId id, Term term,
                                          const PartitionOptions& options) {
  auto made = MakePartition(id, term, options);
  if (!made.ok()) return made.status();
  return incoming_.emplace_back(*std::move(made)).get();
}

Result<Partition*> CoreStore::AddFilled(const RecoverablePartition& wanted, std::uint64_t records) {
  auto made = MakePartition(wanted.id, wanted.term, wanted.options, records);
  if (!made.ok()) return made.status();
  return incoming_.emplace_back(*std::move(made)).get();
}

Result<RecoveryReport> CoreStore::Recover(std::span<const RecoverablePartition> partitions) {
  TP_CHECK(checkpointer_ != nullptr);
  TP_CHECK(partitions_.empty() && incoming_.empty());
  recovered_ = true;
  return Recovery(*this, clock_).Run(partitions);
}

// Its records, which stay on the device for a while, must not come back with a later partition of
// the same id.
void CoreStore::NoteDrop(PartitionId id) {
  const std::uint64_t below = log_.NoteDrop(id);
  if (below != 0) {
    ring_->AddDrop(id, below);
  } else {
    unnoted_drops_.push_back(id);
  }
}

void CoreStore::NoteDropsAgain() {
  for (PartitionId id : std::exchange(unnoted_drops_, {})) NoteDrop(id);
}

unsigned CoreStore::PollRing() {
  int error = 0;
  const unsigned done = ring_->Poll(&error);
  if (error != 0) checkpointer_->Fail(error, "write a commit");
  return done;
}

bool CoreStore::HasUnsaved() const {
  return std::any_of(durable_filters_.begin(), durable_filters_.end(),
                     [](const BloomStore* filter) { return filter->has_unsaved(); });
}

void CoreStore::BeginSave() {
  for (BloomStore* filter : durable_filters_) filter->BeginSave();
}

CheckpointSource::Save CoreStore::SaveSlice(absl::FunctionRef<bool()> done, std::uint64_t* bytes) {
  for (BloomStore* filter : durable_filters_) {
    const Save saved = filter->SaveSlice(done, bytes);
    if (saved != Save::kDone) return saved;
  }
  return Save::kDone;
}

Partition* CoreStore::FindIncoming(PartitionId id) const {
  for (const auto& partition : incoming_) {
    if (partition->id() == id) return partition.get();
  }
  return nullptr;
}

Partition* CoreStore::Adopt(PartitionId id, Term term) {
  for (auto& partition : incoming_) {
    if (partition->id() != id) continue;
    std::unique_ptr<Partition> adopted = std::move(partition);
    std::erase(incoming_, nullptr);
    TP_CHECK(term > adopted->term());
    adopted->SetTerm(term);
    return partitions_.emplace(id.value(), std::move(adopted)).first->second.get();
  }
  return nullptr;
}

void CoreStore::DropPartition(PartitionId id) {
  const auto found = partitions_.find(id.value());
  if (found == partitions_.end()) return;
  const bool durable = found->second->is_durable();
  Retire(std::move(found->second));
  partitions_.erase(found);
  if (durable) NoteDrop(id);
}

void CoreStore::DropIncoming(PartitionId id) {
  for (auto& partition : incoming_) {
    if (partition->id() != id) continue;
    const bool durable = partition->is_durable();
    Retire(std::move(partition));
    std::erase(incoming_, nullptr);
    if (durable) NoteDrop(id);
    return;
  }
}

void CoreStore::Retire(std::unique_ptr<Partition> partition) {
  partition->CloseGuard();
  if (partition->kind() == Kind::kBloom) std::erase(durable_filters_, &partition->bloom());
  refused_before_ += partition->refused_for_memory_;
  rebuilt_before_ += partition->store().index_usage().rebuilt_buckets;
  // In front, so that the one being freed at the back stays there.
  dropped_.insert(dropped_.begin(), std::move(partition));
}

bool CoreStore::FreeDroppedSlice(absl::FunctionRef<bool()> done) {
  while (!dropped_.empty()) {
    if (dropped_.back()->store().FreeSlice(&dropped_bucket_, done)) return true;
    TP_CHECK(dropped_.back()->store().size() == 0);
    free_roots_.push_back(dropped_.back()->root_);
    dropped_.pop_back();
    dropped_bucket_ = 0;
  }
  return false;
}

bool CoreStore::IndexSlice(absl::FunctionRef<bool()> done) {
  for (auto& [id, partition] : partitions_) {
    if (partition->store().IndexSlice(done)) return true;
  }
  return false;
}

// Work that needs records on devices continues when they are there.
bool CoreStore::IndexSlices(absl::FunctionRef<bool()> done) {
  if (fetching_index_ || clock_.MonotonicNs() < index_not_before_ns_) return false;
  const bool more = IndexSlice(done);
  if (!blocked()) return more;
  fetching_index_ = true;
  const std::uint64_t begin_ns = clock_.MonotonicNs();
  ReadWanted([this, begin_ns] {
    fetching_index_ = false;
    const std::uint64_t now_ns = clock_.MonotonicNs();
    const std::uint64_t end_ns = now_ns + kFetchedSliceNs;
    (void)IndexSlice([&] { return blocked() || clock_.MonotonicNs() >= end_ns; });
    if (now_ns < last_fetch_ns_ + kDeviceIdleNs) {
      index_not_before_ns_ = now_ns + kIndexRests * (now_ns - begin_ns);
    }
    // An unreadable record holds the work up: tags get worse, and a filter is not rebuilt.
    if (log_.lost() != StatusCode::kOk) index_not_before_ns_ = end_ns + kIndexPauseNs;
    log_.Unblock();
  });
  return false;
}

StatusCode CoreStore::TakeLost() {
  const StatusCode lost = log_.lost();
  if (lost != StatusCode::kOk) log_.Unblock();
  return lost;
}

void CoreStore::Fetch(std::function<void()> run) {
  last_fetch_ns_ = clock_.MonotonicNs();
  if (room_denied_) {
    run = [this, run = std::move(run)] {
      const bool denied_before = std::exchange(room_denied_, true);
      run();
      room_denied_ = denied_before;
    };
  }
  ReadWanted(std::move(run));
}

void CoreStore::ReadWanted(std::function<void()> run) {
  TP_CHECK(spiller_ != nullptr);
  spiller_->Fetch(log_.TakeWanted(), [this, run = std::move(run)](const FetchedRecords& fetched) {
    const FetchedScope scope(log_, &fetched);
    run();
  });
}

std::vector<int> CoreStore::device_descriptors() const {
  if (spiller_ == nullptr) return {};
  std::vector<int> descriptors;
  const auto add = [&](int descriptor) {
    if (descriptor >= 0) descriptors.push_back(descriptor);
  };
  for (const auto& queue : spiller_->queues()) add(queue->descriptor());
  for (const auto& queue : checkpointer_->queues()) add(queue->descriptor());
  add(ring_->descriptor());
  return descriptors;
}

// For a core that other cores wait for: its blocks at hand are theirs.
void CoreStore::TellRoom() {
  memory_.DropReady();
  const std::uint64_t now_ms = NowMs();
  if (now_ms >= revoke_not_before_ms_) {
    revoke_not_before_ms_ = now_ms + kRevokePauseMs;
    log_.RevokeIdleWriters(now_ms);
    log_.FreeDead();
  }
  RoomLook look;
  look.asked = memory_.pool().room_asked();
  if (now_ms >= look_not_before_ms_) {
    look_not_before_ms_ = now_ms + kLookPauseMs;
    fixed_blocks_ = log_.FixedBlocks();
  }
  look.fixed_blocks = fixed_blocks_;
  look.makes_room = log_.makes_room() || compactor_.has_victim() || compactor_.searching();
  look.has_slots = spiller_->HasSlots();
  memory_.pool().TellRoom(room_core_, look);
}

bool CoreStore::BackgroundSlice(std::uint64_t budget_ns) {
  const std::uint64_t end_ns = clock_.MonotonicNs() + budget_ns;
  std::uint64_t steps = 0;
  bool over = false;  // Stays so: whoever asks again after the end must hear the same.
  const auto done = [&]() {
    if (++steps % kStepsPerClockRead == 0) over = over || clock_.MonotonicNs() >= end_ns;
    return over;
  };
  log_.FreeDead();
  if (room_waits()) TellRoom();
  // In the order of what hurts most when it is late: memory that puts wait for comes first.
  if (FreeDroppedSlice(done)) return true;
  if (!unnoted_drops_.empty()) NoteDropsAgain();
  if (checkpointer_ != nullptr && checkpointer_->Slice(NowMs(), done)) return true;
  if (spiller_ != nullptr && spiller_->Slice(NowMs(), done)) return true;
  if (compactor_.Slice(done)) return true;
  if (compactor_.SweepSlice(clock_, done)) return true;
  if (IndexSlices(done)) return true;
  return memory_.KeepReady() || compactor_.searching();
}

std::uint64_t CoreStore::NowMs() {
  now_ms_ = std::max(now_ms_, clock_.WallMs());
  return now_ms_;
}

Partition* CoreStore::FindHolder(const RecordHeader& record, std::uint64_t location,
                                 std::uint64_t** slot, bool* dropped) {
  const PartitionId id(record.partition);
  if (Partition* partition = Find(id); partition != nullptr) {
    *slot = partition->store().FindSlot(record, location);
    if (*slot != nullptr) return partition;
  }
  if (Partition* partition = FindIncoming(id); partition != nullptr) {
    *slot = partition->store().FindSlot(record, location);
    if (*slot != nullptr) return partition;
  }
  for (const auto& partition : dropped_) {
    if (partition->id() != id) continue;
    *slot = partition->store().FindSlot(record, location);
    if (*slot == nullptr) continue;
    *dropped = true;
    return partition.get();
  }
  return nullptr;
}

MemoryUsage CoreStore::usage() const {
  MemoryUsage usage;
  const std::uint64_t block = memory_.block_bytes();
  std::uint64_t index_allocated = 0;
  const auto add = [&](const Partition& partition) {
    const IndexUsage index = partition.store().index_usage();
    usage.index_bytes += index.used_bytes;
    index_allocated += index.allocated_bytes;
  };
  for (const auto& [id, partition] : partitions_) add(*partition);
  for (const auto& partition : incoming_) add(*partition);
  for (const auto& partition : dropped_) add(*partition);
  usage.segment_bytes = log_.segments().resident() * block;
  usage.ready_bytes = memory_.blocks_ready() * block;
  usage.used_bytes = memory_.blocks_held() * block;
  usage.tables_bytes =
      usage.used_bytes - usage.segment_bytes - usage.ready_bytes - usage.index_bytes;
  usage.live_bytes = log_.live_bytes() - log_.spilled_live_bytes();
  usage.spilled_bytes = log_.spilled_segments() * block;
  usage.spilled_live_bytes = log_.spilled_live_bytes();
  usage.dead_bytes = log_.dead_bytes();
  usage.tombstone_bytes = log_.tombstone_bytes();
  usage.reserve_bytes = memory_.reserve_blocks() * block;
  usage.limit_bytes = memory_.limit_bytes();
  TP_CHECK(index_allocated <= usage.used_bytes);
  return usage;
}

StoreCounters CoreStore::counters() const {
  StoreCounters counters;
  counters.compacted_segments = compactor_.counters().compacted_segments;
  counters.relocated_bytes = compactor_.counters().relocated_bytes;
  counters.expired_records = compactor_.counters().expired_records;
  counters.refused_for_memory = refused_before_;
  if (spiller_ != nullptr) counters.spill = spiller_->counters();
  if (checkpointer_ != nullptr) counters.checkpoint = checkpointer_->counters();
  if (ring_ != nullptr) counters.commit = ring_->counters();
  counters.durable_bytes = log_.durable_bytes();
  counters.rebuilt_buckets = rebuilt_before_;
  for (const auto& [id, partition] : partitions_) {
    counters.refused_for_memory += partition->refused_for_memory_;
    counters.rebuilt_buckets += partition->store().index_usage().rebuilt_buckets;
  }
  return counters;
}

}  // namespace tidepool::storage
