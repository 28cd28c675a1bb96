#include "daemon/core/responder.h"

#include <algorithm>
#include <utility>

#include "proto/base/check.h"

namespace tidepool::daemon {

std::string_view TextFor(StatusCode code) {
  switch (code) {
    case StatusCode::kUnavailable:
      return "this node's lease has run out; it serves again once it is renewed";
    case StatusCode::kInvalidArgument:
      return "no such partition in this namespace";
    case StatusCode::kNotFound:
      return "the namespace was dropped";
    case StatusCode::kResourceExhausted:
      return "no memory to open the partition";
    case StatusCode::kDeviceError:
      return "the node's devices did not take what it needs to serve this durably; see its log";
    case StatusCode::kUnimplemented:
      return "groups are not atomic; what belongs together is sent as a chain";
    case StatusCode::kFailedPrecondition:
      return "this daemon sends nothing on for clients";
    case StatusCode::kDeadlineExceeded:
      return "this part of the namespace was not served in time: it is being moved, or the node's "
             "map is old";
    default:
      return {};
  }
}

void Responder::Start(CoreId core, transport::Worker* worker, transport::BufferPool* pool,
                      Streams* streams, Sessions* sessions) {
  TP_CHECK(worker_ == nullptr);
  core_ = core;
  worker_ = worker;
  pool_ = pool;
  streams_ = streams;
  sessions_ = sessions;
}

void Responder::Stop() {
  commit_waiters_.Clear();
  copy_waiters_.Clear();
  worker_ = nullptr;
  streams_ = nullptr;
  sessions_ = nullptr;
}

AnswerSink Responder::SinkFor(const Session& session, std::uint64_t frame_id,
                              std::uint32_t reply_bytes_max) {
  return AnswerSink(*worker_, *pool_, store_, session, core_.value(), frame_id,
                    ownership_.epoch().value(), std::min(reply_bytes_max, session.credit_bytes));
}

void Responder::Conclude(const Planned& planned, Reply& reply, std::size_t room, Reception& to) {
  if (planned.quiet) return ConcludeQuiet(planned, reply, room, to);
  wire::Answer& answer = reply.answer;
  const storage::StoredValue& stored = reply.stored;
  answer.index = planned.index;
  std::shared_ptr<const storage::ValueReader> pinned;
  if (stored.extent == nullptr && (answer.value.empty() || stored.location == 0) &&
      stored.value_bytes <= std::min(room, limits::kUnstreamedValueBytesMax)) {
    if (stored.value_bytes > 0) answer.value = stored.value;
  } else {
    answer.streamed = true;
    answer.has_number = true;
    answer.number = stored.value_bytes;
    pinned = std::make_shared<const storage::ValueReader>(
        storage::ValueReader::Pin(planned.partition->store(), stored));
  }
  if (to.kept != nullptr && wire::InfoOf(planned.operation->opcode).mutates) {
    to.session.kept.Add(to.kept, answer, planned.group, pinned);
  }
  to.sink.Add(answer);
  if (pinned != nullptr) Stream(to, planned.index, std::move(pinned));
  // Also of a Put that failed: a value that stays unused would hold its memory for as long as the
  // client lives.
  if (planned.operation->has(wire::Argument::kUpload)) {
    streams_->EndUpload(to.session, planned.operation->get(wire::Argument::kUpload));
  }
}

void Responder::ConcludeQuiet(const Planned& planned, const Reply& reply, std::size_t room,
                              Reception& to) {
  // An insert that finds its key, or a change "if present" that does not, is not a failure.
  const StatusCode code = reply.answer.code;
  const bool is_wanted = code == StatusCode::kAlreadyExists ||
                         (code == StatusCode::kNotFound &&
                          planned.operation->condition == wire::PutCondition::kIfPresent);
  if (code == StatusCode::kOk || is_wanted) return to.sink.AddSuccess(planned.index);
  wire::Answer answer;
  answer.index = planned.index;
  answer.code = reply.answer.code;
  if (reply.answer.value.size() <= room) answer.value = reply.answer.value;
  if (to.kept != nullptr) to.session.kept.AddFailure(to.kept, answer, planned.group);
  to.sink.Add(answer);
}

void Responder::PostApplied(Reception& to) {
  // Checks the lease again: a daemon that was stopped in the middle must not answer after its
  // successor has taken over. Closes the connection too, because its frames would stay open for
  // ever. The client attaches again, repeats its request, and gets the cached answer or a refusal.
  if (!lease_.ValidAt(clock_.MonotonicNs())) {
    to.sink.Discard();
    return sessions_->Disconnect(to.session);
  }
  if (to.commit_wait > 0 || !to.copy_waits.empty()) [[unlikely]] {
    const bool is_copied = to.copy_waits.state() == CopyWaits::State::kSettled;
    if (!is_copied || to.commit_wait > store_.durable_position()) return HoldAnswers(to);
    to.sink.Flush();
    return StartDownloads(to.session, to.frame_id, &to.downloads);
  }
  to.sink.Flush();
}

// After a device failure nothing more becomes durable: changes are refused. Reads show the content
// of memory, so that it can be staged out.
std::uint64_t Responder::CommitWaitOf(const storage::Partition& partition) const {
  const std::uint64_t position = store_.TakeCommitWait(partition);
  return position == 0 || store_.commit_failed() != StatusCode::kOk ? 0 : position;
}

void Responder::RequireCommit(std::uint64_t position, Reception& to) {
  to.commit_wait = std::max(to.commit_wait, position);
  if (to.kept != nullptr) to.kept->commit_position = std::max(to.kept->commit_position, position);
}

void Responder::RequireCopies(const CopyWaits& waits, Reception& to) {
  to.copy_waits.Add(waits);
  if (to.kept != nullptr) to.kept->copy_waits.Add(waits);
}

void Responder::Stream(Reception& to, std::uint16_t index,
                       std::shared_ptr<const storage::ValueReader> value) {
  // Its parts must not come before the answer that announces them.
  if (to.commit_wait > 0 || !to.copy_waits.empty()) {
    to.downloads.push_back({index, std::move(value)});
  } else {
    streams_->StartDownload(to.session, to.frame_id, index, std::move(value));
  }
}

void Responder::StartDownloads(Session& session, std::uint64_t frame_id,
                               std::vector<AwaitingDownload>* downloads) {
  for (AwaitingDownload& each : *downloads) {
    streams_->StartDownload(session, frame_id, each.index, std::move(each.value));
  }
  downloads->clear();
}

void Responder::HoldAnswers(Reception& to) {
  CommitWaiter waiter;
  waiter.position = to.commit_wait;
  waiter.session = to.session.id;
  waiter.connection = to.session.connection;
  waiter.frame_id = to.frame_id;
  waiter.frames = to.sink.Take();
  waiter.downloads = std::move(to.downloads);
  to.held = true;
  for (const auto& frame : waiter.frames) waiter.bytes += frame->size();
  to.session.awaiting_commit_bytes += waiter.bytes;
  waiter.copies = std::move(to.copy_waits);
  newest_held_ = &Hold(std::move(waiter));
}

// Copies come first: their wait ends behind that for a device, seldom before it.
CommitWaiter& Responder::Hold(CommitWaiter waiter) {
  const bool is_copied = waiter.copies.state() == CopyWaits::State::kSettled;
  return (is_copied ? commit_waiters_ : copy_waiters_).Add(std::move(waiter));
}

void Responder::WhenDurable(std::uint64_t position, std::function<void(bool durable)> run,
                            CopyWaits copies) {
  CommitWaiter waiter;
  waiter.position = position;
  waiter.run = std::move(run);
  waiter.copies = std::move(copies);
  Hold(std::move(waiter));
}

unsigned Responder::ReleaseCopied() {
  return copy_waiters_.ReleaseCopied([this](CommitWaiter& waiter, bool is_copied) {
    if (is_copied && waiter.position > store_.durable_position() &&
        store_.commit_failed() == StatusCode::kOk) {
      waiter.copies.clear();
      commit_waiters_.Add(std::move(waiter));
      return;
    }
    if (waiter.run) return waiter.run(is_copied);
    SendCommitted(&waiter, is_copied && waiter.position <= store_.durable_position());
  });
}

unsigned Responder::ReleaseDurable() {
  const bool failed = store_.commit_failed() != StatusCode::kOk;
  return commit_waiters_.Release(store_.durable_position(), failed,
                                 [this](CommitWaiter& waiter, bool is_durable) {
                                   if (waiter.run) return waiter.run(is_durable);
                                   SendCommitted(&waiter, is_durable);
                                 });
}

void Responder::SendCommitted(CommitWaiter* waiter, bool is_durable) {
  Session* session = sessions_->Find(waiter->session);
  if (session == nullptr) return;
  TP_DCHECK(session->awaiting_commit_bytes >= waiter->bytes);
  session->awaiting_commit_bytes -= waiter->bytes;
  // A client that has come back over another connection has asked again, and waits as well.
  if (session->connection != waiter->connection || session->endpoint == nullptr) return;
  // Does not answer changes that will never be durable or whose partition may have another owner by
  // now. The client repeats its request over a new connection and learns the outcome (ReplayGroup).
  if (!is_durable || !lease_.ValidAt(clock_.MonotonicNs())) return sessions_->Disconnect(*session);
  for (auto& frame : waiter->frames) (void)worker_->Send(session->endpoint, std::move(frame));
  StartDownloads(*session, waiter->frame_id, &waiter->downloads);
  meter_.CountCommitted(*waiter);
}

// The group ran before the device failed, so it is unknown whether its changes outlive the daemon.
// Or it ran here before another node became the owner.
bool Responder::EndUnknown(std::uint16_t g, Reception& to) {
  const bool is_void = to.kept->copy_waits.state() == CopyWaits::State::kVoid;
  if (!is_void && (to.kept->commit_position <= store_.durable_position() ||
                   store_.commit_failed() == StatusCode::kOk)) {
    return false;
  }
  wire::Answer answer;
  answer.index = g;
  answer.scope = wire::Answer::Scope::kGroup;
  answer.code = StatusCode::kUnknown;
  answer.value = AsBytes(std::string_view(
      is_void ? "another node became the owner meanwhile, which may or may not have the change"
              : "a device of the node has failed; the change may or may not outlive the daemon"));
  to.sink.Add(answer);
  return true;
}

}  // namespace tidepool::daemon
