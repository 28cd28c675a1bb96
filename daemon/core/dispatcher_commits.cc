// Answers that wait until what they tell of is durable: of namespaces with durability `sync`.
//
// A commit takes what has come while the one before was under way, so they wait for one or two
// writes of the device. They go out in the order in which they were made; nobody else's answers
// wait.
#include <algorithm>
#include <utility>

#include "daemon/core/dispatcher.h"
#include "proto/base/check.h"

namespace tidepool::daemon {

// After a device has failed nothing that was not durable will be: changes are refused, and reads
// show what is in memory, so that it can be staged out.
std::uint64_t Dispatcher::CommitWaitOf(const storage::Partition& partition) const {
  const std::uint64_t position = store_.TakeCommitWait(partition);
  return position == 0 || store_.commit_failed() != StatusCode::kOk ? 0 : position;
}

void Dispatcher::NoteCommitWait(std::uint64_t position, Reception& to) {
  to.commit_wait = std::max(to.commit_wait, position);
  if (to.kept != nullptr) to.kept->commit_position = std::max(to.kept->commit_position, position);
}

void Dispatcher::Stream(Reception& to, std::uint16_t index,
                        std::shared_ptr<const storage::ValueReader> value) {
  // Its parts must not come before the answer that announces them.
  if (to.commit_wait > 0) {
    to.downloads.push_back({index, std::move(value)});
  } else {
    streams_->StartDownload(to.session, to.frame_id, index, std::move(value));
  }
}

void Dispatcher::StartDownloads(Session& session, std::uint64_t frame_id,
                                std::vector<AwaitingDownload>* downloads) {
  for (AwaitingDownload& each : *downloads) {
    streams_->StartDownload(session, frame_id, each.index, std::move(each.value));
  }
  downloads->clear();
}

void Dispatcher::HoldAnswers(Reception& to) {
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
  commit_waiters_.Add(std::move(waiter));
}

void Dispatcher::WhenDurable(std::uint64_t position, std::function<void(bool durable)> run) {
  CommitWaiter waiter;
  waiter.position = position;
  waiter.run = std::move(run);
  commit_waiters_.Add(std::move(waiter));
}

unsigned Dispatcher::ReleaseDurable() {
  const bool failed = store_.commit_failed() != StatusCode::kOk;
  return commit_waiters_.Release(store_.durable_position(), failed,
                                 [this](CommitWaiter& waiter, bool is_durable) {
                                   if (waiter.run) return waiter.run(is_durable);
                                   SendCommitted(&waiter, is_durable);
                                 });
}

void Dispatcher::SendCommitted(CommitWaiter* waiter, bool is_durable) {
  Session* session = sessions_->Find(waiter->session);
  if (session == nullptr) return;
  TP_CHECK(session->awaiting_commit_bytes >= waiter->bytes);
  session->awaiting_commit_bytes -= waiter->bytes;
  // A client that has come back over another connection has asked again, and waits as well.
  if (session->connection != waiter->connection || session->endpoint == nullptr) return;
  // What will never be durable, or may be another's by now, is not told. As the connection goes,
  // the client asks again over a new one, and hears what has become of it (ReplayGroup).
  if (!is_durable || !lease_.ValidAt(clock_.MonotonicNs())) return sessions_->Disconnect(*session);
  for (auto& frame : waiter->frames) (void)worker_->Send(session->endpoint, std::move(frame));
  StartDownloads(*session, waiter->frame_id, &waiter->downloads);
  meter_.CountCommitted(*waiter);
}

// Of a group that ran before the device failed: whether it outlives the daemon is not known.
bool Dispatcher::EndedUnknown(std::uint16_t g, Reception& to) {
  if (to.kept->commit_position <= store_.durable_position() ||
      store_.commit_failed() == StatusCode::kOk) {
    return false;
  }
  wire::Answer answer;
  answer.index = g;
  answer.scope = wire::Answer::Scope::kGroup;
  answer.code = StatusCode::kUnknown;
  answer.value = AsBytes(std::string_view(
      "a device of the node has failed; the change may or may not outlive the daemon"));
  to.sink.Add(answer);
  return true;
}

}  // namespace tidepool::daemon
