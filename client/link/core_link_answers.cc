// Handling of answers: outcomes, refusals, values in parts.
#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "client/engine/engine.h"
#include "client/link/core_link.h"
#include "client/link/node_session.h"
#include "proto/base/check.h"

namespace tidepool::internal {
namespace {

// Bound on remembered cancelled streams: more than a daemon sends to a client at a time.
constexpr std::size_t kCancelledMax = 64;

}  // namespace

void CoreLink::OnAnswer(Bytes bytes) {
  wire::AnswerReader reader;
  if (!reader.Open(bytes).ok()) return;
  // Late answers to frames that were given up, or of an older numbering, find nothing.
  SentFrame* frame = FindFrame(reader.header().frame_id);
  if (frame == nullptr) return;
  const std::uint64_t ack_watermark = frame->ack_watermark;
  // Present for forwarded groups only.
  if (reader.header().group_count > 0) engine_.set_companions(reader.header().group_count);
  checkpoint_ = wire::CheckpointStamp::Unpack(reader.header().checkpoint);
  wire::Answer answer;
  while (!reader.Done()) {
    // The readable answers count. The remaining operations end at their deadlines.
    if (!reader.Next(&answer).ok()) break;
    OnEntry(frame, answer);
  }
  RetireIfAnswered(frame);
  RetireGhosts(ack_watermark);
  if (waiting_operations_ > 0) engine_.MarkDirty(this);
}

void CoreLink::OnEntry(SentFrame* frame, const wire::Answer& answer) {
  switch (answer.scope) {
    case wire::Answer::Scope::kOperation:
      return Finish(frame, answer.index, answer);
    case wire::Answer::Scope::kRun: {
      wire::Answer one = answer;
      one.value = {};
      const std::uint64_t end = std::min<std::uint64_t>(std::uint64_t{answer.index} + answer.number,
                                                        frame->operations.size());
      for (std::uint64_t i = answer.index; i < end;) {
        if (IsPackAt(*frame, i)) {
          i = FinishPack(frame, static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(end),
                         one);
        } else {
          Finish(frame, static_cast<std::uint16_t>(i++), one);
        }
      }
      return;
    }
    case wire::Answer::Scope::kGroup:
      return OnGroupAnswer(frame, answer);
  }
}

bool CoreLink::IsPackAt(const SentFrame& frame, std::uint64_t index) {
  return index < frame.operations.size() && frame.operations[index] != nullptr &&
         frame.operations[index]->is_pack();
}

// Returns the operation at `index`, now answered, and gives its credit back. Returns null if it was
// answered before or was given up.
Operation* CoreLink::TakeAnswered(SentFrame* frame, std::uint16_t index) {
  if (index >= frame->operations.size()) return nullptr;
  Operation* operation = std::exchange(frame->operations[index], nullptr);
  if (operation == nullptr) return nullptr;
  --frame->unanswered;
  --frame->credit;
  ++operations_left_;
  if (operation == GivenUp()) return nullptr;
  --frame->live;
  OperationLeft(operation->queue);
  return operation;
}

void CoreLink::Finish(SentFrame* frame, std::uint16_t index, const wire::Answer& answer) {
  if (IsPackAt(*frame, index)) {
    FinishPack(frame, index, index + 1u, answer);
    return;
  }
  if (answer.streamed) return BeginDownload(frame, index, answer);
  const bool given_up = index < frame->operations.size() && frame->operations[index] == GivenUp();
  Operation* operation = TakeAnswered(frame, index);
  // After a give-up, the client cannot know if the operation changed a record.
  if (given_up || (operation != nullptr && operation->mutates())) {
    RecordCached(*frame, answer.value.size());
  }
  if (operation == nullptr) return;
  PartitionQueue* queue = operation->queue;
  // A wait that ended with its partition's term, or a read that came again after its partition had
  // moved: the new owner has the answer.
  if (answer.code == StatusCode::kWrongEpoch) {
    queue->refused = std::max(queue->refused, queue->sent_term);
    if (queue->term <= queue->refused) engine_.WantMap(Epoch(engine_.epoch().value() + 1));
    return MayAskAgain(*operation) ? Requeue(operation) : EndOvertaken(operation);
  }
  // A read was sent again while the node had no lease. Its term may still be the same.
  if (answer.code == StatusCode::kUnavailable && !operation->mutates()) {
    return MayAskAgain(*operation) ? Requeue(operation) : EndOvertaken(operation);
  }
  if (answer.code == StatusCode::kDeadlineExceeded && operation->waits() &&
      engine_.Now() < operation->call->wait_until_ns) {
    return RequeueLast(operation);  // This slice of its time is over.
  }
  if (operation->streamed) {
    if (answer.code == StatusCode::kFailedPrecondition && !answer.has_version) {
      // The uploaded value was lost with a connection before the Put used it.
      return Requeue(operation);
    }
    queue->ForgetStreamed(operation);
    MakeReady(queue);
  }
  operation->version = answer.version;
  operation->number = answer.number;
  operation->result_kind = answer.value_kind;
  // Holds for kNotFound too: then the missing object is not the key.
  if (answer.code != StatusCode::kOk && !answer.value.empty()) {
    return engine_.End(operation, engine_.Explain(*operation, answer.code, AsText(answer.value)));
  }
  if (answer.code == StatusCode::kOk) {
    if (operation->call->wants_receipt()) operation->call->RecordReceipt(*operation, checkpoint_);
    operation->call->SetResult(*operation, answer.value);
    if (operation->opcode == wire::Opcode::kGet ||
        (operation->opcode == wire::Opcode::kPop &&
         operation->Word(wire::Argument::kOperand) == 1)) {
      queue->space->LearnValueBytes(answer.value.size());
    }
  }
  engine_.End(operation, answer.code);
}

void CoreLink::OnGroupAnswer(SentFrame* frame, const wire::Answer& answer) {
  if (answer.index >= frame->groups.size()) return;
  const SentGroup group = frame->groups[answer.index];
  if (answer.code == StatusCode::kWrongEpoch) {
    group.queue->refused = std::max(group.queue->refused, group.term);
    if (group.queue->term <= group.queue->refused) {
      engine_.WantMap(Epoch(std::max(answer.number, engine_.epoch().value() + 1)));
    }
  }
  if (group.pack) return EndPack(frame, group, answer);
  for (std::uint16_t i = 0; i < group.count; ++i) {
    Operation* operation = TakeAnswered(frame, static_cast<std::uint16_t>(group.first + i));
    if (operation == nullptr) continue;
    if (answer.code == StatusCode::kWrongEpoch) {
      Requeue(operation);
      continue;
    }
    if (operation->streamed) {
      group.queue->ForgetStreamed(operation);
      MakeReady(group.queue);
    }
    engine_.End(operation, engine_.Explain(*operation, answer.code, AsText(answer.value)));
  }
}

// Returns the operation to its queue or, after a split of its range, to the queue of its key.
void CoreLink::Requeue(Operation* operation) {
  ++engine_.stats().operations_requeued;
  if (operation->streamed) {
    operation->upload_ready = false;
    operation->RemoveUploadArgument();
  }
  if (operation->queue->space->ranges != nullptr) return engine_.RequeueByRange(operation);
  Insert(operation);
}

// Returns the operation to the end of its queue. With more waits than credit, each has its turn.
void CoreLink::RequeueLast(Operation* operation) {
  operation->sequence = engine_.NextSequence();
  Requeue(operation);
}

void CoreLink::SendStreamAck(std::uint64_t frame_id, std::uint64_t stream, std::uint64_t offset,
                             std::uint64_t total, StatusCode code) {
  if (!session_.attached()) return;
  wire::FrameHeader header = Header(wire::FrameType::kStreamAck);
  header.frame_id = frame_id;
  wire::StreamHeader ack;
  ack.stream = stream;
  ack.offset = offset;
  ack.total_bytes = static_cast<std::uint32_t>(total);
  ack.code = code;
  SendStream(header, ack, {});
}

void CoreLink::CancelDownload(std::uint64_t frame_id, std::uint64_t stream, std::uint64_t offset,
                              std::uint64_t total) {
  for (const Cancelled& known : cancelled_) {
    if (known.frame_id == frame_id && known.stream == stream) return;
  }
  if (cancelled_.size() == kCancelledMax) cancelled_.pop_front();
  cancelled_.push_back({frame_id, stream});
  SendStreamAck(frame_id, stream, offset, total, StatusCode::kCancelled);
}

void CoreLink::BeginDownload(SentFrame* frame, std::uint16_t index, const wire::Answer& answer) {
  if (index >= frame->operations.size() || answer.number > limits::kValueBytesMax) return;
  const auto total = static_cast<std::size_t>(answer.number);
  Operation* operation = frame->operations[index];
  if (operation == nullptr || operation == GivenUp()) {
    TakeAnswered(frame, index);
    return CancelDownload(frame->id, index, 0, total);
  }
  for (const Download& download : frame->downloads) {
    if (download.index == index) return;
  }
  operation->version = answer.version;
  operation->result_kind = answer.value_kind;
  // The announcement of a value names its item.
  if (!answer.value.empty()) operation->call->SetResult(*operation, answer.value);
  operation->large_result = std::make_unique<std::string>();
  try {
    operation->large_result->resize(total);
  } catch (const std::bad_alloc&) {
    CancelDownload(frame->id, index, 0, total);
    TakeAnswered(frame, index);
    return engine_.End(operation,
                       Status(StatusCode::kResourceExhausted,
                              "no memory here for a value of " + std::to_string(total) + " bytes"));
  }
  if (total <= limits::kUnstreamedValueBytesMax) operation->queue->space->LearnValueBytes(total);
  engine_.ExtendDeadline(operation->call, total);
  frame->downloads.push_back(
      {index,
       StreamReceiver({reinterpret_cast<std::byte*>(operation->large_result->data()), total})});
}

void CoreLink::OnStreamPart(const wire::StreamFrame& part) {
  if (part.stream.upload != 0) return;
  SentFrame* frame = FindFrame(part.header.frame_id);
  const auto is_it = [&](const Download& download) { return download.index == part.stream.stream; };
  if (frame == nullptr || std::none_of(frame->downloads.begin(), frame->downloads.end(), is_it)) {
    // The daemon keeps the value in its place until the client takes or refuses it.
    if (part.stream.code == StatusCode::kOk) {
      CancelDownload(part.header.frame_id, part.stream.stream, part.stream.offset,
                     part.stream.total_bytes);
    }
    return;
  }
  const auto found = std::find_if(frame->downloads.begin(), frame->downloads.end(), is_it);
  const std::uint16_t index = found->index;
  StreamReceiver& receiver = found->receiver;
  StatusCode code = part.stream.code;
  if (code == StatusCode::kOk && !receiver.OnPart(part.stream.offset, part.data)) {
    code = StatusCode::kInternal;  // Frames keep their order, so a gap is the sender's fault.
  }
  if (code == StatusCode::kOk && receiver.WantsAck(StreamWindow())) {
    receiver.Acked();
    SendStreamAck(frame->id, index, receiver.received(), receiver.total(), StatusCode::kOk);
  }
  if (code == StatusCode::kOk && !receiver.Complete()) return;
  frame->downloads.erase(found);
  Operation* operation = TakeAnswered(frame, index);
  TP_DCHECK(operation != nullptr);
  if (code == StatusCode::kOk) {
    if (operation->result.empty()) operation->result = *operation->large_result;
    engine_.End(operation, StatusCode::kOk);
  } else {
    operation->large_result.reset();
    engine_.End(operation, engine_.Explain(*operation, code, "its value stopped on the way"));
  }
  RetireIfAnswered(frame);
}

}  // namespace tidepool::internal
