#include "storage/bloom_store.h"

#include <cmath>

#include "proto/base/check.h"
#include "storage/partition.h"

namespace tidepool::storage {

BloomStore::BloomStore(Partition& partition, Log& log, CoreMemory& memory, FilterShape shape,
                       SharedRoot* root)
    : Store(log), partition_(partition) {
  auto filter = BlockFilter::Create(shape, memory, root);
  if (filter.ok()) filter_ = *std::move(filter);
  if (partition.is_durable()) pieces_ = std::make_unique<FilterPieces>(shape.bytes());
}

bool BloomStore::InsertAndTell(std::uint64_t hash) {
  const bool is_new = filter_->InsertAndTell(hash);
  if (!is_new) return false;
  partition_.CountChange();
  if (pieces_ != nullptr) pieces_->NoteChanged(filter_->OffsetOf(hash));
  for (Observer* observer : observers_) observer->OnInsert(hash);
  return true;
}

bool BloomStore::UnionBlock(std::uint64_t block, Bytes bits) {
  const std::uint64_t bits_before = filter_->bits_set();
  filter_->UnionBlock(block, bits);
  if (filter_->bits_set() == bits_before) return false;
  partition_.CountChange();
  NoteBlockChanged(block);
  for (Observer* observer : observers_) observer->OnUnion(block);
  return true;
}

void BloomStore::NoteBlockChanged(std::uint64_t block) {
  if (pieces_ == nullptr) return;
  const std::uint64_t begin = block * filter_->block_bytes();
  for (std::uint64_t at = 0; at < filter_->block_bytes(); at += pieces_->bytes()) {
    pieces_->NoteChanged(begin + at);
  }
}

void BloomStore::ImportBlock(std::uint64_t block, Bytes bits) {
  filter_->UnionBlock(block, bits);
  NoteBlockChanged(block);
}

CheckpointSource::Save BloomStore::SaveSlice(absl::FunctionRef<bool()> done, std::uint64_t* bytes) {
  while (const std::optional<std::uint32_t> piece = pieces_->NextTaken()) {
    if (done()) return CheckpointSource::Save::kMore;
    const FilterPieces::Key key = FilterPieces::KeyOf(*piece);
    LogRecord change;
    change.partition = partition_.id();
    change.key = key.view();
    change.value = filter_->Part(*piece * pieces_->bytes(), pieces_->bytes());
    change.value_bytes = change.value.size();
    const std::uint64_t record_bytes = log_.BytesFor(change);
    // The reserve is for deletes and compaction, which make room.
    const Room room = log_.MakeRoom(Stream::kDurable, record_bytes, MemoryClass::kUser);
    if (room == Room::kNone) return CheckpointSource::Save::kNoRoom;
    pieces_->BeginSave(*piece);
    partition_.Stamp(change);
    const std::uint64_t saved = log_.Append(Stream::kDurable, change, RecordType::kPut, change.lsn);
    std::uint64_t& location = pieces_->location(*piece);
    if (location != 0) KillRecord(location, {});
    location = saved;
    *bytes += record_bytes;
  }
  return CheckpointSource::Save::kDone;
}

bool BloomStore::Adopt(Bytes key, std::uint64_t location, Bytes bits) {
  const auto piece = pieces_->PieceOf(key);
  if (!piece.has_value() || pieces_->location(*piece) != 0) return false;
  if (!bits.empty() && bits.size() != pieces_->bytes()) return false;
  pieces_->location(*piece) = location;
  if (!bits.empty()) filter_->UnionPart(*piece * pieces_->bytes(), bits);
  return true;
}

bool BloomStore::UnionSlice(const BloomStore& other, std::uint64_t* block,
                            std::uint64_t blocks_max) {
  const BlockFilter& from = *other.filter_;
  TP_CHECK(from.shape() == filter_->shape());
  for (std::uint64_t done = 0; *block < from.block_count() && done < blocks_max; ++*block) {
    if (from.BlockOffset(*block) == 0) continue;
    UnionBlock(*block, from.Block(*block));
    ++done;
  }
  return *block < from.block_count();
}

std::uint64_t BloomStore::size() const {
  // Freed: its bits are gone with its memory.
  if (filter_->allocated_bytes() == 0) return 0;
  return static_cast<std::uint64_t>(std::llround(filter_->EstimatedItems()));
}

IndexUsage BloomStore::index_usage() const {
  return {.used_bytes = filter_->allocated_bytes(), .allocated_bytes = filter_->allocated_bytes()};
}

// Nothing that a observer hears of happens to a filter: values do not expire, and filters have no
// replicas.
Lsn BloomStore::Apply(const LogRecord& /*record*/) {
  TP_CHECK(false);
  return {};
}

std::uint64_t* BloomStore::FindSlot(const RecordHeader& record, std::uint64_t location) {
  if (pieces_ == nullptr) return nullptr;
  const auto piece = pieces_->PieceOf(Log::KeyOf(record));
  if (!piece.has_value() || pieces_->location(*piece) != location) return nullptr;
  return &pieces_->location(*piece);
}
void BloomStore::Relocate(std::uint64_t* slot, const RecordHeader& /*record*/,
                          std::uint64_t moved) {
  *slot = moved;
}
void BloomStore::Discard(std::uint64_t* slot, std::uint64_t location) {
  *slot = 0;
  KillRecord(location, {});
}
// There are no tombstones of pieces.
bool BloomStore::HasKey(Bytes /*key*/) { return false; }
void BloomStore::VisitRecords(absl::FunctionRef<void(std::uint64_t)> visit) const {
  if (pieces_ == nullptr) return;
  for (const std::uint64_t location : pieces_->locations()) {
    if (location != 0) visit(location);
  }
}

bool BloomStore::IndexSlice(absl::FunctionRef<bool()> done) { return filter_->TouchSlice(done); }

bool BloomStore::FreeSlice(std::uint64_t* position, absl::FunctionRef<bool()> done) {
  for (; pieces_ != nullptr && *position < pieces_->count(); ++*position) {
    if (done()) return true;
    std::uint64_t& location = pieces_->location(static_cast<std::uint32_t>(*position));
    if (location != 0) Discard(&location, location);
  }
  return filter_->FreeSlice(done);
}

void BloomStore::CheckInvariants() const {
  if (filter_->allocated_bytes() == filter_->shape().bytes()) filter_->CheckInvariants();
}

}  // namespace tidepool::storage
