#include "daemon/copies/copy_inbox.h"

#include <algorithm>
#include <string>
#include <utility>

#include "proto/base/clock.h"
#include "proto/base/log.h"

namespace tidepool::daemon {
namespace {

// Between two looks at the clock.
constexpr int kMessagesPerLook = 16;
// Bytes after which an acknowledgement is due; the last frame brings one too.
constexpr std::uint64_t kAckBytes = 256 * 1024;

using wire::CopyMessage;
using wire::CopyMessageKind;

}  // namespace

CopyInbox::~CopyInbox() {
  for (const auto& target : targets_) target->Drop();
}

CopyTarget* CopyInbox::Find(PartitionId partition) const {
  for (const auto& target : targets_) {
    if (target->partition() == partition) return target.get();
  }
  return nullptr;
}

void CopyInbox::Remove(PartitionId partition) {
  std::erase_if(targets_, [partition](const auto& target) {
    if (target->partition() != partition) return false;
    target->Drop();
    return true;
  });
}

bool CopyInbox::OnFrame(const wire::CopyFrameHeader& header, Bytes body) {
  if (!link_->Follows(header.position, body.size())) return false;
  if (header.position == 0) return true;
  frames_.push_back({{body.begin(), body.end()}, header.position});
  return true;
}

bool CopyInbox::urgent() const {
  return has_frames() && std::any_of(targets_.begin(), targets_.end(),
                                     [](const auto& target) { return target->replica(); });
}

// A copy that is not whole is nothing without its source, but for a replica: it may be named the
// owner's successor. What came and was not acknowledged was answered to nobody.
void CopyInbox::OnLost() {
  link_->OnLost();
  frames_.clear();
  at_ = 0;
  std::erase_if(targets_, [this](const auto& target) {
    if (target->whole()) return false;
    if (target->replica()) {
      target->Stop();
      if (alarms_ != nullptr) alarms_->Raise(source_);
      return false;
    }
    target->Drop();
    return true;
  });
}

void CopyInbox::Fail(CopyTarget& target) {
  if (target.code() != StatusCode::kCancelled) {
    log::Warn("a copy of partition " + std::to_string(target.partition().index()) +
              " of namespace " + std::to_string(target.partition().space().value()) +
              " was given up here: " + std::string(StatusCodeName(target.code())));
  }
  GiveUp(target, target.code());
}

// A replica may be in sync: it stays as it is until the map drops it.
void CopyInbox::GiveUp(CopyTarget& target, StatusCode code) {
  SendFailed(target, code);
  if (target.replica()) return target.Stop();
  Remove(target.partition());
}

void CopyInbox::SendFailed(const CopyTarget& target, StatusCode code) {
  CopyMessage failed;
  failed.kind = CopyMessageKind::kFailed;
  failed.partition = target.partition();
  failed.copy = target.copy();
  failed.number = static_cast<std::uint64_t>(code);
  link_->SendBeside(failed);
}

// Before the acknowledgement that covers the message: the source must not take it for a change that
// is here. Its successor would not have what a former owner then answers.
void CopyInbox::Refuse(const CopyMessage& message) {
  if (message.kind == CopyMessageKind::kAlive || message.kind == CopyMessageKind::kDrop) return;
  if (!refused_.emplace(message.partition, message.copy).second) return;
  CopyMessage failed;
  failed.kind = CopyMessageKind::kFailed;
  failed.partition = message.partition;
  failed.copy = message.copy;
  failed.number = static_cast<std::uint64_t>(StatusCode::kAborted);
  link_->SendBeside(failed);
}

CopyTarget::Outcome CopyInbox::Apply(const CopyMessage& message) {
  CopyTarget* const target = Find(message.partition);
  // The copy was given up here, or has become the owner, and the source does not know it yet.
  if (target == nullptr || target->copy() != message.copy) {
    Refuse(message);
    return CopyTarget::Outcome::kApplied;
  }
  const CopyTarget::Outcome outcome = target->Apply(message);
  if (outcome == CopyTarget::Outcome::kFailed) {
    // A whole copy may be the owner's by now: only its source and a map take it away.
    if (!target->whole() || target->code() == StatusCode::kCancelled) Fail(*target);
    return CopyTarget::Outcome::kApplied;
  }
  if (outcome == CopyTarget::Outcome::kApplied && message.kind == CopyMessageKind::kEnd) {
    CopyMessage whole;
    whole.kind = CopyMessageKind::kWhole;
    whole.partition = target->partition();
    whole.copy = target->copy();
    link_->SendBeside(whole);
  }
  return outcome;
}

void CopyInbox::Unreadable(StatusCode code) {
  if (frames_.empty()) return;
  wire::CopyMessages messages{Bytes(frames_.front().body).subspan(at_)};
  CopyMessage message;
  if (!messages.Next(&message)) return;
  CopyTarget* const target = Find(message.partition);
  if (target == nullptr || target->whole()) {
    at_ = frames_.front().body.size() - messages.bytes_left();
    return;
  }
  log::Error("a record of a copy cannot be read from the device: " +
             std::string(StatusCodeName(code)));
  GiveUp(*target, code);
}

bool CopyInbox::Slice(std::uint64_t end_ns) {
  int count = 0;
  while (!frames_.empty()) {
    const Bytes body(frames_.front().body);
    wire::CopyMessages messages(body.subspan(at_));
    CopyMessage message;
    while (messages.Next(&message)) {
      if (Apply(message) == CopyTarget::Outcome::kWait) return false;
      if (link_->lost()) return false;
      at_ = body.size() - messages.bytes_left();
      if (++count % kMessagesPerLook == 0 && Clock::Real().MonotonicNs() >= end_ns) {
        Acknowledge();
        return true;
      }
    }
    if (messages.malformed()) {
      log::Error("a malformed message of a copy: its link ends");
      OnLost();
      return false;
    }
    applied_ = frames_.front().position;
    frames_.pop_front();
    at_ = 0;
    if (applied_ - acknowledged_ >= kAckBytes || frames_.empty()) Acknowledge();
  }
  return false;
}

void CopyInbox::Acknowledge() {
  if (applied_ == acknowledged_) return;
  acknowledged_ = applied_;
  CopyMessage ack;
  ack.kind = CopyMessageKind::kAck;
  ack.number = applied_;
  link_->SendBeside(ack);
}

// As long as its source may be the owner. A newer term is the copy's own, or voids it.
bool CopyInbox::IsWanted(const CopyTarget& target, const placement::PlacementMap& map,
                         NodeId self) const {
  const placement::PartitionPlace* const place = map.Find(target.partition());
  if (place == nullptr || place->term > target.term()) return false;
  if (!target.replica()) return true;
  return std::any_of(place->copies.begin(), place->copies.end(), [&](const auto& copy) {
    return copy.node == self && copy.since == target.version();
  });
}

// Drop does nothing to an adopted partition, which is no incoming one any more.
void CopyInbox::OnMap(const placement::PlacementMap& map, NodeId self) {
  std::erase_if(targets_, [&](const auto& target) {
    if (IsWanted(*target, map, self)) return false;
    target->Drop();
    return true;
  });
}

}  // namespace tidepool::daemon
