// Filling unpublished memory, and keeping published memory while it is sent.
#include "storage/value_io.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "proto/base/check.h"
#include "proto/base/limits.h"
#include "storage/core_store.h"
#include "storage/log.h"

namespace tidepool::storage {
namespace {

// Time after that an idle writer loses its memory to others.
constexpr std::uint64_t kIdleMs = 10'000;
// Blocks beside the value's own: for the log and for tables.
constexpr std::uint64_t kPublishBlocks = 2;

}  // namespace

Result<ValueWriter> ValueWriter::Begin(CoreStore& core, std::uint64_t value_bytes) {
  if (value_bytes > limits::kValueBytesMax) {
    return Status(
        StatusCode::kOutOfRange,
        "a value of " + std::to_string(value_bytes) + " bytes is above the limit of 1 GiB",
        "split it over several keys");
  }
  Log& log = core.log_;
  ValueWriter writer(&log, value_bytes);
  // Small values take no lock while memory is plenty.
  const bool is_large = !writer.segments_.empty();
  if (!is_large && (!log.spills() || core.has_plenty()) && writer.Prepare()) return writer;
  if (log.spills()) {
    TP_RETURN_IF_ERROR(writer.Reserve(core));
    return writer;
  }
  const std::uint64_t room =
      log.memory().BlocksAvailable() * log.segment_bytes() + log.dead_bytes();
  if (is_large && value_bytes > room) {
    return Status(StatusCode::kResourceExhausted,
                  "no memory for a value of " + std::to_string(value_bytes) + " bytes; " +
                      std::to_string(room) + " are left",
                  "delete something, or start with more --memory");
  }
  if (!writer.Prepare()) {
    log.NoteRefused();
    return Status(StatusCode::kResourceExhausted,
                  "no memory for a value of " + std::to_string(value_bytes) + " bytes",
                  "delete something, or start with more --memory");
  }
  return writer;
}

std::uint64_t ValueWriter::BlocksFor(const ExtentShape& shape) {
  return shape.segments + (shape.remainder_bytes != 0 ? 1 : 0) + kPublishBlocks;
}

std::uint64_t ValueWriter::BytesMax(CoreStore& core) {
  constexpr std::uint64_t kOthers = kPublishBlocks + 1;
  const std::uint64_t blocks = core.log_.memory().pool().ValueBlocksMax();
  return (blocks - std::min(blocks, kOthers)) * ExtentSegmentCapacity(core.log_.segment_bytes());
}

Status ValueWriter::Reserve(CoreStore& core) {
  ExtentShape shape{segments_.size(), staged_bytes_};
  const std::uint64_t blocks = BlocksFor(shape);
  if (blocks > log_->memory().pool().ValueBlocksMax()) {
    return Status(StatusCode::kResourceExhausted,
                  "a value of " + std::to_string(value_bytes_) +
                      " bytes can never fit the memory of this node, which takes values of up to " +
                      std::to_string(BytesMax(core)) + " bytes",
                  "start the daemons with more --memory, or split it over several keys");
  }
  core_ = &core;
  written_ms_ = core.NowMs();
  reservation_ = core.Reserve(Reservation::Kind::kValue, blocks);
  log_->AddWriter(this);
  return OkStatus();
}

void ValueWriter::RevokeIfIdle(std::uint64_t now_ms) {
  if (!revocable_ || reservation_->state() != Reservation::State::kGranted) {
    written_ms_ = now_ms;
    return;
  }
  if (now_ms < written_ms_ + kIdleMs) return;
  Log* const log = log_;
  Release();
  log_ = log;
  revoked_ = true;
}

ValueWriter::ValueWriter(Log* log, std::uint64_t value_bytes)
    : log_(log), value_bytes_(value_bytes), staged_bytes_(value_bytes) {
  if (value_bytes > log->extent_threshold_bytes()) {
    const ExtentShape shape = ShapeOfExtent(value_bytes, log->segment_bytes());
    segments_.resize(shape.segments);
    staged_bytes_ = shape.remainder_bytes;
  }
}

bool ValueWriter::Prepare() {
  if (staged_bytes_ != 0 && staged_ == 0) staged_ = log_->AllocateChunk(StagedChunkBytes());
  return staged_bytes_ == 0 || staged_ != 0;
}

void ValueWriter::ShareSegments(std::span<const std::uint32_t> segments) {
  TP_CHECK(segments.size() <= segments_.size());
  std::copy(segments.begin(), segments.end(), segments_.begin());
  shared_ = segments.size();
}

void ValueWriter::UnshareSegments() {
  std::fill_n(segments_.begin(), std::exchange(shared_, 0), 0u);
}

ValueWriter::ValueWriter(ValueWriter&& other) noexcept { MoveFrom(other); }

ValueWriter& ValueWriter::operator=(ValueWriter&& other) noexcept {
  if (this == &other) return *this;
  Release();
  MoveFrom(other);
  return *this;
}

void ValueWriter::MoveFrom(ValueWriter& other) {
  if (other.reservation_ != nullptr) {
    other.log_->RemoveWriter(&other);
    other.log_->AddWriter(this);
  }
  log_ = std::exchange(other.log_, nullptr);
  value_bytes_ = other.value_bytes_;
  segments_ = std::move(other.segments_);
  other.segments_.clear();
  shared_ = std::exchange(other.shared_, 0);
  staged_ = std::exchange(other.staged_, 0);
  staged_bytes_ = other.staged_bytes_;
  reservation_ = std::move(other.reservation_);
  core_ = other.core_;
  written_ms_ = other.written_ms_;
  revocable_ = other.revocable_;
  revoked_ = other.revoked_;
}

ValueWriter::~ValueWriter() { Release(); }

void ValueWriter::Release() {
  if (log_ == nullptr) return;
  for (const std::uint32_t index : segments_) {
    if (index != 0) log_->KillExtentSegment(index);
  }
  segments_.clear();
  if (staged_ != 0) log_->memory().FreeChunk(staged_, StagedChunkBytes());
  staged_ = 0;
  if (reservation_ != nullptr) {
    log_->RemoveWriter(this);
    // Waiters may share it.
    reservation_->Cancel();
    reservation_ = nullptr;
  }
  log_ = nullptr;
}

std::uint64_t ValueWriter::StagedChunkBytes() const {
  return std::max(std::bit_ceil(staged_bytes_), kChunkBytesMin);
}

bool ValueWriter::Complete() const {
  return log_ != nullptr && !revoked_ && !waits() && !refused() &&
         (staged_bytes_ == 0 || staged_ != 0) &&
         std::find(segments_.begin(), segments_.end(), 0u) == segments_.end();
}

Bytes ValueWriter::Staged() const {
  if (staged_bytes_ == 0) return {};
  return {log_->memory().At(staged_), static_cast<std::size_t>(staged_bytes_)};
}

ReservationScope ValueWriter::UseReservation() const {
  CoreMemory& memory = log_->memory();
  return {memory, reservation_ != nullptr ? reservation_.get() : memory.reservation()};
}

StatusCode ValueWriter::Refused() const {
  // With a reservation the kernel has no memory, and waiting brings none.
  if (reservation_ == nullptr) {
    log_->NoteRefused(BlocksFor({segments_.size() - shared_, staged_bytes_}));
  }
  return StatusCode::kResourceExhausted;
}

StatusCode ValueWriter::Write(std::uint64_t offset, Bytes part) {
  TP_CHECK(log_ != nullptr);
  if (offset > value_bytes_ || part.size() > value_bytes_ - offset) return StatusCode::kOutOfRange;
  if (revoked_) return StatusCode::kAborted;
  if (reservation_ != nullptr) {
    // Read once: the state may change at any moment.
    const Reservation::State state = reservation_->state();
    if (state == Reservation::State::kWaits) log_->NoteRefused(kOperationBlocks, reservation_);
    if (state != Reservation::State::kGranted) return StatusCode::kResourceExhausted;
  }
  if (core_ != nullptr) written_ms_ = core_->LastNowMs();
  const ReservationScope scope = UseReservation();
  if (!Prepare()) return Refused();
  const std::uint64_t capacity = ExtentSegmentCapacity(log_->segment_bytes());
  // All memory first: a part is written whole or not at all.
  if (!part.empty()) {
    const std::uint64_t last =
        std::min<std::uint64_t>((offset + part.size() - 1) / capacity + 1, segments_.size());
    for (std::uint64_t i = offset / capacity; i < last; ++i) {
      if (segments_[i] == 0) segments_[i] = log_->AllocateExtentSegment();
      if (segments_[i] == 0) return Refused();
    }
  }
  while (!part.empty()) {
    const std::uint64_t index = offset / capacity;
    std::byte* to = nullptr;
    std::uint64_t room = 0;
    if (index < segments_.size()) {
      const MutableBytes bytes = log_->ExtentBytes(segments_[index], offset % capacity);
      to = bytes.data();
      room = bytes.size();
    } else {
      const std::uint64_t staged_at = offset - segments_.size() * capacity;
      to = log_->memory().At(staged_) + staged_at;
      room = staged_bytes_ - staged_at;
    }
    const std::size_t count = std::min<std::uint64_t>(room, part.size());
    std::memcpy(to, part.data(), count);
    part = part.subspan(count);
    offset += count;
  }
  return StatusCode::kOk;
}

ValueReader ValueReader::Pin(Store& store, const StoredValue& stored) {
  TP_CHECK(stored.location != 0);
  Log& log = store.log_;
  ValueReader reader;
  reader.log_ = &log;
  reader.value_bytes_ = stored.value_bytes;
  reader.fetched_ = log.FetchedBuffer(stored.location);
  if (reader.fetched_ == nullptr) {
    reader.record_segment_ = log.segments().IndexOf(stored.location);
    log.Pin(reader.record_segment_);
  }
  reader.tail_ = stored.value;
  if (stored.extent != nullptr) {
    reader.tail_ = stored.extent->remainder;
    reader.extent_segments_.assign(stored.extent->segments.begin(), stored.extent->segments.end());
    for (const std::uint32_t index : reader.extent_segments_) log.Pin(index);
  }
  return reader;
}

ValueReader::ValueReader(ValueReader&& other) noexcept
    : log_(std::exchange(other.log_, nullptr)),
      value_bytes_(other.value_bytes_),
      extent_segments_(std::move(other.extent_segments_)),
      record_segment_(other.record_segment_),
      fetched_(std::move(other.fetched_)),
      tail_(other.tail_) {
  other.extent_segments_.clear();
}

ValueReader& ValueReader::operator=(ValueReader&& other) noexcept {
  if (this == &other) return *this;
  Release();
  log_ = std::exchange(other.log_, nullptr);
  value_bytes_ = other.value_bytes_;
  extent_segments_ = std::move(other.extent_segments_);
  other.extent_segments_.clear();
  record_segment_ = other.record_segment_;
  fetched_ = std::move(other.fetched_);
  tail_ = other.tail_;
  return *this;
}

ValueReader::~ValueReader() { Release(); }

void ValueReader::Release() {
  if (log_ == nullptr) return;
  if (fetched_ == nullptr) log_->Unpin(record_segment_);
  fetched_ = nullptr;
  for (const std::uint32_t index : extent_segments_) log_->Unpin(index);
  extent_segments_.clear();
  log_ = nullptr;
}

Bytes ValueReader::Part(std::uint64_t offset, std::uint64_t bytes_max) const {
  if (offset >= value_bytes_ || log_ == nullptr) return {};
  const std::uint64_t capacity = ExtentSegmentCapacity(log_->segment_bytes());
  const std::uint64_t index = offset / capacity;
  Bytes rest;
  if (index < extent_segments_.size()) {
    rest = log_->ExtentBytes(extent_segments_[index], offset % capacity);
  } else {
    rest = tail_.subspan(offset - extent_segments_.size() * capacity);
  }
  return rest.first(std::min({rest.size(), static_cast<std::size_t>(bytes_max),
                              static_cast<std::size_t>(value_bytes_ - offset)}));
}

}  // namespace tidepool::storage
