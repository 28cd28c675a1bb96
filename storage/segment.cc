// Begin and end of a segment's life, in the order that readers in other processes rely on.
#include "storage/segment.h"

#include <atomic>
#include <cstring>

namespace tidepool::storage {

SegmentTable::SegmentTable(CoreMemory& memory, CoreId core, std::uint64_t spilled_max,
                           std::uint64_t incarnation)
    : memory_(memory),
      core_(core),
      offset_bits_(OffsetBits(memory.block_bytes())),
      offset_mask_((1ull << offset_bits_) - 1),
      pages_(memory, nullptr),
      incarnation_(incarnation),
      first_number_((incarnation << 32) + 1),
      next_number_(first_number_) {
  // Reserved at once: growing under an operation would copy a vector per doubling.
  const std::size_t count = memory.block_count_max() + spilled_max + 1;
  bases_.reserve(count);
  segments_.reserve(count);
  free_.reserve(count);
  bases_.push_back(nullptr);
  segments_.emplace_back();
}

SegmentTable::~SegmentTable() {
  for (std::uint32_t index = 1; index < end(); ++index) {
    if (segments_[index].frame != 0) memory_.FreeBlock(segments_[index].frame);
  }
  for (SegmentEntry* page : entries_) memory_.FreeChunk(memory_.OffsetOf(page), kChunkBytesMin);
}

std::uint32_t SegmentTable::TakeIndex() {
  if (!free_.empty()) {
    const std::uint32_t index = free_.back();
    free_.pop_back();
    return index;
  }
  const std::uint32_t index = end();
  TP_CHECK(index < bases_.capacity());
  if (index / kSegmentEntriesPerPage >= entries_.size()) {
    const std::uint64_t page = memory_.AllocateChunk(kChunkBytesMin);
    if (page == 0) return 0;
    auto* entries = reinterpret_cast<SegmentEntry*>(memory_.At(page));
    std::memset(entries, 0, kChunkBytesMin);
    if (!pages_.Set(index / kSegmentEntriesPerPage, page)) {
      memory_.FreeChunk(page, kChunkBytesMin);
      return 0;
    }
    entries_.push_back(entries);
  }
  bases_.push_back(nullptr);
  segments_.emplace_back();
  return index;
}

std::uint32_t SegmentTable::Begin(SegmentKind kind, Stream stream, MemoryClass memory_class) {
  const std::uint64_t frame = memory_.AllocateBlock(memory_class);
  if (frame == 0) return 0;
  const std::uint32_t index = TakeIndex();
  if (index == 0) {
    memory_.FreeBlock(frame);
    return 0;
  }
  Segment& segment = segments_[index];
  TP_CHECK(segment.state == SegmentState::kFree);
  segment = Segment{};
  segment.number = next_number_++;
  segment.stream = stream;
  segment.extent = kind == SegmentKind::kExtent;
  segment.state = kind == SegmentKind::kLog ? SegmentState::kOpen : SegmentState::kExtent;
  segment.used = kind == SegmentKind::kLog ? sizeof(SegmentHeader) : kExtentHeaderBytes;
  ++in_use_;

  SegmentHeader header{};
  header.magic = kSegmentMagic;
  header.number = segment.number;
  header.incarnation = incarnation_;
  header.core = core_.value();
  header.stream = static_cast<std::uint8_t>(stream);
  header.kind = kind;
  header.index = index;
  std::memcpy(memory_.At(frame), &header, sizeof header);
  ShowMemory(index, frame);
  return index;
}

std::uint32_t SegmentTable::AddSpilled(std::uint64_t number, Stream stream) {
  TP_CHECK(number < first_number_);
  const std::uint32_t index = TakeIndex();
  if (index == 0) return 0;
  Segment& segment = segments_[index];
  segment = Segment{};
  segment.number = number;
  segment.stream = stream;
  segment.state = SegmentState::kSpilled;
  segment.used = sizeof(SegmentHeader);
  ++in_use_;
  return index;
}

void SegmentTable::ShowMemory(std::uint32_t index, std::uint64_t frame) {
  segments_[index].frame = frame;
  bases_[index] = memory_.At(frame);
  ++resident_;
  SegmentEntry& entry = entries_[index / kSegmentEntriesPerPage][index % kSegmentEntriesPerPage];
  std::atomic_ref(entry.frame).store(frame, std::memory_order_relaxed);
  std::atomic_ref(entry.word).store(entry.word | kSegmentResident, std::memory_order_release);
}

void SegmentTable::HideMemory(std::uint32_t index) {
  SegmentEntry& entry = entries_[index / kSegmentEntriesPerPage][index % kSegmentEntriesPerPage];
  // Raised before the memory can be written by anybody: a reader that saw the old word fails.
  std::atomic_ref(entry.word)
      .store((entry.word & ~kSegmentResident) + kSegmentGenerationStep, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_release);
  Segment& segment = segments_[index];
  if (segment.frame == 0) return;
  bases_[index] = nullptr;
  memory_.FreeBlock(segment.frame);
  segment.frame = 0;
  TP_CHECK(resident_ > 0);
  --resident_;
}

void SegmentTable::Free(std::uint32_t index) {
  Segment& segment = segments_[index];
  TP_CHECK(segment.state == SegmentState::kDead);
  TP_CHECK(segment.pins == 0);
  HideMemory(index);
  segment.state = SegmentState::kFree;
  free_.push_back(index);
  TP_CHECK(in_use_ > 0);
  --in_use_;
}

void SegmentTable::LeaveMemory(std::uint32_t index) {
  Segment& segment = segments_[index];
  TP_CHECK(segment.state == SegmentState::kWriting);
  TP_CHECK(segment.pins == 0);
  TP_CHECK(segment.slot != 0);
  HideMemory(index);
  segment.state = SegmentState::kSpilled;
}

void SegmentTable::ReturnToMemory(std::uint32_t index, std::uint64_t frame) {
  TP_CHECK(segments_[index].state == SegmentState::kSpilled);
  ShowMemory(index, frame);
  segments_[index].state = segments_[index].extent ? SegmentState::kExtent : SegmentState::kSealed;
}

}  // namespace tidepool::storage
