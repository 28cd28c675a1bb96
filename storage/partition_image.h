// What a partition of kind queue, priority or bloom holds, as pieces of bytes that another core
// makes the same partition of.
//
// Partition (frozen) -> [ImageWriter] -> pieces => [ImageReader] -> Partition (incoming)
#pragma once

#include <cstdint>
#include <optional>

#include "proto/base/bytes.h"
#include "proto/base/kind.h"
#include "proto/base/status.h"
#include "storage/core_store.h"
#include "storage/value_io.h"

namespace tidepool::storage {

// Kinds that have images.
inline constexpr KindMask kImageKinds = kItemKinds | MaskOf(Kind::kBloom);
// Of a piece: room for a block of a filter, or for some items, and some 100 us of work.
inline constexpr std::size_t kImagePieceBytes = 256 * 1024;

// An image consists of entries, each in one piece: a beginning, then items in no particular order
// (a large value follows its item in parts) or blocks of the filter, then an end that says how many
// they were. Times are what is left of them, since clocks differ: the time that the image is under
// way is added to leases and lives. Numbers of items go on where they were; versions begin anew
// under the term of the reader's partition, which must be at least the writer's.

// Owner core only, destroyed there too. The store must outlive it.
class ImageWriter {
 public:
  // The partition must be frozen, and of kImageKinds, from now until the last piece.
  ImageWriter(CoreStore& core, PartitionId partition) : core_(core), id_(partition) {}

  // Fills `room`, of kImagePieceBytes, and says how much of it: 0 when there is nothing more. At
  // most some 100 us; between two calls compaction and expiry may go on. `*ok` is false when the
  // partition is not here any more, or not frozen.
  std::size_t Next(MutableBytes room, std::uint64_t now_ms, bool* ok);

  // So far. `total` is known from the first piece on, and falls short of nothing but expiry.
  std::uint64_t entries_done() const { return entries_; }
  std::uint64_t entries_total() const { return total_; }

 private:
  class Piece;
  void Begin(Partition& partition, Piece* piece);
  bool AddItems(QueueStore& queue, std::uint64_t now_ms, Piece* piece);
  bool AddBlocks(const BlockFilter& filter, Piece* piece);
  void AddParts(Piece* piece);

  CoreStore& core_;
  const PartitionId id_;
  bool begun_ = false;
  bool ended_ = false;
  std::uint64_t entries_ = 0;
  std::uint64_t total_ = 0;
  QueueStore::ImagePlace place_;
  std::uint64_t block_ = 0;
  std::optional<ValueReader> large_;  // The value whose parts come next.
  std::uint64_t large_sent_ = 0;
};

// Owner core only, destroyed there too. The store must outlive it.
class ImageReader {
 public:
  // `partition` is empty and nobody uses it: see CoreStore::AddIncoming.
  ImageReader(CoreStore& core, PartitionId partition) : core_(core), id_(partition) {}

  // Takes the next piece over: some 100 us. Returns: kOk, kInvalidArgument (malformed, or of
  // another kind, shape or order), kResourceExhausted (no memory, or too many items under way to
  // consumers), kNotFound (the partition is gone). After a failure the image is of no use, but for
  // want of memory: then the same piece may be given again, and goes on where it was.
  StatusCode Apply(Bytes piece, std::uint64_t now_ms);
  // The end has come, and everything with it.
  bool complete() const { return ended_; }
  std::uint64_t entries() const { return entries_; }

 private:
  StatusCode ApplyEntry(Partition& partition, Bytes* rest, std::uint64_t now_ms);
  StatusCode Begin(Partition& partition, Bytes entry);
  StatusCode AddItem(Partition& partition, Bytes entry, Bytes* rest, std::uint64_t now_ms);
  StatusCode AddPart(Partition& partition, Bytes part, std::uint64_t now_ms);
  StatusCode AddBlock(Partition& partition, std::uint64_t block, Bytes bits);

  CoreStore& core_;
  const PartitionId id_;
  bool begun_ = false;
  bool ended_ = false;
  std::uint64_t entries_ = 0;
  std::size_t applied_ = 0;  // Bytes of the present piece.
  MovedItem large_item_;
  std::optional<ValueWriter> large_;
  std::uint64_t large_written_ = 0;
};

}  // namespace tidepool::storage
