// Groups that are for other cores: handed to the node's aggregator, answered when it has.
#include <utility>

#include "daemon/core/dispatcher.h"
#include "proto/wire/reply_room.h"

namespace tidepool::daemon {

void Dispatcher::ForwardGroup(std::uint16_t g, Bytes frame, Reception& to) {
  if (aggregator_ == nullptr) return EndGroup(g, StatusCode::kFailedPrecondition, to);
  HoldGroup(g, frame, to);
  const wire::Group& group = request_.groups[g];
  // Its place in the copy, which outlives the frame.
  const auto at = static_cast<std::size_t>(group.body.data() - frame.data());
  const auto first = static_cast<std::uint16_t>(group.first_operation);
  const auto count = static_cast<std::uint16_t>(group.operation_count);
  to_forward_.groups.push_back({group.partition, first, count, group.uniform,
                                Bytes(*request_copy_).subspan(at, group.body.size())});
  forwarding_.groups.push_back({g, first, count});
  forwarding_.credit += group.credit();
}

// All forwarded groups of a frame go together, and are answered together.
void Dispatcher::ForwardPlanned(Reception& to) {
  forwarding_.session = to.session.id;
  forwarding_.frame_id = to.frame_id;
  forwarding_.held = request_held_;
  forwarding_.reply_bytes_max = request_.header.reply_bytes_max;
  const std::uint64_t ticket = next_ticket_++;
  forwarded_.emplace(ticket, std::exchange(forwarding_, {}));
  to_forward_.core = core_;
  to_forward_.ticket = ticket;
  to_forward_.session = to.session.id;
  to_forward_.epoch = Epoch(request_.header.map_epoch);
  to_forward_.deadline_ns = DeadlineNs(to.received_ns);
  to_forward_.bytes = request_copy_;
  aggregator_->Forward(std::exchange(to_forward_, {}));
}

void Dispatcher::OnForwarded(const std::vector<wire::ForwardedOutcome>& outcomes) {
  for (const wire::ForwardedOutcome& outcome : outcomes) {
    const auto found = forwarded_.extract(outcome.ticket);
    if (found.empty()) continue;
    const Forwarded& forwarded = found.mapped();
    Session* session = sessions_->Find(forwarded.session);
    if (session == nullptr) continue;
    session->waiting_operations -= forwarded.credit;
    CachedReply* kept = session->kept.Find(forwarded.frame_id);
    if (kept == nullptr) continue;  // Its client has given it up.
    AnswerSink sink = SinkFor(*session, forwarded.frame_id, forwarded.reply_bytes_max);
    sink.SetCompanions(outcome.companions);
    Reception to{*session, forwarded.frame_id, clock_.MonotonicNs(), kept, sink};
    AnswerForwarded(forwarded, outcome, to);
    // The lease does not matter: the owners have applied it under theirs.
    sink.Flush();
  }
}

void Dispatcher::AnswerForwarded(const Forwarded& forwarded, const wire::ForwardedOutcome& outcome,
                                 Reception& to) {
  auto failure = outcome.failures.begin();
  std::size_t behind = 0;  // Operations whose entries need room behind the one at hand.
  for (const Forwarded::Group& group : forwarded.groups) behind += group.count;
  for (const Forwarded::Group& group : forwarded.groups) {
    to.kept->fates[group.number] = GroupFate::kDone;
    const std::uint32_t end = std::uint32_t{group.first} + group.count;
    for (std::uint32_t index = group.first; index < end; ++index) {
      --behind;
      while (failure != outcome.failures.end() &&
             std::uint32_t{failure->first} + failure->count <= index) {
        ++failure;
      }
      if (failure == outcome.failures.end() || index < failure->first) {
        to.sink.AddSuccess(static_cast<std::uint16_t>(index));
        continue;
      }
      wire::Answer answer;
      answer.index = static_cast<std::uint16_t>(index);
      answer.code = failure->code;
      const std::size_t room = to.sink.ValueRoom(behind * wire::kReplyEntryBytes);
      if (failure->text.size() <= room) answer.value = AsBytes(failure->text);
      to.session.kept.AddFailure(to.kept, answer, group.number);
      to.sink.Add(answer);
    }
  }
}

}  // namespace tidepool::daemon
