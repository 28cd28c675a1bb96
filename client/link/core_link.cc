// How operations become frames: queues, credits, numbering.
#include "client/link/core_link.h"

#include <algorithm>
#include <utility>

#include "client/engine/engine.h"
#include "client/link/node_session.h"
#include "proto/base/check.h"
#include "proto/wire/queue_ops.h"
#include "proto/wire/reply_room.h"

namespace tidepool::internal {
namespace {

constexpr std::uint64_t kRingMask = limits::kFramesUnfinishedMax - 1;
static_assert((limits::kFramesUnfinishedMax & kRingMask) == 0);

}  // namespace

// A frame in the making.
struct CoreLink::FrameDraft {
  wire::RequestWriter writer;
  SentFrame* frame;
  std::uint32_t credit_max;
  std::uint32_t reply_room;
  std::uint32_t credit = 0;
  std::uint32_t reply_bytes = 0;
  bool returns_values = false;
  bool full = false;
  std::uint64_t deadline_ns = 0;  // The latest of its operations.
};

Operation* CoreLink::GivenUp() {
  static Operation given_up;
  return &given_up;
}

Operation* CoreLink::GivenUpPack() {
  struct Pack : Operation {
    Pack() { pack_count = 1; }
  };
  static Pack given_up;
  return &given_up;
}

void CoreLink::Enqueue(Operation* operation) {
  PartitionQueue* queue = operation->queue;
  CoreLink* link = queue->link;
  operation->state = Operation::State::kQueued;
  queue->waiting.PushBack(operation);
  ++queue->waiting_count;
  ++link->waiting_operations_;
  link->waiting_bytes_ += operation->WireBytes();
  if (operation->streamed) {
    queue->streamed.push_back(operation);
    link->QueueUpload(operation);
  }
  link->MakeReady(queue);
}

void CoreLink::Insert(Operation* operation) {
  PartitionQueue* queue = operation->queue;
  CoreLink* link = queue->link;
  operation->state = Operation::State::kQueued;
  operation->frame = nullptr;
  queue->waiting.Insert(operation);
  ++queue->waiting_count;
  ++link->waiting_operations_;
  link->waiting_bytes_ += operation->WireBytes();
  if (operation->streamed) link->QueueUpload(operation);
  link->MakeReady(queue);
}

void CoreLink::MakeReady(PartitionQueue* queue) {
  if (queue->waiting.empty()) return;
  PushReady(queue);
  engine_.MarkDirty(this);
}

void CoreLink::PushReady(PartitionQueue* queue) {
  if (queue->listed || queue->waiting.empty()) return;
  TP_DCHECK(queue->link == this);
  queue->listed = true;
  queue->next_ready = nullptr;
  (ready_tail_ == nullptr ? ready_head_ : ready_tail_->next_ready) = queue;
  ready_tail_ = queue;
}

PartitionQueue* CoreLink::PopReady() {
  PartitionQueue* queue = ready_head_;
  ready_head_ = queue->next_ready;
  if (ready_head_ == nullptr) ready_tail_ = nullptr;
  queue->listed = false;
  return queue;
}

void CoreLink::Adopt(PartitionQueue* queue) {
  queue->link = this;
  for (Operation* operation = queue->waiting.front(); operation != nullptr;
       operation = operation->next) {
    ++waiting_operations_;
    waiting_bytes_ += operation->WireBytes();
    if (operation->streamed) QueueUpload(operation);
  }
  MakeReady(queue);
}

void CoreLink::Leave(PartitionQueue* queue) {
  for (Operation* operation = queue->waiting.front(); operation != nullptr;
       operation = operation->next) {
    --waiting_operations_;
    waiting_bytes_ -= operation->WireBytes();
    if (operation->streamed) CancelUpload(operation);
  }
  if (!queue->listed) return;
  PartitionQueue* rest = std::exchange(ready_head_, nullptr);
  ready_tail_ = nullptr;
  while (rest != nullptr) {
    PartitionQueue* following = rest->next_ready;
    rest->listed = false;
    if (rest != queue) PushReady(rest);
    rest = following;
  }
}

void CoreLink::Unqueue(Operation* operation) {
  PartitionQueue* queue = operation->queue;
  queue->waiting.Remove(operation);
  --queue->waiting_count;
  --waiting_operations_;
  waiting_bytes_ -= operation->WireBytes();
  if (operation->streamed) {
    CancelUpload(operation);
    queue->ForgetStreamed(operation);
    MakeReady(queue);
  }
}

void CoreLink::GiveUp(Operation* operation) {
  SentFrame* frame = operation->frame;
  if (operation->is_pack()) {
    ReleasePack(operation, GivenUpPack(), true);
    return LeaveFrame(frame);
  }
  TP_DCHECK(frame->operations[operation->index] == operation);
  frame->operations[operation->index] = GivenUp();
  --frame->live;
  std::erase_if(frame->downloads, [&](const Download& download) {
    if (download.index != operation->index) return false;
    CancelDownload(frame->id, download.index, download.receiver.received(),
                   download.receiver.total());
    // The stream ends here, so no further answer will come.
    frame->operations[operation->index] = nullptr;
    --frame->unanswered;
    --frame->credit;
    ++operations_left_;
    return true;
  });
  if (operation->streamed) operation->queue->ForgetStreamed(operation);
  OperationLeft(operation->queue);
  LeaveFrame(frame);
}

// Something of `frame` was given up.
void CoreLink::LeaveFrame(SentFrame* frame) {
  AdvanceFinished();
  RetireIfAnswered(frame);
  if (ready_head_ != nullptr) engine_.MarkDirty(this);  // The window may be open again.
}

// An operation of `queue` was answered or given up.
void CoreLink::OperationLeft(PartitionQueue* queue) {
  TP_DCHECK(queue->outstanding > 0);
  --queue->outstanding;
  if (!queue->waiting.empty() && !queue->listed) queue->link->MakeReady(queue);
  if (queue->has_successors && queue->outstanding == 0) [[unlikely]]
    engine_.WakeSuccessors(*queue->space);
}

SentFrame* CoreLink::FindFrame(std::uint64_t id) const {
  if (id < base_ || id >= next_frame_id_) return nullptr;
  return frames_[id & kRingMask];
}

SentFrame* CoreLink::TakeFrame() {
  if (spare_frames_.empty()) {
    all_frames_.push_back(std::make_unique<SentFrame>());
    all_frames_.back()->link = this;
    spare_frames_.push_back(all_frames_.back().get());
  }
  SentFrame* frame = spare_frames_.back();
  spare_frames_.pop_back();
  return frame;
}

void CoreLink::AdvanceFinished() {
  while (ack_watermark_ < next_frame_id_) {
    const SentFrame* frame = frames_[ack_watermark_ & kRingMask];
    if (ack_watermark_ >= base_ && frame != nullptr && frame->live > 0) return;
    cached_bytes_ -= std::exchange(cached_bytes_of_[ack_watermark_ & kRingMask], 0);
    ++ack_watermark_;
  }
}

void CoreLink::RecordCached(const SentFrame& frame, std::size_t bytes) {
  if (frame.id < ack_watermark_) return;
  cached_bytes_of_[frame.id & kRingMask] += static_cast<std::uint32_t>(bytes);
  cached_bytes_ += bytes;
}

void CoreLink::RetireIfAnswered(SentFrame* frame) {
  if (frame->unanswered > 0) return;
  TP_DCHECK(frame->live == 0);
  TP_DCHECK(frame->downloads.empty());
  frames_[frame->id & kRingMask] = nullptr;
  request_bytes_left_ += frame->request_bytes;
  reply_bytes_left_ += frame->reply_bytes;
  operations_left_ += std::exchange(frame->credit, 0);
  --frames_unanswered_;
  frame->operations.clear();
  frame->groups.clear();
  spare_frames_.push_back(frame);
  while (base_ < next_frame_id_ && frames_[base_ & kRingMask] == nullptr) ++base_;
  AdvanceFinished();
  if (ready_head_ != nullptr) engine_.MarkDirty(this);
}

// Retires given-up frames below the watermark that was sent: the daemon knows that they are given
// up.
void CoreLink::RetireGhosts(std::uint64_t below) {
  for (std::uint64_t id = base_; id < std::min(below, next_frame_id_); ++id) {
    SentFrame* frame = frames_[id & kRingMask];
    if (frame == nullptr || frame->live > 0) continue;
    frame->unanswered = 0;
    RetireIfAnswered(frame);
  }
}

std::uint32_t CoreLink::ReplyBytes(const Operation& operation) const {
  switch (operation.opcode) {
    case wire::Opcode::kGet:
    case wire::Opcode::kTake:
    case wire::Opcode::kWait:
      return wire::kReplyEntryBytes + operation.queue->space->value_bytes_expected;
    case wire::Opcode::kPop:
    case wire::Opcode::kPeek: {
      // Grants a list of several items a whole page. Items without room need another request.
      const std::uint64_t items = operation.Word(wire::Argument::kOperand);
      const std::uint64_t bytes =
          items * (wire::kDeliveredItemHeaderBytes + operation.queue->space->value_bytes_expected);
      return wire::kReplyEntryBytes +
             static_cast<std::uint32_t>(items > 1 ? std::uint64_t{wire::kReplyPageBytes} : bytes);
    }
    default:
      return wire::kReplyEntryBytes + wire::ReplyRoomOf(operation.opcode);
  }
}

wire::FrameHeader CoreLink::Header(wire::FrameType type) const {
  wire::FrameHeader header;
  header.type = type;
  header.core = core_.value();
  header.session = session_.id().value();
  header.connection = session_.connection();
  return header;
}

void CoreLink::Flush(std::uint64_t now_ns) {
  if (address_.empty()) return;  // The daemon has no such core. A map will move the queues.
  if (upload_.operation != nullptr || !uploads_waiting_.empty()) PumpUpload();
  while (ready_head_ != nullptr && session_.attached() && SendFrame(now_ns)) {
  }
  // A Put with an arrived value may have gone, so the next value has room.
  if (upload_.operation == nullptr && !uploads_waiting_.empty()) PumpUpload();
}

// Appends operations of `queue` that may go. True if the draft has room for more.
bool CoreLink::AppendGroup(PartitionQueue* queue, FrameDraft* draft) {
  std::vector<SentGroup>& groups = draft->frame->groups;
  bool room = true;
  bool held_back = false;
  bool open = false;  // A group that single operations may join.
  for (Operation* operation = queue->waiting.front(); operation != nullptr && room;) {
    Operation* following = operation->next;
    if (!queue->streamed.empty() && queue->IsHeldBack(*operation)) {
      if (operation->may_have_any_key()) break;  // Nothing passes it.
      held_back = true;
    } else if (held_back && !wire::InfoOf(operation->opcode).keyed) {
      break;  // It concerns all keys, or a key that is held back.
    } else if (operation->is_pack()) {
      open = false;
      room = AppendPack(operation, draft);
    } else {
      if (!open) {
        if (!draft->writer.BeginGroup(queue->id, queue->term, false)) return false;
        const auto first = static_cast<std::uint16_t>(draft->frame->operations.size());
        groups.push_back({queue, queue->term, first, 0});
        open = true;
      }
      room = AppendOne(operation, draft);
    }
    operation = following;
  }
  if (!groups.empty() && groups.back().count == 0) groups.pop_back();
  return room;
}

bool CoreLink::AppendOne(Operation* operation, FrameDraft* draft) {
  const std::uint32_t reply_bytes = ReplyBytes(*operation);
  if (operation->waits()) operation->SetWaitSlice(engine_.Now());
  wire::Operation encoded;
  operation->ToWire(&encoded);
  if (draft->credit >= draft->credit_max || reply_bytes > draft->reply_room ||
      !draft->writer.Add(encoded)) {
    return false;
  }
  draft->returns_values |= reply_bytes > wire::kReplyEntryBytes;
  MarkSent(operation, 1, reply_bytes, draft);
  if (operation == upload_.operation) upload_.operation = nullptr;
  return true;
}

bool CoreLink::AppendPack(Operation* pack, FrameDraft* draft) {
  const std::uint32_t reply_bytes =
      wire::kReplyEntryBytes + pack->pack_count * limits::kQuietReplyBytes;
  const PartitionQueue* queue = pack->queue;
  if (draft->credit >= draft->credit_max || reply_bytes > draft->reply_room ||
      !draft->writer.AddEncodedGroup(queue->id, queue->term, true, pack->pack_count,
                                     pack->pack_uniform, {pack->value, pack->value_bytes},
                                     IsForwarded(*queue))) {
    return false;
  }
  const auto first = static_cast<std::uint16_t>(draft->frame->operations.size());
  draft->frame->groups.push_back({pack->queue, queue->term, first, 0, true});
  MarkSent(pack, pack->pack_count, reply_bytes, draft);
  pack->pack_left = pack->pack_count;
  return true;
}

// The operation has become the next `slots` of the draft's frame, in its last group.
void CoreLink::MarkSent(Operation* operation, std::uint32_t slots, std::uint32_t reply_bytes,
                        FrameDraft* draft) {
  SentFrame* frame = draft->frame;
  PartitionQueue* queue = operation->queue;
  ++draft->credit;
  draft->reply_room -= reply_bytes;
  draft->reply_bytes += reply_bytes;
  draft->deadline_ns = std::max(draft->deadline_ns, operation->call->deadline_ns);
  queue->waiting.Remove(operation);
  --queue->waiting_count;
  --waiting_operations_;
  waiting_bytes_ -= operation->WireBytes();
  operation->state = Operation::State::kSent;
  operation->frame = frame;
  operation->index = static_cast<std::uint16_t>(frame->operations.size());
  frame->operations.insert(frame->operations.end(), slots, operation);
  frame->groups.back().count = static_cast<std::uint16_t>(frame->groups.back().count + slots);
  ++queue->outstanding;
  queue->sent_term = queue->term;
  if (operation->mutates() || operation->is_pack()) NoteSentChange(*operation);
}

std::uint32_t CoreLink::FlushOperations() const {
  const bool is_cheap = endpoint_ != nullptr && endpoint_->shares_memory();
  return static_cast<std::uint32_t>(is_cheap ? limits::kRingFlushOperations
                                             : limits::kFlushOperations);
}

bool CoreLink::SendFrame(std::uint64_t now_ns) {
  if (next_frame_id_ - std::min(base_, ack_watermark_) >= limits::kFramesUnfinishedMax) {
    const SentFrame* oldest = FindFrame(base_);
    if (oldest != nullptr && oldest->live == 0) {
      // The daemon never answered operations that were given up. Without a new frame it cannot
      // learn that they are finished. A new connection forgets them.
      session_.OnLost(Status(StatusCode::kUnavailable, session_.Describe() + " left frame " +
                                                           std::to_string(oldest->id) +
                                                           " without an answer"));
    }
    return false;
  }
  if (cached_bytes_ >= limits::kCachedReplyBytesMax / 2) return false;
  // Answers in pieces return credits in pieces, but frames should not become as small. Half of the
  // grant keeps two frames under way: the daemon works on one while the other travels.
  const std::uint32_t half = std::max(1u, granted_operations_ / 2);
  const std::uint32_t wanted =
      std::min<std::uint32_t>({waiting_operations_, FlushOperations(), half});
  if (operations_left_ == 0 || (operations_left_ < wanted && frames_unanswered_ > 0)) return false;
  const std::size_t room =
      std::min<std::size_t>(transport::FrameBuffer::kCapacity, request_bytes_left_);
  if (room <= limits::kFrameHeaderBytes + limits::kGroupHeaderBytes) return false;

  transport::FrameBufferPtr buffer = engine_.pool().Take();
  FrameDraft draft{wire::RequestWriter(MutableBytes(buffer->data(), room)), TakeFrame(),
                   std::min(operations_left_, half), reply_bytes_left_};
  PartitionQueue* last = nullptr;
  while (ready_head_ != nullptr && !draft.full) {
    PartitionQueue* queue = PopReady();
    if (!queue->MaySend()) continue;  // Comes back with a newer map, or with its last answer.
    if (!AppendGroup(queue, &draft)) {
      draft.full = true;
      last = queue;
    }
  }
  // The queue goes to the end of the line, so a busy partition does not delay the other partitions.
  if (last != nullptr) PushReady(last);
  SentFrame* frame = draft.frame;
  if (frame->operations.empty()) {
    spare_frames_.push_back(frame);
    return false;
  }
  // With little outstanding the answer may be generous: a value larger than expected then needs no
  // stream.
  frame->reply_bytes = draft.reply_bytes;
  if (draft.returns_values) {
    frame->reply_bytes = std::max(
        frame->reply_bytes, std::min<std::uint32_t>(wire::kReplyPageBytes + wire::kReplyEntryBytes,
                                                    reply_bytes_left_ / 4));
  }
  const auto count = static_cast<std::uint32_t>(frame->operations.size());
  frame->id = next_frame_id_++;
  frame->unanswered = frame->live = count;
  frames_[frame->id & kRingMask] = frame;
  ++frames_unanswered_;
  frame->credit = draft.credit;
  operations_left_ -= draft.credit;
  reply_bytes_left_ -= frame->reply_bytes;
  AdvanceFinished();
  frame->ack_watermark = ack_watermark_;

  wire::FrameHeader header = Header(wire::FrameType::kRequest);
  header.frame_id = frame->id;
  header.map_epoch = engine_.epoch().value();
  header.ack_watermark = frame->ack_watermark;
  header.time_left_us = TimeLeftUs(draft.deadline_ns, now_ns);
  header.reply_bytes_max = frame->reply_bytes;
  buffer->set_size(draft.writer.Finish(header));
  frame->request_bytes = static_cast<std::uint32_t>(buffer->size());
  request_bytes_left_ -= frame->request_bytes;
  session_.Sent(now_ns);
  Send(std::move(buffer));
  return true;
}

void CoreLink::SendStream(const wire::FrameHeader& header, const wire::StreamHeader& part,
                          Bytes data) {
  if (!BeforeSend(wire::kStreamHeadBytes + data.size())) return;
  std::array<std::byte, wire::kStreamHeadBytes> head;
  wire::EncodeStreamHead(header, part, data.size(), &head);
  const Status sent = engine_.worker().SendParts(endpoint_, head, data, &engine_.pool());
  if (!sent.ok()) session_.OnLost(sent);
}

std::size_t CoreLink::StreamWindow() const {
  return endpoint_ == nullptr ? limits::kStreamPartBytesMax : endpoint_->window_bytes();
}

// False: nothing can be sent. Broken meanwhile: a request is sent again after the next attach, the
// rest means nothing then.
bool CoreLink::BeforeSend(std::size_t frame_bytes) {
  if (!session_.attached()) return false;
  if (endpoint_ == nullptr) {
    auto endpoint = engine_.worker().Connect(address_);
    if (!endpoint.ok()) {
      session_.OnLost(endpoint.status());
      return false;
    }
    endpoint_ = *endpoint;
    endpoint_->user = this;
  }
  ++engine_.stats().frames_sent;
  engine_.stats().bytes_sent += frame_bytes;
  return true;
}

void CoreLink::Send(transport::FrameBufferPtr buffer) {
  if (!BeforeSend(buffer->size())) return;
  const Status sent = engine_.worker().Send(endpoint_, std::move(buffer));
  if (!sent.ok()) session_.OnLost(sent);
}

}  // namespace tidepool::internal
