// Packs in frames under way: an Operation that stands for many operations.
#include "client/engine/engine.h"
#include "client/link/core_link.h"
#include "proto/base/check.h"

namespace tidepool::internal {

// Takes a sent pack out of its frame. Its unanswered places become `leaves`. With `ends` they are
// noted with the status that the pack will end with.
void CoreLink::ReleasePack(Operation* pack, Operation* leaves, bool ends) {
  SentFrame* frame = pack->frame;
  std::uint32_t run = 0;  // Unanswered places just before `i`.
  for (std::uint32_t i = 0; i <= pack->pack_count; ++i) {
    const std::size_t at = std::size_t{pack->index} + i;
    if (i < pack->pack_count && frame->operations[at] == pack) {
      frame->operations[at] = leaves;
      --frame->live;
      if (leaves == nullptr) --frame->unanswered;
      ++run;
    } else if (run > 0) {
      if (ends) pack->call->AddPackFailure(*pack, i - run, run, {});
      run = 0;
    }
  }
  OperationLeft(pack->queue);
}

// Handles one answer for the places from `begin` to `end`, or to the next pack. Returns the place
// where it stopped.
std::uint32_t CoreLink::FinishPack(SentFrame* frame, std::uint32_t begin, std::uint32_t end,
                                   const wire::Answer& answer) {
  Operation* pack = frame->operations[begin];
  std::uint32_t at = begin;
  for (; at < end && frame->operations[at] == pack; ++at) frame->operations[at] = nullptr;
  const std::uint32_t count = at - begin;
  frame->unanswered -= count;
  if (answer.code != StatusCode::kOk) {
    RecordCached(*frame, answer.value.size() + limits::kCachedFailureBytes);
  }
  if (pack == GivenUpPack()) return at;
  frame->live -= count;
  if (answer.code != StatusCode::kOk) {
    pack->call->AddPackFailure(*pack, begin - pack->index, count,
                               engine_.Explain(*pack, answer.code, AsText(answer.value)));
  }
  if (answer.code == StatusCode::kOk && pack->call->wants_receipt()) {
    pack->call->RecordReceipt(*pack, checkpoint_);
  }
  pack->pack_left = static_cast<std::uint16_t>(pack->pack_left - count);
  if (pack->pack_left == 0) {
    OperationLeft(pack->queue);
    engine_.End(pack, StatusCode::kOk);  // Failures are noted one by one.
  }
  return at;
}

// The group was answered as a whole: refused, and then nothing of it was executed.
void CoreLink::EndPack(SentFrame* frame, const SentGroup& group, const wire::Answer& answer) {
  for (std::uint32_t i = 0; i < group.count; ++i) {
    Operation*& at = frame->operations[static_cast<std::size_t>(group.first) + i];
    if (at == nullptr) continue;
    if (at == GivenUpPack()) {
      at = nullptr;
      --frame->unanswered;
      continue;
    }
    Operation* pack = at;
    const bool again = answer.code == StatusCode::kWrongEpoch;
    ReleasePack(pack, nullptr, !again);
    if (again) return Requeue(pack);
    return engine_.End(pack, engine_.Explain(*pack, answer.code, AsText(answer.value)));
  }
}

// The operations of credit that a frame takes when it is sent again.
std::uint32_t CoreLink::CreditOf(const SentFrame& frame) const {
  std::uint32_t credit = 0;
  for (const SentGroup& group : frame.groups) {
    std::uint32_t live = 0;
    for (std::uint32_t i = 0; i < group.count; ++i) {
      live += frame.operations[static_cast<std::size_t>(group.first) + i] != nullptr ? 1 : 0;
    }
    credit += group.pack ? 1 : live;
  }
  return credit;
}

// Sends the whole pack again, even if a part was answered: the daemon knows the frame then, and
// answers from its reply cache. A pack that has no place left becomes place holders.
bool CoreLink::ResendPack(const SentFrame& frame, const SentGroup& group,
                          wire::RequestWriter* writer, std::uint64_t* deadline_ns) const {
  for (std::uint32_t i = 0; i < group.count; ++i) {
    const Operation* pack = frame.operations[static_cast<std::size_t>(group.first) + i];
    if (pack == nullptr) continue;
    *deadline_ns = std::max(*deadline_ns, pack->call->deadline_ns);
    return writer->AddEncodedGroup(group.queue->id, group.term, true, group.count,
                                   pack->pack_uniform, {pack->value, pack->value_bytes},
                                   IsForwarded(*group.queue));
  }
  const wire::OperationHeader header = wire::HeaderOf(PlaceHolder());
  return writer->AddEncodedGroup(group.queue->id, group.term, true, group.count, true,
                                 {reinterpret_cast<const std::byte*>(&header), sizeof header},
                                 IsForwarded(*group.queue));
}

}  // namespace tidepool::internal
