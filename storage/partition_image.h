// Content of a queue, priority or bloom partition, as pieces of bytes from which another core
// builds the same partition.
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
// Size of a piece: room for a block of a filter, or for some items, and some 100 us of work.
inline constexpr std::size_t kImagePieceBytes = 256 * 1024;

// An image consists of entries, each in a single piece: a beginning, then items in no particular
// order (a large value follows its item in parts) or blocks of the filter, then an end with their
// count. Times are remaining times, since clocks differ: the transfer time of the image is added to
// leases and lives. Item numbers continue; versions begin anew under the term of the reader's
// partition, which must be at least the writer's.

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
  std::optional<ValueReader> large_;  // Value of the next parts.
  std::uint64_t large_sent_ = 0;
};

// Owner core only, destroyed there too. The store must outlive it.
class ImageReader {
 public:
  // `partition` must be empty and unused: see CoreStore::AddIncoming.
  ImageReader(CoreStore& core, PartitionId partition) : core_(core), id_(partition) {}

  // Adds the next piece: some 100 us. Returns: kOk, kInvalidArgument (malformed, or of another
  // kind, shape or order), kResourceExhausted (no memory, or too many items under way to
  // consumers), kNotFound (the partition is gone). After a failure the image is useless, except for
  // lack of memory: then give the same piece again, and it continues.
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
