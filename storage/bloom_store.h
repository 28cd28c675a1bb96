// The operations of one bloom partition.
//
// daemon/ops/bloom_ops -> partition -> [BloomStore] -> BlockFilter
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "proto/base/filter_shape.h"
#include "storage/block_filter.h"
#include "storage/durable/checkpoint_source.h"
#include "storage/filter_pieces.h"
#include "storage/store.h"

namespace tidepool::storage {

class Partition;

// The filter lies outside of the log and is changed in place, so the memory that it has at creation
// is all that it ever takes, but for what a durable one copies into the log for each checkpoint
// (filter_pieces.h).
//
// Owner core only.
class BloomStore final : public Store {
 public:
  // Hears of each change, after it. Inside the operation: it must not touch the store.
  class Observer {
   public:
    virtual ~Observer() = default;
    // A value that was new.
    virtual void OnInsert(std::uint64_t hash) = 0;
    // Any bits of a block.
    virtual void OnUnion(std::uint64_t block) = 0;
  };

  // `root`: where direct readers find the filter; null: they do not.
  BloomStore(Partition& partition, Log& log, CoreMemory& memory, FilterShape shape,
             SharedRoot* root);

  // Of BlockFilter; see there. `hash` is KeyHash(value).
  void Prefetch(std::uint64_t hash) const { filter_->Prefetch(hash); }
  bool InsertAndTell(std::uint64_t hash);
  bool Contains(std::uint64_t hash) const { return filter_->Contains(hash); }
  const BlockFilter& filter() const { return *filter_; }

  // Sets the bits of blocks `*block` on of `other`, at most `blocks_max` that have any, and moves
  // `*block` behind the last one looked at. Any number of times: bits are only ever set. REQUIRES:
  // both filters have the same shape. True: more to do.
  bool UnionSlice(const BloomStore& other, std::uint64_t* block, std::uint64_t blocks_max);

  // Sets the bits of a whole block. True: some were new.
  bool UnionBlock(std::uint64_t block, Bytes bits);

  // Of a filter that moves here: the same, and no change of this partition.
  void ImportBlock(std::uint64_t block, Bytes bits);

  // ---- Of a durable one.
  bool has_unsaved() const { return pieces_ != nullptr && pieces_->has_changed(); }
  // What has changed so far is to be in the log before a checkpoint.
  void BeginSave() { pieces_->Take(); }
  // As CheckpointSource::SaveSlice.
  CheckpointSource::Save SaveSlice(absl::FunctionRef<bool()> done, std::uint64_t* bytes);
  // Recovery: into an empty filter, of a record that counts its key and value, or no value if it
  // cannot be read. False: it is none of this filter.
  bool Adopt(Bytes key, std::uint64_t location, Bytes bits);

  // Not owned; must outlive the partition or be removed.
  void AddObserver(Observer* observer) { observers_.push_back(observer); }
  void RemoveObserver(Observer* observer) { std::erase(observers_, observer); }

  // ---- Store
  bool valid() const override { return filter_ != nullptr; }
  // The estimated number of distinct values; above 0 once there is one.
  std::uint64_t size() const override;
  // The filter, whatever it holds.
  std::uint64_t payload_bytes() const override { return filter_->allocated_bytes(); }
  IndexUsage index_usage() const override;
  Lsn Apply(const LogRecord& record) override;
  std::uint64_t* FindSlot(const RecordHeader& record, std::uint64_t location) override;
  void Relocate(std::uint64_t* slot, const RecordHeader& record, std::uint64_t moved) override;
  void Discard(std::uint64_t* slot, std::uint64_t location) override;
  bool HasKey(Bytes key) override;
  bool IndexSlice(absl::FunctionRef<bool()> done) override;
  bool FreeSlice(std::uint64_t* position, absl::FunctionRef<bool()> done) override;
  void CheckInvariants() const override;
  void VisitRecords(absl::FunctionRef<void(std::uint64_t)> visit) const override;

 private:
  void NoteBlockChanged(std::uint64_t block);

  Partition& partition_;
  std::unique_ptr<BlockFilter> filter_;
  std::unique_ptr<FilterPieces> pieces_;  // Of a durable one.
  std::vector<Observer*> observers_;
};

}  // namespace tidepool::storage
