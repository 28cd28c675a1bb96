// Answers that wait until what they tell of is durable: of namespaces with durability `sync`.
//
// A commit takes what has come while the one before was under way, so they wait for one or two
// writes of the device. They go out in the order in which they were made; nobody else's answers
// wait.
#include <algorithm>
#include <utility>

#include "daemon/core/dispatcher.h"

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
  AwaitingCommit held;
  held.position = to.commit_wait;
  held.session = to.session.id;
  held.connection = to.session.connection;
  held.frame_id = to.frame_id;
  held.frames = to.sink.Take();
  held.downloads = std::move(to.downloads);
  to.held = true;
  for (const auto& frame : held.frames) held.bytes += frame->size();
  to.session.awaiting_commit_bytes += held.bytes;
  awaiting_commit_.push_back(std::move(held));
}

void Dispatcher::WhenDurable(std::uint64_t position, std::function<void(bool durable)> run) {
  AwaitingCommit held;
  held.position = position;
  held.run = std::move(run);
  awaiting_commit_.push_back(std::move(held));
}

unsigned Dispatcher::ReleaseDurable() {
  const std::uint64_t durable = store_.durable_position();
  const bool failed = store_.commit_failed() != StatusCode::kOk;
  unsigned released = 0;
  while (!awaiting_commit_.empty() && (failed || awaiting_commit_.front().position <= durable)) {
    AwaitingCommit held = std::move(awaiting_commit_.front());
    awaiting_commit_.pop_front();
    ++released;
    const bool is_durable = held.position <= durable;
    if (held.run) {
      held.run(is_durable);
    } else {
      SendCommitted(&held, is_durable);
    }
  }
  return released;
}

void Dispatcher::SendCommitted(AwaitingCommit* held, bool is_durable) {
  Session* session = sessions_->Find(held->session);
  if (session == nullptr) return;
  session->awaiting_commit_bytes -= held->bytes;
  // Who has come back over another connection has asked again, and waits as well.
  if (session->connection != held->connection || session->endpoint == nullptr) return;
  // What will never be durable, or may be another's by now, is not told. As the connection goes,
  // the client asks again over a new one, and hears what has become of it (ReplayGroup).
  if (!is_durable || !lease_.ValidAt(clock_.MonotonicNs())) return sessions_->Disconnect(*session);
  for (auto& frame : held->frames) (void)worker_->Send(session->endpoint, std::move(frame));
  StartDownloads(*session, held->frame_id, &held->downloads);
  CountAwaiting(*held);
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
