// State that outlives a connection: restarted uploads, frames that are sent again, and the end of a
// session.
#include <algorithm>
#include <string>
#include <utility>

#include "client/engine/engine.h"
#include "client/link/core_link.h"
#include "client/link/node_session.h"
#include "proto/base/check.h"
#include "proto/base/key_hash.h"

namespace tidepool::internal {
namespace {

// A copy takes over, so a read is sent to it. Where there is none, the newest map says so, and the
// read fails with what waits.
bool MayHaveSuccessor(const Operation& operation) {
  return operation.queue->space->options.replicas > 1;
}

}  // namespace

// Holds the place of an answered or given-up operation in a frame that is sent again. It keeps the
// indexes of the other operations, fits every partition and changes nothing.
wire::Operation CoreLink::PlaceHolder() {
  wire::Operation operation;
  operation.opcode = wire::Opcode::kLength;
  return operation;
}

// Queues by the order of calling, also for an upload that comes back. A later Put of the same key
// waits for this upload, so this upload must never wait for the later upload.
void CoreLink::QueueUpload(Operation* operation) {
  const auto insert = [this](Operation* added) {
    uploads_waiting_.insert(
        std::find_if(uploads_waiting_.begin(), uploads_waiting_.end(),
                     [&](const Operation* other) { return other->sequence > added->sequence; }),
        added);
  };
  insert(operation);
  if (Operation* later = upload_.operation;
      later != nullptr && later->sequence > operation->sequence) {
    CancelUpload(later);
    insert(later);
  }
  engine_.MarkDirty(this);
}

void CoreLink::PumpUpload() {
  if (!session_.attached()) return;
  if (upload_.operation == nullptr) {
    if (uploads_waiting_.empty()) return;
    Operation* operation = uploads_waiting_.front();
    uploads_waiting_.pop_front();
    upload_ = {operation, next_upload_++,
               StreamSender(Bytes(operation->value, operation->value_bytes))};
  }
  wire::StreamHeader part;
  part.stream = upload_.number;
  part.total_bytes = static_cast<std::uint32_t>(upload_.sender.total());
  part.upload = 1;
  while (session_.attached() && upload_.sender.MaySend(StreamWindow())) {
    const Bytes data = upload_.sender.Next(&part.offset);
    SendStream(Header(wire::FrameType::kStreamPart), part, data);
  }
}

// An offset says the largest value that fits.
Status CoreLink::UploadRefusal(const Operation& operation, const wire::StreamHeader& ack) const {
  if (ack.code != StatusCode::kResourceExhausted) return engine_.Explain(operation, ack.code, {});
  if (ack.offset == 0 || ack.offset == ack.total_bytes) {
    const Status why = engine_.Explain(
        operation, ack.code, "the owner's memory is full, and so are its devices, if it has some");
    return Status(ack.code, std::string(why.what()),
                  "delete something, or start the daemons with more --memory or --nvm-size");
  }
  const Status why = engine_.Explain(
      operation, ack.code,
      "a value of " + std::to_string(ack.total_bytes) +
          " bytes can never fit the memory of its owner, which takes values of up to " +
          std::to_string(ack.offset) + " bytes");
  return Status(ack.code, std::string(why.what()),
                "start the daemons with more --memory, or split it over several keys");
}

void CoreLink::OnStreamAck(const wire::StreamFrame& frame) {
  if (frame.stream.upload == 0 || upload_.operation == nullptr ||
      frame.stream.stream != upload_.number || upload_.operation->upload_ready) {
    return;
  }
  Operation* operation = upload_.operation;
  if (frame.stream.code == StatusCode::kAborted) {
    // The upload was idle for long and lost its memory: it begins again.
    RestartUploads();
    return engine_.MarkDirty(this);
  }
  if (frame.stream.code != StatusCode::kOk) {
    upload_.operation = nullptr;
    Unqueue(operation);
    engine_.End(operation, UploadRefusal(*operation, frame.stream));
    return engine_.MarkDirty(this);
  }
  if (!upload_.sender.OnAck(frame.stream.offset)) return;
  // An acknowledgement of no bytes says that the upload waits for room.
  operation->room_awaited = frame.stream.offset == 0;
  if (upload_.sender.Complete()) {
    operation->AddUploadArgument(upload_.number);
    operation->upload_ready = true;
    MakeReady(operation->queue);
  }
  engine_.MarkDirty(this);
}

// The operation leaves this link, or ends, before its Put was sent.
void CoreLink::CancelUpload(Operation* operation) {
  std::erase(uploads_waiting_, operation);
  if (operation->upload_ready) {
    operation->upload_ready = false;
    operation->RemoveUploadArgument();
  }
  if (upload_.operation != operation) return;
  upload_.operation = nullptr;
  engine_.MarkDirty(this);
  if (!session_.attached() || upload_.sender.sent() == 0) return;
  wire::StreamHeader part;
  part.stream = upload_.number;
  part.offset = upload_.sender.sent();
  part.total_bytes = static_cast<std::uint32_t>(upload_.sender.total());
  part.upload = 1;
  part.code = StatusCode::kCancelled;
  SendStream(Header(wire::FrameType::kStreamPart), part, {});
}

// Restarts uploads whose Put was not sent, with new numbers. Uploads survive no connection.
void CoreLink::RestartUploads() {
  Operation* operation = std::exchange(upload_.operation, nullptr);
  if (operation == nullptr) return;
  if (operation->upload_ready) {
    operation->upload_ready = false;
    operation->RemoveUploadArgument();
  }
  uploads_waiting_.push_front(operation);
}

void CoreLink::Disconnect() {
  if (endpoint_ != nullptr) {
    endpoint_->user = nullptr;
    engine_.worker().Close(std::exchange(endpoint_, nullptr));
  }
  RestartUploads();
}

void CoreLink::OnAttached(const std::string& address, std::uint32_t credit_operations,
                          std::uint32_t credit_bytes, bool resumed, std::uint64_t now_ns) {
  TP_DCHECK(endpoint_ == nullptr);
  address_ = address;
  cancelled_.clear();
  granted_operations_ = credit_operations;
  if (!resumed) ForgetNumbering();
  operations_left_ = credit_operations;
  request_bytes_left_ = reply_bytes_left_ = credit_bytes;
  for (std::uint64_t id = base_; id < next_frame_id_; ++id) {
    SentFrame* frame = FindFrame(id);
    if (frame != nullptr) ResendFrame(frame, now_ns);
  }
  engine_.MarkDirty(this);
}

void CoreLink::ForgetNumbering() {
  EndSent(Status(StatusCode::kUnavailable, "the connection to " + session_.Describe() + " broke"));
  base_ = ack_watermark_ = next_frame_id_ = 1;
  cached_bytes_ = 0;
  cached_bytes_of_.fill(0);
  next_upload_ = 1;
}

void CoreLink::OnCoreGone() {
  ForgetNumbering();
  address_.clear();
  if (HasWork()) engine_.WantMap(Epoch(engine_.epoch().value() + 1));
}

// Kept for the time after a broken connection, when the order of calls cannot be seen any more.
void CoreLink::NoteSentChange(const Operation& operation) {
  const std::uint32_t space = operation.queue->space->id.value();
  if (operation.may_have_any_key() || !wire::InfoOf(operation.opcode).keyed) {
    sent_changes_.NoteUnnamed(space, operation.sequence);
  } else {
    sent_changes_.Note(KeyHash(operation.key_view()), operation.sequence);
  }
}

// False for a read of a key if a change of that key was sent after it. A daemon that has kept the
// session answers the change from its reply cache and executes the read again. A restarted daemon
// may have read the change back.
bool CoreLink::MayAskAgain(const Operation& operation) const {
  if (operation.mutates() || operation.is_pack() || !wire::InfoOf(operation.opcode).keyed) {
    return true;
  }
  return !sent_changes_.HasLater(operation.queue->space->id.value(), KeyHash(operation.key_view()),
                                 operation.sequence);
}

// The operation has left its frame.
void CoreLink::EndOvertaken(Operation* operation) {
  operation->large_result.reset();
  engine_.End(operation,
              engine_.Explain(*operation, StatusCode::kUnavailable,
                              "the connection broke before its answer came, and a later change of "
                              "the same key by this client may be done"));
}

// Ends overtaken reads of a frame that is about to be sent again. Their places stay.
void CoreLink::EndOvertaken(SentFrame* frame) {
  for (Operation*& operation : frame->operations) {
    if (operation == nullptr || MayAskAgain(*operation)) continue;
    Operation* const ended = std::exchange(operation, nullptr);
    --frame->live;
    OperationLeft(ended->queue);
    EndOvertaken(ended);
  }
}

void CoreLink::ResendFrame(SentFrame* frame, std::uint64_t now_ns) {
  // Nothing of the old connection will be answered but by this sending.
  for (Operation*& operation : frame->operations) {
    if (operation == GivenUp() || operation == GivenUpPack()) operation = nullptr;
    if (operation != nullptr) operation->large_result.reset();
  }
  EndOvertaken(frame);
  frame->unanswered = frame->live;
  frame->downloads.clear();
  frame->credit = CreditOf(*frame);
  operations_left_ -= std::min(operations_left_, frame->credit);
  request_bytes_left_ -= std::min(request_bytes_left_, frame->request_bytes);
  reply_bytes_left_ -= std::min(reply_bytes_left_, frame->reply_bytes);
  if (frame->live == 0) return RetireIfAnswered(frame);

  transport::FrameBufferPtr buffer = engine_.pool().Take();
  wire::RequestWriter writer(MutableBytes(buffer->data(), transport::FrameBuffer::kCapacity));
  std::uint64_t deadline_ns = 0;
  wire::Operation encoded;
  for (const SentGroup& group : frame->groups) {
    if (group.pack) {
      TP_CHECK(ResendPack(*frame, group, &writer, &deadline_ns));
      continue;
    }
    bool fits = writer.BeginGroup(group.queue->id, group.term, false);
    for (std::uint16_t i = 0; i < group.count; ++i) {
      const Operation* operation = frame->operations[static_cast<std::size_t>(group.first + i)];
      if (operation == nullptr) {
        fits = writer.Add(PlaceHolder()) && fits;
        continue;
      }
      operation->ToWire(&encoded);
      deadline_ns = std::max(deadline_ns, operation->call->deadline_ns);
      fits = writer.Add(encoded) && fits;
    }
    TP_CHECK(fits);  // The operation fitted when it was first sent, and a place holder is the
                     // smallest operation.
  }
  AdvanceFinished();
  frame->ack_watermark = ack_watermark_;
  wire::FrameHeader header = Header(wire::FrameType::kRequest);
  header.frame_id = frame->id;
  header.map_epoch = engine_.epoch().value();
  header.ack_watermark = frame->ack_watermark;
  header.time_left_us = TimeLeftUs(deadline_ns, now_ns);
  header.reply_bytes_max = frame->reply_bytes;
  buffer->set_size(writer.Finish(header));
  ++engine_.stats().frames_resent;
  Send(std::move(buffer));
}

void CoreLink::EndSent(const Status& why) {
  for (std::uint64_t id = base_; id < next_frame_id_; ++id) {
    SentFrame* frame = FindFrame(id);
    if (frame == nullptr) continue;
    for (Operation* operation : frame->operations) {
      if (operation == nullptr || operation == GivenUp() || operation == GivenUpPack()) continue;
      if (operation->is_pack()) {
        ReleasePack(operation, nullptr, true);
      } else {
        OperationLeft(operation->queue);
      }
      operation->large_result.reset();
      if (operation->mutates()) {
        if (operation->streamed) operation->queue->ForgetStreamed(operation);
        engine_.End(operation,
                    engine_.Explain(*operation, StatusCode::kUnknown,
                                    "it was sent, and the daemon that has its answer is gone"));
      } else if (session_.node_down() && !MayHaveSuccessor(*operation)) {
        engine_.End(operation, engine_.Explain(*operation, why.code(), why.what()));
      } else if (MayAskAgain(*operation)) {
        Requeue(operation);
      } else {
        EndOvertaken(operation);
      }
    }
    frame->operations.clear();
    frame->downloads.clear();
    frame->unanswered = frame->live = 0;
    RetireIfAnswered(frame);
  }
}

void CoreLink::SendDetach() {
  if (endpoint_ == nullptr || !session_.attached()) return;
  transport::FrameBufferPtr buffer = engine_.pool().Take();
  wire::FrameHeader header = Header(wire::FrameType::kDetach);
  header.bytes = limits::kFrameHeaderBytes;
  wire::StoreHeader(buffer->data(), header);
  buffer->set_size(limits::kFrameHeaderBytes);
  Send(std::move(buffer));
}

}  // namespace tidepool::internal
