#include "daemon/core/answer_sink.h"

#include <algorithm>
#include <utility>

#include "proto/base/check.h"
#include "proto/wire/reply_room.h"

namespace tidepool::daemon {
namespace {

bool HasNothingToReturn(const wire::Answer& answer) {
  return answer.scope == wire::Answer::Scope::kOperation && answer.code == StatusCode::kOk &&
         !answer.has_version && !answer.has_number && !answer.streamed && answer.value.empty() &&
         answer.value_kind == wire::ValueKind::kBytes;
}

MutableBytes WholeOf(transport::FrameBuffer& buffer) {
  return {buffer.data(), transport::FrameBuffer::kCapacity};
}

}  // namespace

AnswerSink::AnswerSink(transport::Worker& worker, transport::BufferPool& pool,
                       const storage::CoreStore& store, const Session& session, std::uint16_t core,
                       std::uint64_t frame_id, std::uint64_t epoch, std::size_t reply_bytes_max)
    : worker_(worker),
      pool_(pool),
      store_(store),
      session_(session),
      allowance_bytes_(reply_bytes_max),
      buffer_(pool.Take()),
      writer_(WholeOf(*buffer_)) {
  header_.core = core;
  header_.session = session.id.value();
  header_.connection = session.connection;
  header_.frame_id = frame_id;
  header_.map_epoch = epoch;
}

std::size_t AnswerSink::ValueRoom(std::size_t reserved_bytes) const {
  const std::size_t taken = reserved_bytes + wire::kReplyEntryBytes;
  const std::size_t allowed = allowance_bytes_ > taken ? allowance_bytes_ - taken : 0;
  return std::min(allowed,
                  limits::kFrameBytesMax - limits::kFrameHeaderBytes - wire::kReplyEntryBytes);
}

void AnswerSink::Add(const wire::Answer& answer) {
  if (!HasNothingToReturn(answer)) {
    CloseRun();
    allowance_bytes_ -= std::min(allowance_bytes_, answer.bytes());
    return Put(answer);
  }
  AddSuccess(answer.index);
}

void AnswerSink::AddSuccess(std::uint16_t index) {
  if (run_count_ > 0 && index == run_first_ + run_count_) {
    ++run_count_;
    return;
  }
  CloseRun();
  run_first_ = index;
  run_count_ = 1;
  allowance_bytes_ -= std::min<std::size_t>(allowance_bytes_, wire::kReplyEntryBytes);
}

void AnswerSink::CloseRun() {
  if (run_count_ == 0) return;
  wire::Answer answer;
  answer.index = run_first_;
  if (run_count_ > 1) {
    answer.scope = wire::Answer::Scope::kRun;
    answer.has_number = true;
    answer.number = run_count_;
  }
  run_count_ = 0;
  Put(answer);
}

void AnswerSink::Put(const wire::Answer& answer) {
  if (writer_.Add(answer)) return;
  Close();
  Begin();
  TP_CHECK(writer_.Add(answer));
}

void AnswerSink::Begin() {
  buffer_ = pool_.Take();
  writer_ = wire::AnswerWriter(WholeOf(*buffer_));
}

// Uses the time that operations and checkpoints read last; no clock is read here. A checkpoint that
// begins after a change has a later time, or contains the change.
void AnswerSink::Finish() {
  if (store_.checkpoints()) {
    header_.checkpoint =
        wire::CheckpointStamp{store_.LastNowMs(), store_.last_durable_at_ms()}.Pack();
  }
  buffer_->set_size(writer_.Finish(header_));
}

void AnswerSink::Close() {
  Finish();
  full_.push_back(std::move(buffer_));
}

void AnswerSink::Flush() {
  CloseRun();
  // A lost peer is reported by the transport; its client gets the cached replies when it is back.
  const auto post = [&](transport::FrameBufferPtr frame) {
    if (session_.endpoint != nullptr) (void)worker_.Send(session_.endpoint, std::move(frame));
  };
  for (auto& frame : full_) post(std::move(frame));
  full_.clear();
  if (writer_.entry_count() == 0) return;
  Finish();
  post(std::move(buffer_));
}

std::vector<transport::FrameBufferPtr> AnswerSink::Take() {
  CloseRun();
  if (writer_.entry_count() > 0) Close();
  buffer_.reset();
  return std::move(full_);
}

void AnswerSink::Discard() {
  run_count_ = 0;
  full_.clear();
  buffer_.reset();
}

}  // namespace tidepool::daemon
