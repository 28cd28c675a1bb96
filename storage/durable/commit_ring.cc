#include "storage/durable/commit_ring.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "proto/base/check.h"
#include "proto/base/failpoint.h"
#include "storage/durable/commit.h"
#include "storage/log.h"

namespace tidepool::storage {
namespace {

constexpr unsigned kRingQueueDepth = 2;
constexpr std::uint64_t kRecordBytesMax = 64 * 1024;
// Bound on a commit: some 1 ms of a device.
constexpr std::uint64_t kBatchBytesMax = 1 << 20;
constexpr std::size_t kBatchBytesMin = 64 * 1024;
constexpr std::size_t kSpareMax = 2;

}  // namespace

CommitRing::CommitRing(Volume& volume, CoreId core)
    : volume_(volume),
      core_(core),
      ring_bytes_(volume.layout(0).ring_bytes),
      // Above all that earlier incarnations have left there.
      next_number_((volume.incarnation() << 32) + 1) {}

CommitRing::~CommitRing() { queue_.reset(); }  // First: the device still reads of the batches.

Status CommitRing::Open() {
  auto queue = volume_.device(0).OpenQueue(kRingQueueDepth);
  if (!queue.ok()) return queue.status();
  queue_ = *std::move(queue);
  return OkStatus();
}

void CommitRing::GoOn(const RingPosition& next) {
  TP_CHECK(position_ == 0 && !writing_);
  next_number_ = next.commit;
  head_ = tail_ = next.offset;
  last_crc32c_ = next.checksum;
}

std::byte* CommitRing::TakeSpace(std::size_t bytes) {
  const std::size_t most = std::min(kBatchBytesMax, ring_bytes_ / 2);
  const bool fits = !batches_.empty() && !(writing_ && batches_.size() == 1) &&
                    batches_.back().bytes + bytes <= most;
  if (!fits) {
    if (spare_.empty()) {
      batches_.emplace_back();
    } else {
      batches_.push_back(std::move(spare_.back()));
      spare_.pop_back();
    }
    batches_.back().bytes = sizeof(CommitHeader);
    batches_.back().records = 0;
  }
  Batch& batch = batches_.back();
  if (batch.buffer.size() < batch.bytes + bytes) {
    BlockBuffer larger(std::max({kBatchBytesMin, 2 * batch.buffer.size(), batch.bytes + bytes}));
    if (batch.buffer.size() != 0)
      std::memcpy(larger.data(), batch.buffer.data(), std::min(batch.bytes, batch.buffer.size()));
    batch.buffer = std::move(larger);
  }
  std::byte* const at = batch.buffer.data() + batch.bytes;
  batch.bytes += bytes;
  ++batch.records;
  return at;
}

std::uint64_t CommitRing::Add(const LogRecord& change) {
  ++position_;
  const RecordType type = RecordTypeOf(change.type);
  const std::uint64_t bytes = Log::EncodedBytes(change, type);
  if (!change.extent_segments.empty() || bytes > std::min(kRecordBytesMax, ring_bytes_ / 4)) {
    for_checkpoints_.push_back(position_);
    return position_;
  }
  std::byte* const at = TakeSpace(bytes);
  Log::Encode(change, type, change.lsn, bytes, at);
  SetCommitPosition(at, position_);
  batches_.back().last_position = position_;
  return position_;
}

void CommitRing::AddDrop(PartitionId id, std::uint64_t below) {
  if (!in_use_) return;
  RecordHeader drop{};
  drop.type = RecordType::kDrop;
  drop.partition = id.value();
  drop.lsn = below;
  std::byte* const at = TakeSpace(sizeof drop);
  std::memcpy(at, &drop, sizeof drop);
  SetCommitPosition(at, ++position_);
  batches_.back().last_position = position_;
}

void CommitRing::StartCommit() {
  if (writing_ || stopped_ || batches_.empty()) return;
  Batch& batch = batches_.front();
  const std::size_t whole = AlignUp(batch.bytes, kDeviceBlockBytes);
  TP_CHECK(whole <= batch.buffer.size());
  std::uint64_t at = head_;
  if (PhysicalOf(at) + whole > ring_bytes_) at += ring_bytes_ - PhysicalOf(at);
  is_full_ = at + whole > tail_ + ring_bytes_;
  if (is_full_) return;
  std::memset(batch.buffer.data() + batch.bytes, 0, whole - batch.bytes);
  last_crc32c_ = SealCommit(batch.buffer.bytes().first(batch.bytes), volume_.found(0).volume,
                            core_.value(), volume_.incarnation(), next_number_++, last_crc32c_);
  DeviceRequest request;
  request.operation = DeviceOperation::kWriteThrough;
  request.offset = volume_.layout(0).RingOffset(core_.value()) + PhysicalOf(at);
  request.data = batch.buffer.data();
  request.bytes = static_cast<std::uint32_t>(whole);
  TP_CHECK(queue_->Start(request));
  head_ = at + whole;
  writing_ = true;
}

void CommitRing::Submit() {
  StartCommit();
  if (queue_->in_flight() == 0) return;
  (void)queue_->Submit(kRingQueueDepth);
  TP_FAILPOINT("commit.started");
}

unsigned CommitRing::Poll(int* error) {
  if (batches_.empty()) return 0;
  const unsigned done = queue_->Reap([&](const DeviceCompletion& completion) {
    writing_ = false;
    Batch batch = std::move(batches_.front());
    batches_.pop_front();
    if (completion.error != 0) {
      *error = completion.error;
      stopped_ = true;
      return;
    }
    TP_FAILPOINT("commit.durable");
    ++counters_.commits;
    counters_.records += batch.records;
    counters_.written_bytes += AlignUp(batch.bytes, kDeviceBlockBytes);
    committed_ = std::max(committed_, batch.last_position);
    if (spare_.size() < kSpareMax) spare_.push_back(std::move(batch));
  });
  if (done > 0) UpdateDurable();
  Submit();
  return done;
}

void CommitRing::UpdateDurable() {
  while (!for_checkpoints_.empty() && for_checkpoints_.front() <= marked_)
    for_checkpoints_.pop_front();
  std::uint64_t durable = committed_;
  if (!for_checkpoints_.empty()) durable = std::min(durable, for_checkpoints_.front() - 1);
  durable_ = std::max({durable_, durable, marked_});
}

bool CommitRing::WantsCheckpoint() const {
  return !stopped_ && (is_full_ || !for_checkpoints_.empty() || head_ - tail_ > ring_bytes_ / 2);
}

RingPosition CommitRing::Cut() {
  cut_ = {head_, position_};
  return {next_number_, PhysicalOf(head_), last_crc32c_, position_};
}

void CommitRing::FinishCut() {
  tail_ = cut_.head;
  marked_ = cut_.position;
  is_full_ = false;
  UpdateDurable();
}

}  // namespace tidepool::storage
