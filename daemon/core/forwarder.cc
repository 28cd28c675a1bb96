#include "daemon/core/forwarder.h"

#include <utility>

#include "proto/base/check.h"
#include "proto/wire/reply_room.h"

namespace tidepool::daemon {

void Forwarder::Plan(std::uint16_t number, const wire::Group& group, Bytes body) {
  TP_CHECK(enabled());
  const auto first = static_cast<std::uint16_t>(group.first_operation);
  const auto count = static_cast<std::uint16_t>(group.operation_count);
  to_send_.groups.push_back({group.partition, first, count, group.uniform, body});
  next_.groups.push_back({number, first, count});
  next_.credit += group.credit();
}

void Forwarder::Send(CoreId core, SessionId session, const RequestAtHand& at_hand,
                     std::uint64_t deadline_ns) {
  TP_CHECK(has_planned() && at_hand.copy != nullptr);
  const wire::FrameHeader& header = at_hand.request.header;
  next_.session = session;
  next_.frame_id = header.frame_id;
  next_.held = at_hand.held;
  next_.reply_bytes_max = header.reply_bytes_max;
  const std::uint64_t ticket = next_ticket_++;
  TP_CHECK(forwarded_.emplace(ticket, std::exchange(next_, {})).second);
  to_send_.core = core;
  to_send_.ticket = ticket;
  to_send_.session = session;
  to_send_.epoch = Epoch(header.map_epoch);
  to_send_.deadline_ns = deadline_ns;
  to_send_.bytes = at_hand.copy;
  aggregator_->Forward(std::exchange(to_send_, {}));
}

std::optional<ForwardedGroups> Forwarder::Take(std::uint64_t ticket) {
  auto found = forwarded_.extract(ticket);
  if (found.empty()) return std::nullopt;
  return std::move(found.mapped());
}

void Forwarder::Answer(const ForwardedGroups& forwarded, const wire::ForwardedOutcome& outcome,
                       Reception& to) {
  auto failure = outcome.failures.begin();
  std::size_t behind = 0;  // Operations behind the present one whose entries need room.
  for (const ForwardedGroups::Group& group : forwarded.groups) behind += group.count;
  for (const ForwardedGroups::Group& group : forwarded.groups) {
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

std::uint32_t Forwarder::ReleaseBelow(SessionId session, std::uint64_t frame_id) {
  std::uint32_t credit = 0;
  for (auto& [ticket, forwarded] : forwarded_) {
    if (forwarded.session != session || forwarded.frame_id >= frame_id) continue;
    credit += std::exchange(forwarded.credit, 0);
    forwarded.held.reset();
  }
  return credit;
}

}  // namespace tidepool::daemon
