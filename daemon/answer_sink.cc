#include "daemon/answer_sink.h"

#include <algorithm>
#include <utility>

#include "proto/base/check.h"

namespace tidepool::daemon {
namespace {

constexpr std::size_t kFixedEntryBytes =
    limits::kAnswerHeaderBytes + 8 * limits::kAnswerArgumentsMax;

MutableBytes WholeOf(transport::FrameBuffer& buffer) {
  return {buffer.data(), transport::FrameBuffer::kCapacity};
}

}  // namespace

AnswerSink::AnswerSink(transport::Worker& worker, transport::BufferPool& pool,
                       const Session& session, std::uint16_t core, std::uint64_t frame_id,
                       std::uint64_t epoch, std::size_t reply_bytes_max)
    : worker_(worker),
      pool_(pool),
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

std::size_t AnswerSink::ValueRoom(std::size_t answers_left) const {
  const std::size_t fixed = (answers_left + 1) * kFixedEntryBytes;
  const std::size_t allowed = allowance_bytes_ > fixed ? allowance_bytes_ - fixed : 0;
  return std::min(allowed, limits::kFrameBytesMax - limits::kFrameHeaderBytes - kFixedEntryBytes);
}

void AnswerSink::Add(const wire::Answer& answer) {
  if (!writer_.Add(answer)) {
    Close();
    Begin();
    TP_CHECK(writer_.Add(answer));
  }
  allowance_bytes_ -= std::min(allowance_bytes_, answer.bytes());
}

void AnswerSink::Begin() {
  buffer_ = pool_.Take();
  writer_ = wire::AnswerWriter(WholeOf(*buffer_));
}

void AnswerSink::Close() {
  buffer_->set_size(writer_.Finish(header_));
  full_.push_back(std::move(buffer_));
}

void AnswerSink::Flush() {
  // A lost peer is reported by the transport; its client gets the kept answers when it is back.
  const auto post = [&](transport::FrameBufferPtr frame) {
    if (session_.endpoint != nullptr) (void)worker_.Send(session_.endpoint, std::move(frame));
  };
  for (auto& frame : full_) post(std::move(frame));
  full_.clear();
  if (writer_.entry_count() == 0) return;
  buffer_->set_size(writer_.Finish(header_));
  post(std::move(buffer_));
}

void AnswerSink::Discard() {
  full_.clear();
  buffer_.reset();
}

}  // namespace tidepool::daemon
