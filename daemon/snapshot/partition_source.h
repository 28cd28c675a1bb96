// A partition as a stream of items that ends as the partition is at one moment: a walk in slices,
// beside traffic, and behind it the changes of what it has passed.
//
//   write_images -> [partition_source] -> storage/hash_store, as a sink of storage/partition
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "daemon/snapshot/image_format.h"
#include "storage/core_store.h"
#include "storage/log_record.h"
#include "storage/value_io.h"

namespace tidepool::daemon::snapshot {

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

// Owner core only, destroyed there too; the store must outlive it. Holds, beside one pinned value,
// at most kUntakenBytesMax of items, and the keys of values above 1 MiB.
class PartitionSource final : public storage::LogSink {
 public:
  // Changes that were noted and not taken yet. Beyond that the image is given up, so that a slow
  // disk costs an image and not the node's memory.
  static constexpr std::size_t kUntakenBytesMax = 64 * 1024 * 1024;

  // The partition must be here, and of storage::kRecordKinds.
  PartitionSource(storage::CoreStore& store, PartitionId partition);
  ~PartitionSource() override;
  PartitionSource(const PartitionSource&) = delete;
  PartitionSource& operator=(const PartitionSource&) = delete;

  void OnRecord(const storage::LogRecord& record) override;
  // Some 100 us. Where the store is blocked() behind it, nothing has been lost: call it again when
  // what it wants is there, as CoreGroup::Run does.
  void Slice(SourceSlice* slice);

 private:
  // A value on its way in parts.
  struct Large {
    std::string key;
    storage::ValueReader reader;
    std::uint64_t sent = 0;
  };

  bool Holds(storage::Partition& partition, Bytes key) const;
  bool HasPassed(storage::Partition& partition, std::uint64_t hash) const;
  void WalkSlice(storage::Partition& partition);
  void LargeSlice(storage::Partition& partition);
  void BeginLarge(storage::Partition& partition);
  void Add(const ImageItem& item);
  void AddAgain(Bytes key);
  void Fail(StatusCode code);

  storage::CoreStore& store_;
  const PartitionId id_;
  const Term term_;
  StatusCode code_ = StatusCode::kOk;
  std::string items_;
  std::uint64_t entries_ = 0;
  std::uint64_t cursor_ = 0;
  bool walked_ = false;
  bool over_ = false;
  std::set<std::string>
      large_;  // Keys that have been passed, whose values are to be sent in parts.
  std::optional<Large> sending_;
  std::uint64_t large_found_ = 0;  // By the walk.
  std::uint64_t large_again_ = 0;  // Because they changed.
};

}  // namespace tidepool::daemon::snapshot
