#include "storage/partition_image.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "proto/base/check.h"
#include "proto/base/limits.h"

namespace tidepool::storage {
namespace {

// The first byte of each entry.
enum class Entry : std::uint8_t {
  kBegin = 1,  // BeginEntry.
  kItem = 2,   // MovedItem, then its value.
  kLarge = 3,  // MovedItem, whose value follows in parts.
  kPart = 4,   // 4 bytes of length, then so much of the value.
  kBlock = 5,  // 8 bytes of number, then a block of the filter.
  kEnd = 6,    // 8 bytes: the count of items or blocks.
};

struct BeginEntry {
  std::uint64_t kind = 0;
  std::uint64_t next_id = 0;       // Of a queue.
  std::uint64_t split_blocks = 0;  // Of a filter.
};
static_assert(std::has_unique_object_representations_v<BeginEntry>);
static_assert(std::has_unique_object_representations_v<MovedItem>);

// Values up to this size stand in their item's entry.
constexpr std::size_t kInlineBytesMax = limits::kUnstreamedValueBytesMax;
// Of a piece: at some 100 ns each.
constexpr std::uint64_t kItemsPerPiece = 1'024;
constexpr std::size_t kItemEntryBytes = 1 + sizeof(MovedItem);
constexpr std::size_t kPartHeaderBytes = 1 + sizeof(std::uint32_t);
constexpr std::size_t kBlockHeaderBytes = 1 + sizeof(std::uint64_t);
constexpr std::size_t kEndBytes = 1 + sizeof(std::uint64_t);
static_assert(kImagePieceBytes > kBlockHeaderBytes + limits::kFilterBlockBytes + kEndBytes);
static_assert(kImagePieceBytes > kItemEntryBytes + kInlineBytesMax + kEndBytes);

template <typename T>
bool Take(Bytes* rest, T* value) {
  if (rest->size() < sizeof(T)) return false;
  *value = LoadUnaligned<T>(rest->data());
  *rest = rest->subspan(sizeof(T));
  return true;
}

bool TakeBytes(Bytes* rest, std::uint64_t bytes, Bytes* taken) {
  if (rest->size() < bytes) return false;
  *taken = rest->first(bytes);
  *rest = rest->subspan(bytes);
  return true;
}

}  // namespace

// ---- Writing.

class ImageWriter::Piece {
 public:
  explicit Piece(MutableBytes room) : room_(room) {}
  std::size_t size() const { return used_; }
  std::size_t left() const { return room_.size() - used_; }
  void Add(Entry type) { AddWord(static_cast<std::uint8_t>(type)); }
  template <typename T>
  void AddWord(const T& word) {
    AddBytes(std::as_bytes(std::span(&word, 1)));
  }
  void AddBytes(Bytes bytes) {
    TP_CHECK(bytes.size() <= left());
    if (!bytes.empty()) std::memcpy(room_.data() + used_, bytes.data(), bytes.size());
    used_ += bytes.size();
  }

