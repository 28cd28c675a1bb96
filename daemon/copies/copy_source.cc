#include "daemon/copies/copy_source.h"

#include <algorithm>
#include <utility>

#include "proto/base/check.h"
#include "proto/base/clock.h"
#include "proto/base/key_hash.h"
#include "storage/partition.h"

namespace tidepool::daemon {
namespace {

// Some 20 us: records that are not in the cache cost 100 ns to read and as much to copy.
constexpr std::uint64_t kCopyRecordsPerStep = 64;
constexpr std::size_t kCopyBytesPerStep = 64 * 1024;

using wire::CopyMessage;
using wire::CopyMessageKind;

}  // namespace

CopySource::CopySource(std::shared_ptr<CopyJob> job, CopyLink* link, storage::CoreStore& store)
    : job_(std::move(job)), link_(*link), store_(store) {
  storage::Partition* const held = Held();
  TP_CHECK(held != nullptr);
  held->AddObserver(this);
  attached_ = true;
  job_->records_total.store(held->records(), std::memory_order_relaxed);
}

CopySource::~CopySource() { Detach(); }

void CopySource::Detach() {
  storage::Partition* const held = store_.Find(job_->partition);
  if (std::exchange(attached_, false) && held != nullptr) held->RemoveObserver(this);
}

// Null once it is gone, or goes on under another term.
storage::Partition* CopySource::Held() const {
  storage::Partition* const held = store_.Find(job_->partition);
  return held != nullptr && held->term() == job_->term ? held : nullptr;
}

void CopySource::SetStage(CopyJob::Stage stage) {
  job_->stage.store(stage, std::memory_order_release);
}

void CopySource::Send(CopyMessage message) {
  message.partition = job_->partition;
  message.copy = job_->copy;
  job_->bytes.fetch_add(wire::BytesOf(message), std::memory_order_relaxed);
  link_.Append(message);
  last_position_ = link_.position();
}

// Sends a value above kCopyValueBytesMax in parts, in one go: its record lies within a segment.
void CopySource::SendPut(CopyMessage message) {
  message.kind = CopyMessageKind::kPut;
  const std::size_t bytes = message.value.size() + message.value_tail.size();
  if (bytes <= wire::kCopyValueBytesMax) return Send(message);
  CopyMessage begin;
  begin.kind = CopyMessageKind::kLargeBegin;
  begin.number = bytes;
  Send(begin);
  std::uint64_t sent = 0;
  for (Bytes piece : {message.value, message.value_tail}) {
    while (!piece.empty()) {
      CopyMessage part;
      part.kind = CopyMessageKind::kLargePart;
      part.number = sent;
      part.value = piece.first(std::min(piece.size(), wire::kCopyValueBytesMax));
      sent += part.value.size();
      piece = piece.subspan(part.value.size());
      Send(part);
    }
  }
  message.kind = CopyMessageKind::kLargeEnd;
  message.value_flags = wire::kCopySlotAtOnce;
  message.value = {};
  message.value_tail = {};
  Send(message);
}

bool CopySource::HasPassed(storage::Partition& partition, std::uint64_t hash) const {
  return walked_ || partition.hash().index().PositionOf(hash) < cursor_;
}

void CopySource::OnRecord(const storage::LogRecord& record) {
  // A send may have found the link lost before anybody was told.
  if (over_ || link_.lost()) {
    last_position_ = UINT64_MAX;  // Only the copy's release ends a wait for this change.
    return;
  }
  storage::Partition* const held = Held();
  // The walk will meet the other keys later.
  if (held == nullptr || !HasPassed(*held, record.hash)) return;
  if (sending_.has_value() && sending_->key == AsText(record.key)) {
    Send({.kind = CopyMessageKind::kLargeDrop, .value_flags = wire::kCopySlotBeside});
    sending_.reset();
  }
  CopyMessage message;
  message.kind = CopyMessageKind::kDelete;
  message.key = record.key;
  message.version = record.lsn.value();
  if (record.type == storage::LogRecordType::kPut && !record.extent_segments.empty()) {
    large_.emplace(AsText(record.key));
    large_pending_ = counts();
    // A replica may become the owner before the value comes, and then has the older one.
    if (!job_->replica) Send(message);
    return;
  }
  large_.erase(std::string(AsText(record.key)));
  if (record.type == storage::LogRecordType::kPut) {
    message.value_flags = record.value_flags;
    message.value = record.value;
    message.value_tail = record.value_tail;
    message.expiry_ms = record.expiry_ms;
    SendPut(message);
  } else {
    Send(message);
  }
  // Behind the message: a large value that nobody will send counts as taken with its successor.
  NoteLarge();
}

void CopySource::Fail(StatusCode code) {
  if (over_) return;
  over_ = true;
  sending_.reset();
  large_.clear();
  job_->link_lost.store(true);
  if (counts()) progress_->Freeze();
  if (large_pending_) last_position_ = UINT64_MAX;
  // After kWhole only the map decides.
  if (job_->stage.load() == CopyJob::Stage::kWhole) return;
  job_->code.store(code);
  SetStage(CopyJob::Stage::kFailed);
}

void CopySource::OnMap() {
  if (Held() != nullptr) return;
  Detach();
  over_ = true;
  sending_.reset();
  if (counts()) {
    progress_->Freeze();
    progress_->end = CopyProgress::End::kVoid;
  }
  SetStage(CopyJob::Stage::kGone);
}

// From here on nothing is answered that the copy has not taken. What was answered before lies
// before this position.
void CopySource::Count() {
  progress_ = std::make_shared<CopyProgress>();
  progress_->acked = link_.shared_acked();
  counts_from_ = link_.position();
  SetStage(CopyJob::Stage::kFollowing);
  OnAcked();
}

void CopySource::OnAcked() {
  job_->unacked_bytes.store(link_.unacked_bytes(), std::memory_order_relaxed);
  if (!counts() || over_ || link_.acked() < counts_from_) return;
  if (job_->stage.load(std::memory_order_relaxed) == CopyJob::Stage::kFollowing) {
    SetStage(CopyJob::Stage::kCaughtUp);
  }
}

void CopySource::NoteLarge() {
  if (!large_pending_ || !large_.empty() || sending_.has_value()) return;
  large_pending_ = false;
  ++progress_->clears;
  progress_->clear_position = link_.position();
}

void CopySource::AddWaits(CopyWaits* waits) const {
  if (!counts()) return;
  if (large_pending_ && !over_) return waits->Add(progress_, last_position_, progress_->clears + 1);
  if (progress_->taken() < last_position_) waits->Add(progress_, last_position_);
}

void CopySource::Release() {
  Detach();
  over_ = true;
  sending_.reset();
  if (counts()) progress_->end = CopyProgress::End::kReleased;
  SetStage(CopyJob::Stage::kGone);
}

void CopySource::End() { ending_ = true; }

void CopySource::OnWhole() {
  if (over_ || !end_sent_) return;
  SetStage(CopyJob::Stage::kWhole);
}

bool CopySource::Slice(std::uint64_t end_ns) {
  if (over_) return false;
  if (link_.lost()) {
    Fail(StatusCode::kUnavailable);
    return false;
  }
  storage::Partition* const held = Held();
  if (held == nullptr) {
    OnMap();
    return false;
  }
  while (!HasSentAll()) {
    if (!link_.has_credit()) {
      link_.Flush();
      return false;  // An acknowledgement wakes this core.
    }
    walked_ ? LargeSlice(*held) : WalkSlice(*held);
    if (over_ || store_.blocked()) return false;
    NoteLarge();
    if (Clock::Real().MonotonicNs() >= end_ns) break;
  }
  if (HasSentAll() && ending_ && !end_sent_) {
    CopyMessage end;
    end.kind = CopyMessageKind::kEnd;
    Send(end);
    end_sent_ = true;
  } else if (HasSentAll() && job_->replica) {
    if (!counts()) Count();
  } else if (HasSentAll() && !ending_) {
    SetStage(CopyJob::Stage::kFollowing);
  }
  link_.Flush();
  job_->unacked_bytes.store(link_.unacked_bytes(), std::memory_order_relaxed);
  return !HasSentAll();
}

void CopySource::WalkSlice(storage::Partition& partition) {
  std::size_t bytes = 0;
  const storage::IterateResult result = partition.hash().Iterate(
      cursor_, kCopyRecordsPerStep, store_.NowMs(), [&](const storage::RecordView& record) {
        if (bytes > kCopyBytesPerStep) return false;
        bytes += record.key.size() + record.value.size();
        if (record.extent != nullptr) {
          large_.emplace(AsText(record.key));
          return true;
        }
        CopyMessage message;
        message.value_flags = record.value_flags;
        message.key = record.key;
        message.value = record.value;
        message.version = record.version.value();
        message.expiry_ms = record.expiry_ms;
        SendPut(message);
        return true;
      });
  if (store_.blocked()) {
    if (store_.TakeLost() != StatusCode::kOk) Fail(StatusCode::kDataLoss);
    return;
  }
  if (result.unreadable > 0) return Fail(StatusCode::kDataLoss);
  job_->records.fetch_add(result.records, std::memory_order_relaxed);
  cursor_ = result.cursor;
  walked_ = result.done;
}

void CopySource::LargeSlice(storage::Partition& partition) {
  if (!sending_.has_value()) BeginLarge(partition);
  if (!sending_.has_value()) return;
  Large& large = *sending_;
  for (std::size_t bytes = 0;
       large.sent < large.reader.value_bytes() && bytes < kCopyBytesPerStep;) {
    CopyMessage part;
    part.kind = CopyMessageKind::kLargePart;
    part.value_flags = wire::kCopySlotBeside;
    part.number = large.sent;
    part.value = large.reader.Part(large.sent, wire::kCopyValueBytesMax);
    large.sent += part.value.size();
    bytes += part.value.size();
    Send(part);
  }
  if (large.sent < large.reader.value_bytes()) return;
  storage::HashStore& records = partition.hash();
  const std::string held_key = large.key;  // Its removal, if it has expired, ends `sending_`.
  const Bytes key = AsBytes(held_key);
  const std::uint64_t now_ms = store_.NowMs();
  const storage::HashOutcome ttl = records.Ttl(key, KeyHash(key), now_ms);
  const storage::HashOutcome found = records.Contains(key, KeyHash(key), now_ms);
  // The record has expired, and OnRecord has ended the sending.
  if (!sending_.has_value()) return;
  if (store_.blocked()) {
    if (store_.TakeLost() != StatusCode::kOk) Fail(StatusCode::kDataLoss);
    return;
  }
  CopyMessage end;
  end.kind = CopyMessageKind::kLargeEnd;
  end.value_flags = wire::kCopySlotBeside;
  end.key = key;
  end.version = found.version.value();
  end.expiry_ms = ttl.result == storage::kTtlNone ? 0 : now_ms + ttl.result;
  Send(end);
  sending_.reset();
}

void CopySource::BeginLarge(storage::Partition& partition) {
  const std::string key = *large_.begin();
  storage::HashStore& records = partition.hash();
  const Bytes bytes = AsBytes(key);
  const storage::HashOutcome found = records.Get(bytes, KeyHash(bytes), store_.NowMs());
  if (store_.blocked()) {
    if (store_.TakeLost() != StatusCode::kOk) Fail(StatusCode::kDataLoss);
    return;
  }
  large_.erase(key);
  if (found.code != StatusCode::kOk) return;
  CopyMessage begin;
  begin.kind = CopyMessageKind::kLargeBegin;
  begin.value_flags = wire::kCopySlotBeside;
  begin.number = found.value_bytes;
  sending_ = Large{key, storage::ValueReader::Pin(records, found), 0};
  Send(begin);
}

}  // namespace tidepool::daemon
