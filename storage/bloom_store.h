// Operations of a bloom partition.
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

// The filter lies outside of the log and is changed in place. It takes all its memory at
// creation; a durable filter also copies changes into the log for each checkpoint
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

  // Sets the bits of `other` from block `*block` on, in at most `blocks_max` blocks with bits, and
  // moves `*block` behind the last visited block. Repeatable: bits are only ever set. REQUIRES:
  // both filters have the same shape. True: more to do.
  bool UnionSlice(const BloomStore& other, std::uint64_t* block, std::uint64_t blocks_max);

  // Sets the bits of a whole block. True: some were new.
  bool UnionBlock(std::uint64_t block, Bytes bits);

  // Unites a filter that moves here, without a change of this partition.
  void ImportBlock(std::uint64_t block, Bytes bits);

  // ---- Durable filters.
  bool has_unsaved() const { return pieces_ != nullptr && pieces_->has_changed(); }
  // Marks the present changes for the log, before a checkpoint.
  void BeginSave() { pieces_->Take(); }
  // As CheckpointSource::SaveSlice.
  CheckpointSource::Save SaveSlice(absl::FunctionRef<bool()> done, std::uint64_t* bytes);
  // Recovery: adds a record that counts to an empty filter: key and value, or no value if it cannot
  // be read. False: the record does not belong to this filter.
  bool Adopt(Bytes key, std::uint64_t location, Bytes bits);

  // Not owned; must outlive the partition or be removed.
  void AddObserver(Observer* observer) { observers_.push_back(observer); }
  void RemoveObserver(Observer* observer) { std::erase(observers_, observer); }

  // ---- Store
  bool valid() const override { return filter_ != nullptr; }
  // The estimated number of distinct values; above 0 after the first insert.
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
  std::unique_ptr<FilterPieces> pieces_;  // For a durable filter.
  std::vector<Observer*> observers_;
};

}  // namespace tidepool::storage
