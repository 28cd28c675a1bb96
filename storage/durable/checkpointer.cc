#include "storage/durable/checkpointer.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "proto/base/check.h"
#include "proto/base/failpoint.h"
#include "proto/base/log.h"
#include "storage/nvm/record_check.h"
#include "storage/spill/spiller.h"

namespace tidepool::storage {
namespace {

constexpr unsigned kCheckpointerQueueDepth = 16;
constexpr unsigned kCheckpointSubmitMax = 4;
// Like the spiller: 8 MiB under way.
constexpr std::uint32_t kCheckpointWritesMax = 4;
// Slots of each core that clients' writes leave to deletes and compaction: compaction frees slots
// only behind the next checkpoint.
constexpr std::uint64_t kSlotsKept = 4;
// While many segments leave.
constexpr std::uint64_t kCheckpointsPerIntervalMax = 16;
// Bound on the copying of state into the log: a filter of 1 GiB with inserts everywhere is saved
// once in four seconds.
constexpr std::uint64_t kSavedBytesPerMs = 256 * 1024;

}  // namespace

Checkpointer::Checkpointer(Log& log, Volume& volume, CommitRing& ring, CheckpointSource& source,
                           CoreId core, std::uint64_t interval_ms)
    : log_(log),
      volume_(volume),
      ring_(ring),
      source_(source),
      core_(core),
      interval_ms_(interval_ms),
      slots_kept_(kSlotsKept * volume.layout(0).cores),
      sequence_(volume.incarnation() << 32),
      first_(log.segments().first_number()),
      next_after_ms_(interval_ms) {}

Status Checkpointer::Open() {
  auto queues = volume_.OpenQueues(kCheckpointerQueueDepth);
  if (!queues.ok()) return queues.status();
  queues_ = *std::move(queues);
  return OkStatus();
}

Checkpointer::~Checkpointer() {
  queues_.clear();
}  // First: devices still use memory that goes with this.

void Checkpointer::GoOn(const Checkpoint& last, std::uint64_t block,
                        std::span<const std::uint64_t> segments) {
  TP_CHECK(counters_.checkpoints == 0);
  for (const std::uint64_t number : segments) segments_.Add(number);
  in_use_ = true;
  sequence_ = std::max(sequence_, last.sequence);
  block_ = (block + 1) % kCheckpointSlotsPerCore;
  durable_at_ms_ = last.at_ms;
  first_ = last.first;
}

// ---- Segments.

void Checkpointer::NoteSealed(std::uint32_t segment) {
  const Segment& sealed = log_.segments()[segment];
  sealed_.push_back({segment, sealed.number});
  ++unwritten_;
  if (!sealed.extent) segments_.Add(sealed.number);
  // A footer stands at the segment's end. The gap before it is small, except in a segment that is
  // sealed before it is full, which is rare.
  AddPiece(segment, UpToBlock(sealed.extent ? sealed.used : log_.segment_bytes()), true);
}

void Checkpointer::AddPiece(std::uint32_t index, std::uint32_t to, bool sealed) {
  Segment& segment = log_.segments()[index];
  TP_CHECK(segment.written_to < to);
  TP_CHECK(segment.frozen_to == segment.used);
  Piece piece;
  piece.segment = index;
  piece.from = segment.written_to;
  piece.at = std::max<std::uint32_t>(piece.from,
                                     segment.extent ? kExtentHeaderBytes : sizeof(SegmentHeader));
  piece.to = to;
  piece.sealed = sealed;
  segment.written_to = to;
  ++segment.writes;
  log_.Pin(index);
  pieces_.push_back(piece);
}

// True: all of it has its checksums.
bool Checkpointer::ChecksumOn(Piece& piece, absl::FunctionRef<bool()> done) {
  const Segment& segment = log_.segments()[piece.segment];
  std::byte* const base = log_.segments().Base(piece.segment);
  const std::uint32_t end = piece.sealed ? segment.used : piece.to;
  while (piece.at < end) {
    if (done()) return false;
    if (segment.extent) {
      StoreUnaligned(base + ExtentPieceSlot(piece.at),
                     ExtentChecksum(base, piece.at, segment.used, segment.number));
      piece.at = std::min(piece.at + static_cast<std::uint32_t>(kExtentPieceBytes), end);
      continue;
    }
    RecordHeader& record = *log_.At(log_.segments().LocationOf(piece.segment, piece.at));
    TP_CHECK(record.sequence % 2 == 0);
    const std::uint64_t bytes = log_.BytesOf(record);
    record.crc32c = RecordChecksum(record, bytes, segment.number);
    piece.at += static_cast<std::uint32_t>(bytes);
  }
  TP_CHECK(piece.at == end);
  if (piece.from == 0) {
    auto* header = reinterpret_cast<SegmentHeader*>(base);
    header->crc32c = SegmentChecksum(*header);
  }
  if (!piece.sealed) return true;
  if (!segment.extent) return WriteFooterOn(piece, done);
  // The remains of the block's earlier use must not reach the device.
  std::memset(base + end, 0, piece.to - end);
  return true;
}

// Writes the footer, and zeros before it, until `done()`. True: the footer is complete.
bool Checkpointer::WriteFooterOn(Piece& piece, absl::FunctionRef<bool()> done) {
  const Segment& segment = log_.segments()[piece.segment];
  std::byte* const base = log_.segments().Base(piece.segment);
  if (!piece.footer.has_value()) {
    piece.footer.emplace(MutableBytes(base, log_.segment_bytes()), segment.number);
  }
  while (piece.footer_at < segment.used) {
    if (done()) return false;
    const RecordHeader& record =
        *log_.At(log_.segments().LocationOf(piece.segment, piece.footer_at));
    piece.footer->Add(record, piece.footer_at);
    piece.footer_at += static_cast<std::uint32_t>(log_.BytesOf(record));
  }
  const std::size_t end = piece.footer->begin();
  TP_CHECK(end >= segment.used + sizeof(RecordHeader));
  std::memset(base + segment.used, 0, end - segment.used);
  auto* last = reinterpret_cast<RecordHeader*>(base + segment.used);
  last->crc32c = RecordChecksum(*last, sizeof *last, segment.number);
  piece.footer->Finish(segment.used, segment.expiry_min_ms);
  return true;
}

bool Checkpointer::Slice(std::uint64_t now_ms, absl::FunctionRef<bool()> done) {
  if (failed_ != StatusCode::kOk) return false;
  if (cut_.step == Step::kNone && (saving_.under_way || IsDue(now_ms)) && SaveOn(now_ms, done)) {
    return true;
  }
  while (!pieces_.empty() && writes_ < kCheckpointWritesMax && failed_ == StatusCode::kOk) {
    if (!ChecksumOn(pieces_.front(), done)) return true;
    Io io;
    io.what = Io::What::kPiece;
    io.piece = pieces_.front();
    pieces_.pop_front();
    ++writes_;
    StartIo(io);
  }
  return false;
}

// ---- Checkpoints.

bool Checkpointer::HasChanged() const {
  return !sealed_.empty() || !released_.empty() || !log_.IsCut(Stream::kDurable) ||
         !log_.IsCut(Stream::kDurableRelocated) || source_.HasUnsaved();
}

bool Checkpointer::IsDue(std::uint64_t now_ms) const {
  // After a checkpoint that lacked room, the next may find room behind it, or not at once.
  if (!was_whole_ && now_ms - began_at_ms_ < interval_ms_ / kCheckpointsPerIntervalMax)
    return false;
  if (!persist_.empty() || ring_.WantsCheckpoint()) return true;
  if (!HasChanged()) return false;
  if (now_ms - began_at_ms_ >= next_after_ms_) return true;
  // A checkpoint has room for some segments that leave; slots are to come back as fast as they go.
  if (released_.size() > kCheckpointLeavingMax &&
      now_ms - began_at_ms_ >= interval_ms_ / kCheckpointsPerIntervalMax) {
    return true;
  }
  return !released_.empty() && volume_.slots_free() <= 2 * slots_kept_;
}

// True: not all is in the log yet that the next checkpoint is to have.
bool Checkpointer::SaveOn(std::uint64_t now_ms, absl::FunctionRef<bool()> done) {
  if (!saving_.under_way) {
    saving_ = {true, now_ms, 0, std::exchange(persist_, {})};
    source_.BeginSave();
  }
  const CheckpointSource::Save saved = source_.SaveSlice(done, &saving_.bytes);
  if (saved == CheckpointSource::Save::kMore) return true;
  saving_.under_way = false;
  // A partial save still leads to a checkpoint: slots become free behind it. Its callers keep
  // waiting for a whole save.
  const bool is_whole = saved == CheckpointSource::Save::kDone;
  next_after_ms_ = std::max(interval_ms_, saving_.bytes / kSavedBytesPerMs);
  cut_.done = std::exchange(saving_.done, {});
  if (!is_whole) {
    persist_.insert(persist_.begin(), std::make_move_iterator(cut_.done.begin()),
                    std::make_move_iterator(cut_.done.end()));
    cut_.done.clear();
  }
  began_at_ms_ = now_ms;
  was_whole_ = is_whole;
  Begin(is_whole ? saving_.since_ms : durable_at_ms_);
  return false;
}

void Checkpointer::Begin(std::uint64_t at_ms) {
  ++counters_.begun;
  if (std::exchange(is_last_, false)) (void)log_.SealDurable();
  Checkpoint checkpoint;
  checkpoint.volume = volume_.found(0).volume;
  checkpoint.core = core_.value();
  checkpoint.sequence = ++sequence_;
  checkpoint.incarnation = volume_.incarnation();
  checkpoint.at_ms = at_ms;
  checkpoint.first = first_;
  std::size_t open = 0;
  for (const Stream stream : {Stream::kDurable, Stream::kDurableRelocated}) {
    const Log::OpenEnd end = log_.Cut(stream);
    if (end.index == 0) continue;
    const Segment& segment = log_.segments()[end.index];
    checkpoint.open[open++] = {segment.number, end.end};
    if (end.end > segment.written_to && end.end % kDeviceBlockBytes == 0) {
      AddPiece(end.index, end.end, false);
    }
  }
  checkpoint.next = log_.segments().next_number();
  checkpoint.ring = ring_.Cut();
  checkpoint.lost_below = log_.lost_below();
  ListLeaving(&checkpoint);
  checkpoint.segments = segments_;
  for (const Checkpoint::Open& each : checkpoint.open) {
    if (each.end != 0) checkpoint.segments.Add(each.number);
  }
  cut_.checkpoint = checkpoint;
  cut_.left = pieces_.size() + writes_;
  for (Piece& piece : pieces_) piece.in_cut = true;
  for (Io& io : ios_) {
    if (io.what == Io::What::kPiece) io.piece.in_cut = true;
  }
  cut_.sealed = std::exchange(sealed_, {});
  cut_.step = Step::kWriting;
  Advance();
}

// Takes further steps of the checkpoint, while no request of the present step is left.
void Checkpointer::Advance() {
  while (cut_.left == 0 && failed_ == StatusCode::kOk) {
    switch (cut_.step) {
      case Step::kNone:
        return;
      case Step::kWriting:
        TP_FAILPOINT("checkpoint.written");
        cut_.step = Step::kFlushing;
        cut_.left = queues_.size();
        for (std::size_t device = 0; device < queues_.size(); ++device) {
          Io io;
          io.what = Io::What::kFlush;
          io.device = device;
          StartIo(io);
        }
        break;
      case Step::kFlushing: {
        TP_FAILPOINT("checkpoint.flushed");
        cut_.step = Step::kCheckpointing;
        cut_.left = 1;
        EncodeCheckpoint(cut_.checkpoint, checkpoint_block_.bytes());
        Io io;
        io.what = Io::What::kMark;
        StartIo(io);
        break;
      }
      case Step::kCheckpointing:
        return FinishCut();
    }
  }
}

void Checkpointer::FinishCut() {
  TP_FAILPOINT("checkpoint.durable");
  cut_.step = Step::kNone;
  ring_.FinishCut();
  block_ = (block_ + 1) % kCheckpointSlotsPerCore;
  durable_at_ms_ = cut_.checkpoint.at_ms;
  ++counters_.checkpoints;
  for (const SealedSegment& sealed : cut_.sealed) {
    Segment& segment = log_.segments()[sealed.segment];
    if (segment.number == sealed.number) segment.marked = true;
  }
  cut_.sealed.clear();
  ReleaseSlots();
  for (Done& done : cut_.done) to_call_.emplace_back(std::move(done), OkStatus());
  cut_.done.clear();
}

void Checkpointer::Persist(Done done, bool is_last) {
  is_last_ = is_last_ || is_last;
  if (failed_ != StatusCode::kOk) {
    to_call_.emplace_back(std::move(done), failure_);
  } else {
    persist_.push_back(std::move(done));
  }
}

Status Checkpointer::FinishCheckpoint(std::uint64_t now_ms) {
  bool ended = false;
  Status status;
  Persist([&](Status outcome) {
    ended = true;
    status = std::move(outcome);
  });
  while (!ended) {
    (void)Slice(now_ms, [] { return false; });
    for (const auto& queue : queues_) queue->Wait(1'000);
    (void)Poll();
  }
  return status;
}

void Checkpointer::Fail(int error, const char* what) {
  if (failed_ != StatusCode::kOk) return;
  failed_ = StatusCode::kDeviceError;
  failure_ = Status(StatusCode::kDeviceError,
                    std::string("the device failed to ") + what + ": " + std::strerror(error),
                    "replace the device; what is durable is as it was at the last checkpoint");
  log::Error(failure_.ToString() + "; nothing becomes durable any more");
  log_.EndDurable();
  ring_.Stop();
  for (Done& done : cut_.done) to_call_.emplace_back(std::move(done), failure_);
  for (Done& done : saving_.done) to_call_.emplace_back(std::move(done), failure_);
  for (Done& done : persist_) to_call_.emplace_back(std::move(done), failure_);
  cut_.done.clear();
  saving_ = {};
  persist_.clear();
  for (const Piece& piece : pieces_) {
    --log_.segments()[piece.segment].writes;
    log_.Unpin(piece.segment);
  }
  pieces_.clear();
}

// ---- Requests.

void Checkpointer::StartIo(Io io) {
  std::uint32_t index = static_cast<std::uint32_t>(ios_.size());
  if (free_ios_.empty()) {
    ios_.push_back(std::move(io));
  } else {
    index = free_ios_.back();
    free_ios_.pop_back();
    ios_[index] = std::move(io);
  }
  Start(index);
}

void Checkpointer::Start(std::uint32_t index) {
  Io& io = ios_[index];
  DeviceRequest request;
  request.tag = index;
  switch (io.what) {
    case Io::What::kPiece: {
      const SlotPlace place = volume_.Place(log_.segments()[io.piece.segment].slot - 1);
      io.device = place.device;
      request.operation = DeviceOperation::kWrite;
      request.offset = place.offset + io.piece.from;
      request.data = log_.segments().Base(io.piece.segment) + io.piece.from;
      request.bytes = io.piece.to - io.piece.from;
      break;
    }
    case Io::What::kFlush:
      request.operation = DeviceOperation::kFlush;
      break;
    case Io::What::kReadHeader:
    case Io::What::kWipeHeader: {
      const SlotPlace place = volume_.Place(io.slot);
      io.device = place.device;
      request.operation =
          io.what == Io::What::kReadHeader ? DeviceOperation::kRead : DeviceOperation::kWrite;
      request.offset = place.offset;
      request.data = io.block->data();
      request.bytes = kDeviceBlockBytes;
      break;
    }
    case Io::What::kMark:
      request.operation = DeviceOperation::kWriteThrough;
      request.offset = volume_.layout(0).CheckpointOffset(core_.value(), block_);
      request.data = checkpoint_block_.data();
      request.bytes = kDeviceBlockBytes;
      break;
    case Io::What::kFree:
      TP_CHECK(false);
  }
  if (!queues_[io.device]->Start(request)) waiting_.push_back(index);
}

bool Checkpointer::Submit() {
  for (const auto& queue : queues_) (void)queue->Submit(queue->depth());
  return to_call_.empty();
}

unsigned Checkpointer::Poll() {
  unsigned count = 0;
  for (const auto& queue : queues_) {
    count += queue->Reap([this](const DeviceCompletion& completion) { Finish(completion); });
  }
  for (std::size_t left = waiting_.size(); left > 0; --left) {
    const std::uint32_t io = waiting_.front();
    waiting_.pop_front();
    Start(io);
  }
  for (const auto& queue : queues_) {
    if (queue->Submit(kCheckpointSubmitMax)) ++count;
  }
  auto to_call = std::exchange(to_call_, {});
  for (auto& [done, status] : to_call) done(std::move(status));
  return count + static_cast<unsigned>(to_call.size());
}

void Checkpointer::Finish(const DeviceCompletion& completion) {
  const auto index = static_cast<std::uint32_t>(completion.tag);
  Io io = std::exchange(ios_[index], Io{});
  free_ios_.push_back(index);
  switch (io.what) {
    case Io::What::kPiece:
      --writes_;
      FinishPiece(io.piece, completion.error);
      if (io.piece.in_cut) --cut_.left;
      break;
    case Io::What::kFlush:
      if (completion.error != 0) Fail(completion.error, "flush");
      --cut_.left;
      break;
    case Io::What::kMark:
      if (completion.error != 0) Fail(completion.error, "write a checkpoint");
      --cut_.left;
      break;
    case Io::What::kReadHeader:
    case Io::What::kWipeHeader:
      FinishHeader(std::move(io), completion.error);
      break;
    case Io::What::kFree:
      TP_CHECK(false);
  }
  Advance();
}

void Checkpointer::FinishPiece(const Piece& piece, int error) {
  Segment& segment = log_.segments()[piece.segment];
  --segment.writes;
  log_.Unpin(piece.segment);
  if (error != 0) return Fail(error, "write a segment");
  counters_.written_bytes += piece.to - piece.from;
  if (piece.sealed) --unwritten_;
  // All of it is there: it may leave DRAM.
  const auto whole = segment.extent ? SegmentState::kExtent : SegmentState::kSealed;
  if (segment.state == whole && segment.writes == 0 && failed_ == StatusCode::kOk) {
    log_.Offer(piece.segment);
  }
}

}  // namespace tidepool::storage
