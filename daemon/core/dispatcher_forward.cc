// Groups that are for other cores: handed to the node's aggregator, answered when it has.
#include <optional>

#include "daemon/core/dispatcher.h"

namespace tidepool::daemon {

void Dispatcher::ForwardGroup(std::uint16_t g, Bytes frame, Reception& to) {
  if (!forwarder_.enabled()) return EndGroup(g, StatusCode::kFailedPrecondition, to);
  HoldGroup(g, frame, to);
  const wire::Group& group = at_hand_.request.groups[g];
  // Its place in the copy, which outlives the frame.
  const auto at = static_cast<std::size_t>(group.body.data() - frame.data());
  forwarder_.Plan(g, group, Bytes(*at_hand_.copy).subspan(at, group.body.size()));
}

void Dispatcher::OnForwarded(const std::vector<wire::ForwardedOutcome>& outcomes) {
  for (const wire::ForwardedOutcome& outcome : outcomes) {
    const std::optional<ForwardedGroups> forwarded = forwarder_.Take(outcome.ticket);
    if (!forwarded.has_value()) continue;
    Session* session = sessions_->Find(forwarded->session);
    if (session == nullptr) continue;
    session->waiting_operations -= forwarded->credit;
    CachedReply* kept = session->kept.Find(forwarded->frame_id);
    if (kept == nullptr) continue;  // Its client has given it up.
    AnswerSink sink = responder_.SinkFor(*session, forwarded->frame_id, forwarded->reply_bytes_max);
    sink.SetCompanions(outcome.companions);
    Reception to{*session, forwarded->frame_id, clock_.MonotonicNs(), kept, sink};
    Forwarder::Answer(*forwarded, outcome, to);
    // The lease does not matter: the owners have applied it under theirs.
    sink.Flush();
  }
}

}  // namespace tidepool::daemon
