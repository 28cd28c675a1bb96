// A partition as a stream of items that ends as the partition is at one moment: a walk in slices,
// beside traffic, and behind it the changes of what it has passed.
//
//   write_images -> [partition_source] -> record_source, item_source, filter_source
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "daemon/snapshot/image_format.h"
#include "storage/core_store.h"
#include "storage/partition.h"
#include "storage/partition_image.h"

namespace tidepool::daemon::snapshot {

// Kinds whose partitions can be taken and restored.
inline constexpr KindMask kSnapshotKinds = storage::kRecordKinds | storage::kImageKinds;

// What one slice has come to.
struct SourceSlice {
  // kOk; kAborted (the partition has moved, or was split or dropped), kResourceExhausted (it
  // changes faster than its image is taken), kDataLoss, kDeviceError (a record cannot be read).
  StatusCode code = StatusCode::kOk;
  std::string items;
  bool done = false;
  // When done:
  std::uint64_t entries = 0;
  Lsn end;
  std::uint64_t taken_at_ms = 0;
};

// What the sources of all kinds have in common. Owner core only, destroyed there too; the store
// must outlive it. Holds, beside one pinned value and what its kind needs to know of the partition,
// at most kUntakenBytesMax of items.
class PartitionSource {
 public:
  // Changes that were noted and not taken yet. Beyond that the image is given up, so that a slow
  // disk costs an image and not the node's memory.
  static constexpr std::size_t kUntakenBytesMax = 64 * 1024 * 1024;
  // Of the walk, some 100 us: records that are not in the cache cost 100 ns to read and as much to
  // copy.
  static constexpr std::uint64_t kRecordsPerSlice = 256;
  static constexpr std::size_t kBytesPerSlice = 256 * 1024;

  // The partition must be here, and of kSnapshotKinds.
  static std::unique_ptr<PartitionSource> Make(storage::CoreStore& store, PartitionId partition);
  virtual ~PartitionSource() = default;
  PartitionSource(const PartitionSource&) = delete;
  PartitionSource& operator=(const PartitionSource&) = delete;

  // Some 100 us. Where the store is blocked() behind it, nothing has been lost: call it again when
  // what it wants is there, as CoreGroup::Run does.
  void Slice(SourceSlice* slice);

 protected:
  PartitionSource(storage::CoreStore& store, PartitionId partition);

  // ---- For a kind.
  // The next step, by Add and Fail. It goes on where it was if the store is blocked() behind it.
  virtual void Walk(storage::Partition& partition) = 0;
  // The walk has come to its end, and nothing that it has passed is still to be sent.
  virtual bool HasSentAll() const = 0;
  // Hears of no change any more.
  virtual void Detach(storage::Partition& partition) = 0;
  // After a failure: lets go of what it holds.
  virtual void Forget() = 0;

  storage::CoreStore& store() { return store_; }
  // Null: it is not here any more.
  storage::Partition* Find() { return store_.Find(id_); }
  // Whether changes still matter.
  bool listening() const { return !over_ && code_ == StatusCode::kOk; }
  std::size_t untaken_bytes() const { return items_.size(); }
  void Add(const ImageItem& item);
  // Of a change: fails where too many were noted.
  void Note(const ImageItem& item);
  // Takes back what was added behind so many bytes.
  void CutTo(std::size_t untaken_bytes, std::uint64_t entries);
  std::uint64_t entries() const { return entries_; }
  void Fail(StatusCode code);

 private:
  storage::CoreStore& store_;
  const PartitionId id_;
  const Term term_;
  StatusCode code_ = StatusCode::kOk;
  std::string items_;
  std::uint64_t entries_ = 0;
  bool over_ = false;
};

}  // namespace tidepool::daemon::snapshot