 private:
  const MutableBytes room_;
  std::size_t used_ = 0;
};

std::size_t ImageWriter::Next(MutableBytes room, std::uint64_t now_ms, bool* ok) {
  TP_CHECK(room.size() == kImagePieceBytes);
  Partition* const partition = core_.Find(id_);
  *ok = partition != nullptr && partition->frozen();
  if (!*ok || ended_) return 0;
  TP_CHECK(partition->IsOneOf(kImageKinds));
  Piece piece(room);
  if (!begun_) Begin(*partition, &piece);
  const bool more = partition->kind() == Kind::kBloom
                        ? AddBlocks(partition->bloom().filter(), &piece)
                        : AddItems(partition->queue(), now_ms, &piece);
  if (!more && piece.left() >= kEndBytes) {
    piece.Add(Entry::kEnd);
    piece.AddWord(entries_);
    ended_ = true;
  }
  return piece.size();
}

void ImageWriter::Begin(Partition& partition, Piece* piece) {
  BeginEntry begin;
  begin.kind = static_cast<std::uint64_t>(partition.kind());
  if (partition.kind() == Kind::kBloom) {
    const BlockFilter& filter = partition.bloom().filter();
    begin.split_blocks = filter.shape().split_blocks;
    for (std::uint64_t block = 0; block < filter.block_count(); ++block) {
      total_ += filter.BlockOffset(block) != 0 ? 1 : 0;
    }
  } else {
    begin.next_id = partition.queue().next_id();
    total_ = partition.queue().size();
  }
  piece->Add(Entry::kBegin);
  piece->AddWord(begin);
  begun_ = true;
}

// True: there is more.
bool ImageWriter::AddItems(QueueStore& queue, std::uint64_t now_ms, Piece* piece) {
  for (std::uint64_t added = 0; added < kItemsPerPiece; ++added) {
    if (large_.has_value()) {
      AddParts(piece);
      if (large_.has_value()) return true;
    }
    // What is larger has an entry without it.
    if (piece->left() < kItemEntryBytes + kInlineBytesMax) return true;
    QueueItem item;
    MovedItem moved;
    if (!queue.NextOfImage(&place_, now_ms, &item, &moved)) {
      if (!core_.blocked()) return false;
      if (piece->size() > 0) core_.SkipWanted();  // What stands here goes first.
      return true;
    }
    const bool is_large = item.extent != nullptr || moved.value_bytes > kInlineBytesMax;
    piece->Add(is_large ? Entry::kLarge : Entry::kItem);
    piece->AddWord(moved);
    ++entries_;
    if (is_large) {
      large_.emplace(ValueReader::Pin(queue, item));
      large_sent_ = 0;
    } else {
      piece->AddBytes(item.value);
    }
  }
  return true;
}

void ImageWriter::AddParts(Piece* piece) {
  while (piece->left() > kPartHeaderBytes && large_sent_ < large_->value_bytes()) {
    const Bytes part = large_->Part(large_sent_, piece->left() - kPartHeaderBytes);
    piece->Add(Entry::kPart);
    piece->AddWord(static_cast<std::uint32_t>(part.size()));
    piece->AddBytes(part);
    large_sent_ += part.size();
  }
  if (large_sent_ == large_->value_bytes()) large_.reset();
}

bool ImageWriter::AddBlocks(const BlockFilter& filter, Piece* piece) {
  for (; block_ < filter.block_count(); ++block_) {
    if (filter.BlockOffset(block_) == 0) continue;  // It has no bits.
    if (piece->left() < kBlockHeaderBytes + filter.block_bytes()) return true;
    piece->Add(Entry::kBlock);
    piece->AddWord(block_);
    piece->AddBytes(filter.Block(block_));
    ++entries_;
  }
  return false;
}

// ---- Reading.

StatusCode ImageReader::Apply(Bytes piece, std::uint64_t now_ms) {
  Partition* const partition = core_.FindIncoming(id_);
  if (partition == nullptr) return StatusCode::kNotFound;
  if (!partition->IsOneOf(kImageKinds)) return StatusCode::kInvalidArgument;
  while (applied_ < piece.size()) {
    Bytes rest = piece.subspan(applied_);
    const StatusCode code = ApplyEntry(*partition, &rest, now_ms);
    if (code != StatusCode::kOk) return code;
    applied_ = piece.size() - rest.size();
  }
  applied_ = 0;
  return StatusCode::kOk;
}

StatusCode ImageReader::ApplyEntry(Partition& partition, Bytes* rest, std::uint64_t now_ms) {
  std::uint8_t type = 0;
  Bytes entry;
  std::uint64_t number = 0;
  std::uint32_t bytes = 0;
  if (!Take(rest, &type) || ended_) return StatusCode::kInvalidArgument;
  const bool is_begin = type == static_cast<std::uint8_t>(Entry::kBegin);
  const bool is_part = type == static_cast<std::uint8_t>(Entry::kPart);
  if (is_begin == begun_ || is_part != large_.has_value()) return StatusCode::kInvalidArgument;
  switch (static_cast<Entry>(type)) {
    case Entry::kBegin:
      if (!TakeBytes(rest, sizeof(BeginEntry), &entry)) break;
      return Begin(partition, entry);
    case Entry::kItem:
      if (!TakeBytes(rest, sizeof(MovedItem), &entry)) break;
      return AddItem(partition, entry, rest, now_ms);
    case Entry::kLarge:
      if (!TakeBytes(rest, sizeof(MovedItem), &entry)) break;
      return AddItem(partition, entry, nullptr, now_ms);
    case Entry::kPart:
      if (!Take(rest, &bytes) || !TakeBytes(rest, bytes, &entry)) break;
      return AddPart(partition, entry, now_ms);
    case Entry::kBlock:
      if (partition.kind() != Kind::kBloom || !Take(rest, &number) ||
          !TakeBytes(rest, partition.bloom().filter().block_bytes(), &entry)) {
        break;
      }
      return AddBlock(partition, number, entry);
    case Entry::kEnd:
      if (!Take(rest, &number) || number != entries_ || !rest->empty()) break;
      ended_ = true;
      return StatusCode::kOk;
  }
  return StatusCode::kInvalidArgument;
}

StatusCode ImageReader::Begin(Partition& partition, Bytes entry) {
  const auto begin = LoadUnaligned<BeginEntry>(entry.data());
  if (begin.kind != static_cast<std::uint64_t>(partition.kind())) {
    return StatusCode::kInvalidArgument;
  }
  begun_ = true;
  if (partition.kind() == Kind::kBloom) {
    return begin.split_blocks == partition.bloom().filter().shape().split_blocks
               ? StatusCode::kOk
               : StatusCode::kInvalidArgument;
  }
  return partition.queue().BeginImport(begin.next_id);
}

// `rest` begins with the value; null: it comes in parts.
StatusCode ImageReader::AddItem(Partition& partition, Bytes entry, Bytes* rest,
                                std::uint64_t now_ms) {
  if (!partition.IsOneOf(kItemKinds)) return StatusCode::kInvalidArgument;
  const auto item = LoadUnaligned<MovedItem>(entry.data());
  if (item.value_bytes > limits::kValueBytesMax) return StatusCode::kInvalidArgument;
  if (rest != nullptr) {
    Bytes value;
    if (item.value_bytes > kInlineBytesMax || !TakeBytes(rest, item.value_bytes, &value)) {
      return StatusCode::kInvalidArgument;
    }
    const StatusCode code = partition.queue().Import(item, value, now_ms);
    if (code == StatusCode::kOk) ++entries_;
    return code;
  }
  if (item.value_bytes == 0) return StatusCode::kInvalidArgument;
  auto writer = ValueWriter::Begin(core_, item.value_bytes);
  if (!writer.ok()) return writer.code();
  ++entries_;
  large_.emplace(*std::move(writer));
  large_item_ = item;
  large_written_ = 0;
  return StatusCode::kOk;
}

StatusCode ImageReader::AddPart(Partition& partition, Bytes part, std::uint64_t now_ms) {
  if (part.empty()) return StatusCode::kInvalidArgument;
  // All is written already where the import has found no memory before.
  if (large_written_ < large_item_.value_bytes) {
    if (large_->refused() && large_written_ == 0) {
      // There may be memory now.
      auto again = ValueWriter::Begin(core_, large_item_.value_bytes);
      if (!again.ok()) return again.code();
      *large_ = *std::move(again);
    }
    const StatusCode written = large_->Write(large_written_, part);
    if (written == StatusCode::kOutOfRange) return StatusCode::kInvalidArgument;
    if (written != StatusCode::kOk) return written;
    large_written_ += part.size();
    if (large_written_ < large_item_.value_bytes) return StatusCode::kOk;
  }
  const StatusCode code = partition.queue().Import(large_item_, *large_, now_ms);
  if (code == StatusCode::kOk) large_.reset();
  return code;
}

StatusCode ImageReader::AddBlock(Partition& partition, std::uint64_t block, Bytes bits) {
  if (block >= partition.bloom().filter().block_count()) return StatusCode::kInvalidArgument;
  partition.bloom().ImportBlock(block, bits);
  ++entries_;
  return StatusCode::kOk;
}

}  // namespace tidepool::storage
