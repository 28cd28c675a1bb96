#include "daemon/core/dispatcher.h"

#include <algorithm>
#include <string>
#include <utility>

#include "proto/base/check.h"
#include "proto/base/key_hash.h"
#include "proto/wire/reply_room.h"
#include "proto/wire/stream.h"

namespace tidepool::daemon {
namespace {

// Operations per stage: enough to hide the memory's latency, few enough not to push each other out
// of the cache (16 is 2.4 times single look-ups; beyond 64 it falls).
constexpr std::size_t kStageOperations = 16;

// Most bytes that a client within its credits leaves unread: its answer credit, one window of
// stream parts, and the part that crosses it.
constexpr std::size_t kUnreadBytesMax =
    limits::kStreamWindowBytes + limits::kFrameBytesMax * limits::kStreamPartsPerPoll;

bool Mutates(const wire::Operation& operation) { return wire::InfoOf(operation.opcode).mutates; }

// Returns the credit that the request takes. A resent group is counted already while it waits, and
// costs nothing once it has run.
std::size_t CreditToRun(const wire::Request& request, const CachedReply* kept) {
  std::size_t credit = 0;
  for (std::size_t g = 0; g < request.groups.size(); ++g) {
    if (kept == nullptr || kept->fates[g] == GroupFate::kUnseen)
      credit += request.groups[g].credit();
  }
  return credit;
}

}  // namespace

Dispatcher::Dispatcher(CoreId core, storage::CoreStore& store, HeapCover& heap, const Lease& lease,
                       const Clock& clock, std::uint64_t slow_ns, CopyAlarms* alarms)
    : core_(core),
      store_(store),
      heap_(heap),
      lease_(lease),
      clock_(clock),
      ownership_(core, store),
      meter_(core, store, ownership_, clock, slow_ns),
      responder_(store, lease, clock, ownership_, meter_),
      runner_(store, ownership_, responder_, meter_, copies_),
      waiting_(store, lease, clock, ownership_, meter_, responder_, runner_),
      range_moves_(std::make_unique<RangeMoves>(*this, store)),
      copies_(store,
              {[this](PartitionId partition, Term term) {
                 return ownership_.Freeze(partition, term) == StatusCode::kOk;
               },
               [this](PartitionId partition, Term term) { Thaw(partition, term); }},
              alarms) {}

Dispatcher::~Dispatcher() { TP_CHECK(sessions_ == nullptr); }

void Dispatcher::Start(transport::Worker* worker) {
  worker_ = worker;
  streams_ = std::make_unique<Streams>(
      *worker, pool_, store_, core_,
      [this](SessionId id, std::uint64_t number, storage::Refusal refusal) {
        waiting_.WhenRoom(std::move(refusal), [this, id, number] {
          if (Session* session = sessions_->Find(id)) streams_->TakeParked(*session, number);
        });
      });
  sessions_ = std::make_unique<Sessions>(
      *worker, *streams_, clock_, heap_, pool_, ReplyCacheBytesMax(store_.usage().limit_bytes),
      [this](SessionId ended) { runner_.groups().Suspect(ended, clock_.MonotonicNs()); });
  runner_.Start(streams_.get(), sessions_.get());
  waiting_.Start(streams_.get(), sessions_.get());
  responder_.Start(core_, worker, &pool_, streams_.get(), sessions_.get());
  copies_.Start(worker, &pool_);
  sessions_->set_on_leave([this](Session& session) { meter_.CountDirectReads(session); });
}

void Dispatcher::Stop() {
  copies_.Stop();
  waiting_.Stop();
  runner_.Stop();
  map_waiters_.Clear();
  forwarder_.Clear();
  responder_.Stop();
  sessions_.reset();
  streams_.reset();
}

void Dispatcher::OnPeerLost(transport::Endpoint* endpoint, const Status& /*why*/) {
  if (Session* session = sessions_->FindByEndpoint(endpoint); session != nullptr) {
    runner_.groups().Suspect(session->id, clock_.MonotonicNs());
    sessions_->Disconnect(*session);
    return;
  }
  (void)copies_.OnPeerLost(endpoint);
}

void Dispatcher::OnFrame(Bytes frame) {
  const std::uint64_t received_ns = clock_.MonotonicNs();
  if (wire::IsCopyFrame(frame)) [[unlikely]]
    return copies_.OnFrame(frame, received_ns);
  wire::FrameHeader header;
  Session* const session = SenderOf(frame, frame.size(), received_ns, &header);
  if (session == nullptr) return;
  wire::StreamFrame stream;
  switch (header.type) {
    case wire::FrameType::kRequest:
      return HandleRequest(*session, frame, received_ns);
    case wire::FrameType::kStreamPart:
    case wire::FrameType::kStreamAck:
      return HandleStream(*session, wire::DecodeStream(frame, &stream), stream);
    case wire::FrameType::kDetach:
      runner_.groups().Suspect(session->id, received_ns);
      return sessions_->End(*session, {});
    case wire::FrameType::kAnswer:
      return sessions_->End(*session, "an answer frame from a client");
  }
}

// Only stream frames arrive in two parts.
void Dispatcher::OnFrameParts(Bytes head, Bytes body) {
  wire::FrameHeader header;
  Session* const session = SenderOf(head, head.size() + body.size(), clock_.MonotonicNs(), &header);
  if (session == nullptr) return;
  wire::StreamFrame stream;
  HandleStream(*session, wire::DecodeStreamParts(head, body, &stream), stream);
}

// Returns null for an unknown sender, who gets no answer.
Session* Dispatcher::SenderOf(Bytes head, std::size_t frame_bytes, std::uint64_t received_ns,
                              wire::FrameHeader* header) {
  if (!wire::DecodeHeader(head, frame_bytes, header).ok() || header->core != core_.value()) {
    ++meter_.counters().malformed_frames;
    return nullptr;
  }
  Session* const session = sessions_->Find(header->session, header->connection);
  if (session == nullptr) return nullptr;
  sessions_->Heard(*session, received_ns);
  ++meter_.counters().frames;
  return session;
}

void Dispatcher::HandleStream(Session& session, const Status& decoded,
                              const wire::StreamFrame& frame) {
  if (!decoded.ok()) return sessions_->End(session, "malformed stream frame");
  if (frame.header.type == wire::FrameType::kStreamAck) return streams_->OnAck(session, frame);
  streams_->OnPart(session, frame);
}

void Dispatcher::HandleRequest(Session& session, Bytes frame, std::uint64_t received_ns) {
  if (!wire::DecodeRequest(frame, &at_hand_.request).ok()) {
    return sessions_->End(session, "malformed request frame");
  }
  const wire::FrameHeader& header = at_hand_.request.header;
  at_hand_.copy.reset();
  at_hand_.held.reset();
  ReleaseBelow(session, header.ack_watermark);
  // Operations behind dropped operations have run. Without a lease their answers end the
  // connection.
  if (session.endpoint == nullptr) return;
  CachedReply* kept = session.kept.Find(header.frame_id);
  if (kept != nullptr && kept->fates.size() != at_hand_.request.groups.size()) {
    return sessions_->End(session, "a frame sent again with other contents");
  }
  if (!AdmitRequest(session, kept, frame.size())) return;
  if (kept == nullptr && std::any_of(at_hand_.request.operations.begin(),
                                     at_hand_.request.operations.end(), Mutates)) {
    kept = KeepFrame(session, at_hand_.request);
  }
  AnswerSink sink = responder_.SinkFor(session, header.frame_id, header.reply_bytes_max);
  Reception to{session, header.frame_id, received_ns, kept, sink};
  at_hand_.plan.clear();
  meter_.metrics().BeginFrame();
  for (std::uint16_t g = 0; g < at_hand_.request.groups.size(); ++g) DispatchGroup(g, frame, to);
  if (forwarder_.has_planned()) {
    forwarder_.Send(core_, session.id, at_hand_, DeadlineNs(at_hand_.request, received_ns));
  }
  RunPlan(to);
  PostAnswers(to);
  waiting_.WakeAfterPlan(at_hand_.plan);
}

// Forgets everything below the ack watermark: cached replies, values under way, waiting groups.
void Dispatcher::ReleaseBelow(Session& session, std::uint64_t ack_watermark) {
  if (ack_watermark <= session.kept.ack_watermark()) return;
  session.kept.ReleaseBelow(ack_watermark);
  streams_->DropDownloadsBelow(session, ack_watermark);
  waiting_.DropBelow(session, ack_watermark);
  if (session.waiting_operations == 0) return;
  session.waiting_operations -= forwarder_.ReleaseBelow(session.id, ack_watermark);
  map_waiters_.DropBelow(session.id, ack_watermark, [&session](const MapWaiter& waiter) {
    session.waiting_operations -= waiter.credit;
  });
}

// False if the frame is not to be looked at any further; the session may be gone.
bool Dispatcher::AdmitRequest(Session& session, const CachedReply* kept, std::size_t frame_bytes) {
  const wire::FrameHeader& header = at_hand_.request.header;
  const std::uint64_t ack_watermark = session.kept.ack_watermark();
  if (header.frame_id < ack_watermark) return false;  // Late: the client has given it up.
  if (header.frame_id >= ack_watermark + limits::kFramesUnfinishedMax) {
    sessions_->End(session, "more unfinished frames than allowed");
    return false;
  }
  if (session.kept.value_bytes() > limits::kCachedReplyBytesMax) {
    sessions_->End(session, "it leaves frames unfinished whose answers are kept for it");
    return false;
  }
  if (session.endpoint->bytes_in_flight() + session.awaiting_commit_bytes >
      session.credit_bytes + kUnreadBytesMax) {
    sessions_->End(session, "it does not read its answers");
    return false;
  }
  if (session.waiting_operations + CreditToRun(at_hand_.request, kept) >
      session.credit_operations) {
    sessions_->End(session, "more operations outstanding than granted");
    return false;
  }
  // A resent frame is counted already while it waits.
  if (kept == nullptr && *session.held_bytes + frame_bytes > session.credit_bytes) {
    sessions_->End(session, "more bytes outstanding than granted");
    return false;
  }
  return true;
}

void Dispatcher::DispatchGroup(std::uint16_t g, Bytes frame, Reception& to) {
  const wire::Group& group = at_hand_.request.groups[g];
  const GroupFate fate = to.kept == nullptr ? GroupFate::kUnseen : to.kept->fates[g];
  if (fate == GroupFate::kWaiting) return;  // Its answer will come.
  if (fate == GroupFate::kDone) return ReplayGroup(g, to);
  // The owner of the forwarded group checks whether it may serve.
  if (group.forwarded) return ForwardGroup(g, frame, to);
  if (!lease_.ValidAt(to.received_ns)) return EndGroup(g, StatusCode::kUnavailable, to);
  if (group.atomic) return EndGroup(g, StatusCode::kUnimplemented, to);
  const Verdict verdict = ownership_.Check(group.partition, group.term);
  if (verdict.kind == Verdict::Kind::kRefuse) return EndGroup(g, verdict.code, to);
  if (verdict.kind == Verdict::Kind::kRun) {
    if (to.kept != nullptr) to.kept->fates[g] = GroupFate::kDone;
    return PlanOperations(g, verdict.partition, to.session);
  }
  HoldGroup(g, frame, to);
  map_waiters_.Add({to.session.id, to.frame_id, g, group.partition, group.term, group.credit(),
                    DeadlineNs(at_hand_.request, to.received_ns), at_hand_.copy, at_hand_.held});
}

// It will be answered later: it keeps its credit and a copy of its frame.
void Dispatcher::HoldGroup(std::uint16_t g, Bytes frame, Reception& to) {
  // Reads are cached too while they wait, so that a resent frame does not wait twice.
  if (to.kept == nullptr) to.kept = KeepFrame(to.session, at_hand_.request);
  to.kept->fates[g] = GroupFate::kWaiting;
  to.session.waiting_operations += at_hand_.request.groups[g].credit();
  if (at_hand_.copy == nullptr) {
    at_hand_.copy = std::make_shared<const std::vector<std::byte>>(frame.begin(), frame.end());
    at_hand_.held = std::make_shared<const HeldBytes>(to.session.held_bytes, frame.size());
  }
}

// The group ran, or ended as a whole, when this frame came first. Its changes get their first
// answers. Its reads run again, so they may see the client's own later writes of a broken
// connection. Waiting operations will be answered later.
void Dispatcher::ReplayGroup(std::uint16_t g, Reception& to) {
  if (to.kept->commit_position > 0 || !to.kept->copy_waits.empty()) [[unlikely]] {
    if (responder_.EndUnknown(g, to)) return;
    Responder::RequireCommit(to.kept->commit_position, to);
    to.copy_waits.Add(to.kept->copy_waits);
  }
  if (at_hand_.request.groups[g].quiet) return ReplayQuiet(g, to);
  for (const CachedReply::Entry& entry : to.kept->entries) {
    if (entry.group != g) continue;
    const wire::Answer answer = to.kept->AnswerOf(entry);
    to.sink.Add(answer);
    if (answer.scope == wire::Answer::Scope::kGroup) return;
    if (entry.taken != nullptr) {
      responder_.Stream(to, answer.index, entry.taken);
    }
  }
  const wire::Group& group = at_hand_.request.groups[g];
  storage::Partition* partition = store_.Find(group.partition);
  // Under another term it may have lost the keys that are read.
  const bool has_moved = partition == nullptr || partition->term() != group.term;
  if (!has_moved && lease_.ValidAt(to.received_ns)) return PlanReadsAgain(g, partition);
  for (std::uint32_t i = 0; i < group.operation_count; ++i) {
    const std::uint32_t index = group.first_operation + i;
    if (Mutates(at_hand_.request.operations[index])) continue;
    wire::Answer answer;
    answer.index = static_cast<std::uint16_t>(index);
    // The client takes kWrongEpoch for the end of the term and does not ask under this term again.
    answer.code = has_moved ? StatusCode::kWrongEpoch : StatusCode::kUnavailable;
    answer.value = AsBytes(TextFor(answer.code));
    to.sink.Add(answer);
  }
}

void Dispatcher::PlanOperations(std::uint16_t g, storage::Partition* partition,
                                const Session& session) {
  const wire::Group& group = at_hand_.request.groups[g];
  OperationMeter::GroupCounts counts = meter_.BeginGroup(group.partition.space(), session);
  for (std::uint32_t i = 0; i < group.operation_count; ++i) {
    const std::uint32_t index = group.first_operation + i;
    const wire::Operation& operation = at_hand_.request.operations[index];
    counts.Add(operation.opcode);
    at_hand_.plan.push_back(
        {partition, &operation, 0, static_cast<std::uint16_t>(index), g, group.quiet});
  }
  meter_.EndGroup(counts, group.operation_count, *partition);
}

void Dispatcher::PlanReadsAgain(std::uint16_t g, storage::Partition* partition) {
  const wire::Group& group = at_hand_.request.groups[g];
  for (std::uint32_t i = 0; i < group.operation_count; ++i) {
    const auto index = static_cast<std::uint16_t>(group.first_operation + i);
    const wire::Operation& operation = at_hand_.request.operations[index];
    if (Mutates(operation)) continue;
    at_hand_.plan.push_back({partition, &operation, 0, index, g});
  }
}

void Dispatcher::EndGroup(std::uint16_t g, StatusCode code, Reception& to) {
  wire::Answer answer;
  answer.index = g;
  answer.scope = wire::Answer::Scope::kGroup;
  answer.code = code;
  answer.value = AsBytes(TextFor(code));
  if (code == StatusCode::kWrongEpoch) {
    answer.has_number = true;
    answer.number = ownership_.epoch().value();
  }
  // Cached too: a resent frame must not run a refused group, because the client has sent it under
  // another term meanwhile.
  if (to.kept != nullptr) {
    to.kept->fates[g] = GroupFate::kDone;
    to.session.kept.Add(to.kept, answer, g, nullptr);
  }
  to.sink.Add(answer);
  const wire::Group& group = at_hand_.request.groups[g];
  for (std::uint32_t i = 0; i < group.operation_count; ++i) {
    const wire::Operation& operation = at_hand_.request.operations[group.first_operation + i];
    if (!operation.has(wire::Argument::kUpload)) continue;
    streams_->EndUpload(to.session, operation.get(wire::Argument::kUpload));
  }
}

void Dispatcher::RunPlan(Reception& to) {
  const std::uint64_t now_ms = at_hand_.plan.empty() ? 0 : store_.NowMs();
  // Bytes that later answers need.
  to.rooms_behind = 0;
  for (const Planned& planned : at_hand_.plan) {
    to.rooms_behind += wire::ReplyRoomOf(planned.operation->opcode);
  }
  for (std::size_t begin = 0; begin < at_hand_.plan.size(); begin += kStageOperations) {
    const std::size_t end = std::min(begin + kStageOperations, at_hand_.plan.size());
    for (std::size_t i = begin; i < end; ++i) {
      at_hand_.plan[i].hash = KeyHash(at_hand_.plan[i].operation->key);
      at_hand_.plan[i].partition->PrefetchIndex(at_hand_.plan[i].hash);
    }
    for (std::size_t i = begin; i < end; ++i) {
      at_hand_.plan[i].partition->PrefetchRecord(at_hand_.plan[i].hash);
    }
    for (std::size_t i = begin; i < end; ++i) {
      // Most frames hold nothing that needs room, and are not asked a second time.
      if (to.rooms_behind > 0)
        to.rooms_behind -= wire::ReplyRoomOf(at_hand_.plan[i].operation->opcode);
      const std::size_t entries_bytes = (at_hand_.plan.size() - i - 1) * wire::kReplyEntryBytes;
      RunOne(at_hand_.plan[i], to.rooms_behind + entries_bytes, now_ms, to);
    }
  }
  meter_.SamplePlan(at_hand_.plan, to.session);
}

void Dispatcher::RunOne(const Planned& planned, std::size_t reserved_bytes, std::uint64_t now_ms,
                        Reception& to) {
  if (waiting_.WaitsAlready(planned, at_hand_, to)) [[unlikely]]
    return;
  const bool may_wait = waiting_.MayWait(to.session, *planned.operation);
  const WaitFor wait_for = runner_.Run(planned, reserved_bytes, now_ms, may_wait, to);
  if (wait_for == WaitFor::kNothing) [[likely]]
    return;
  waiting_.Add(planned, wait_for, at_hand_, to);
}

void Dispatcher::PostAnswers(Reception& to) {
  if (at_hand_.plan.empty() && to.commit_wait == 0 && to.copy_waits.empty()) {
    to.sink.Flush();
  } else {
    responder_.PostApplied(to);
  }
  meter_.CountFrame(to, at_hand_.plan, to.held ? &responder_.newest_held() : nullptr);
}

}  // namespace tidepool::daemon
