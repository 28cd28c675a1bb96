// A partition as a stream of items that ends with its content at one moment: a walk in slices,
// beside traffic, followed by the changes behind the walk.
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

// Kinds that support snapshots.
inline constexpr KindMask kSnapshotKinds = storage::kRecordKinds | storage::kImageKinds;

// Result of one slice.
struct SourceSlice {
  // kOk; kAborted (the partition has moved, or was split or dropped); kResourceExhausted (it
  // changes faster than its image is taken); kDataLoss, kDeviceError (an unreadable record).
  StatusCode code = StatusCode::kOk;
  std::string items;
  bool done = false;
  // When done:
  std::uint64_t entries = 0;
  Lsn end;
  std::uint64_t taken_at_ms = 0;
};

// Base of the sources of all kinds. Owner core only, also for destruction; the store must outlive
// it. Holds one pinned value, the kind's knowledge of the partition, and at most kUntakenBytesMax
// of items.
class PartitionSource {
 public:
  // Maximum of recorded changes that were not taken yet. Beyond it the image is given up, so that a
  // slow disk costs an image and not the node's memory.
  static constexpr std::size_t kUntakenBytesMax = 64 * 1024 * 1024;
  // Records per slice of the walk, some 100 us: uncached records cost 100 ns to read and 100 ns to
  // copy.
  static constexpr std::uint64_t kRecordsPerSlice = 256;
  static constexpr std::size_t kBytesPerSlice = 256 * 1024;

  // REQUIRES: the partition is here, and of kSnapshotKinds.
  static std::unique_ptr<PartitionSource> Make(storage::CoreStore& store, PartitionId partition);
  virtual ~PartitionSource() = default;
  PartitionSource(const PartitionSource&) = delete;
  PartitionSource& operator=(const PartitionSource&) = delete;

  // Runs a slice of some 100 us. If the store is blocked() afterwards, nothing is lost: call it
  // again when the missing memory or record has arrived, as CoreGroup::Run does.
  void Slice(SourceSlice* slice);

 protected:
  PartitionSource(storage::CoreStore& store, PartitionId partition);

  // ---- Implemented per kind.
  // Makes the next step by Add and Fail. Continues at the same place if the store was blocked().
  virtual void Walk(storage::Partition& partition) = 0;
  // Returns true if the walk is at its end and everything it has passed is sent.
  virtual bool HasSentAll() const = 0;
  // Stops observing changes.
  virtual void Detach(storage::Partition& partition) = 0;
  // Releases its resources after a failure.
  virtual void Forget() = 0;

  storage::CoreStore& store() { return store_; }
  // Returns null if the partition is no longer here.
  storage::Partition* Find() { return store_.Find(id_); }
  // Returns true while changes matter.
  bool listening() const { return !over_ && code_ == StatusCode::kOk; }
  std::size_t untaken_bytes() const { return items_.size(); }
  void Add(const ImageItem& item);
  // Adds a change; fails if too many are pending.
  void Note(const ImageItem& item);
  // Removes the items that were added after `untaken_bytes`.
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
