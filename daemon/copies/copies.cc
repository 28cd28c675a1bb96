#include "daemon/copies/copies.h"

#include <algorithm>
#include <string>
#include <utility>

#include "proto/base/check.h"
#include "proto/base/log.h"
#include "proto/base/steady_clock.h"

namespace tidepool::daemon {
namespace {

void SendDrop(CopyLink& link, const CopyJob& job) {
  wire::CopyMessage message;
  message.kind = wire::CopyMessageKind::kDrop;
  message.partition = job.partition;
  message.copy = job.copy;
  link.Append(message);
  link.Flush();
}

constexpr std::uint64_t kAliveNs = 1'000'000'000;
// A peer from which nothing comes for so long is lost.
constexpr std::uint64_t kSilenceNs = 15'000'000'000;
// A replica that takes nothing for so long, while something waits for it, is dropped.
constexpr std::uint64_t kCopyTimeoutNs = 1'000'000'000;
// A timer this late says that this process was stopped, and could not hear anybody.
constexpr std::uint64_t kStoppedNs = 500'000'000;
// An unused link stays open so long for the next copy.
constexpr std::uint64_t kUnusedNs = 10'000'000'000;

using wire::CopyMessage;
using wire::CopyMessageKind;

}  // namespace

Copies::Copies(storage::CoreStore& store, CopyHooks hooks, CopyAlarms* alarms)
    : store_(store), hooks_(std::move(hooks)), alarms_(alarms) {}

Copies::~Copies() { TP_CHECK(!linked()); }

void Copies::Start(transport::Worker* worker, transport::BufferPool* pool) {
  worker_ = worker;
  pool_ = pool;
}

void Copies::Stop() {
  for (const auto& outbox : outboxes_) {
    for (const auto& source : outbox->sources) source->Fail(StatusCode::kCancelled);
    outbox->sources.clear();
  }
  counting_.clear();
  outboxes_.clear();
  inboxes_.clear();
}

Result<std::unique_ptr<CopyLink>> Copies::Connect(std::uint64_t link, CoreId peer_core,
                                                  std::string_view address) {
  auto endpoint = worker_->Connect(address);
  if (!endpoint.ok()) return endpoint.status();
  auto made = std::make_unique<CopyLink>(link, peer_core, worker_, pool_, *endpoint);
  made->Hear(SteadyClock::Real().MonotonicNs());
  return made;
}

std::uint64_t Copies::FindLink(const CopyPeer& peer) const {
  for (const auto& outbox : outboxes_) {
    if (outbox->peer != peer || outbox->link->lost()) continue;
    outbox->used_ns = SteadyClock::Real().MonotonicNs();  // It stays until Begin.
    return outbox->link->id();
  }
  return 0;
}

CopySource* Copies::FindSource(PartitionId partition) const {
  for (const auto& outbox : outboxes_) {
    for (const auto& source : outbox->sources) {
      if (source->job().partition == partition) return source.get();
    }
  }
  return nullptr;
}

Status Copies::Begin(const std::shared_ptr<CopyJob>& job, const CopyPeer& peer,
                     std::string_view address) {
  const storage::Partition* const held = store_.Find(job->partition);
  if (held == nullptr || !held->Serves(job->term)) {
    return Status(StatusCode::kWrongEpoch, "the partition is not served here under this term");
  }
  if (FindSource(job->partition) != nullptr) {
    return Status(StatusCode::kAborted, "the partition is being copied already");
  }
  Outbox* outbox = nullptr;
  for (const auto& each : outboxes_) {
    if (each->link->id() == job->link) outbox = each.get();
  }
  if (outbox == nullptr) {
    auto link = Connect(job->link, peer.core, address);
    if (!link.ok()) return link.status();
    outbox = outboxes_.emplace_back(std::make_unique<Outbox>()).get();
    outbox->peer = peer;
    outbox->link = *std::move(link);
  }
  if (outbox->link->lost()) {
    return Status(StatusCode::kUnavailable, "the link to the target was lost", "try again");
  }
  outbox->sources.push_back(std::make_unique<CopySource>(job, outbox->link.get(), store_));
  if (job->replica) counting_[job->partition.value()] = outbox->sources.back().get();
  return OkStatus();
}

StatusCode Copies::Hold(const CopyJob& job) {
  CopySource* const source = FindSource(job.partition);
  if (source == nullptr || &source->job() != &job || source->over()) return StatusCode::kNotFound;
  if (!hooks_.freeze(job.partition, job.term)) return StatusCode::kWrongEpoch;
  source->End();
  return StatusCode::kOk;
}

void Copies::End(const CopyJob& job, Ending ending) {
  bool told = false;
  for (const auto& outbox : outboxes_) {
    const auto found = std::find_if(outbox->sources.begin(), outbox->sources.end(),
                                    [&job](const auto& source) { return &source->job() == &job; });
    if (found == outbox->sources.end()) continue;
    outbox->sources.erase(found);
    if (ending == Ending::kMoved) return;
    SendDrop(*outbox->link, job);
    told = true;
    break;
  }
  if (ending == Ending::kMoved) return;
  if (!told) {
    // It did not begin here, but the target may have opened it.
    for (const auto& outbox : outboxes_) {
      if (outbox->link->id() == job.link) SendDrop(*outbox->link, job);
    }
  }
  // A map that gave the partition a newer term has thawed it.
  hooks_.thaw(job.partition, job.term);
}

Status Copies::Open(PartitionId partition, Term term, std::uint64_t version,
                    const storage::PartitionOptions& options, std::uint64_t link, NodeId source,
                    CoreId source_core, std::string_view address) {
  CopyInbox* inbox = nullptr;
  for (const auto& each : inboxes_) {
    const CopyTarget* const earlier = each->Find(partition);
    // The source has given this attempt up.
    if (earlier != nullptr && earlier->version() < version) each->Remove(partition);
    if (each->link().id() == link && !each->link().lost()) inbox = each.get();
  }
  const auto added = store_.AddIncoming(partition, term, options);
  if (!added.ok()) return added.status();
  if (inbox == nullptr) {
    auto connected = Connect(link, source_core, address);
    if (!connected.ok()) {
      store_.DropIncoming(partition);
      return connected.status();
    }
    inbox = inboxes_
                .emplace_back(
                    std::make_unique<CopyInbox>(*std::move(connected), store_, source, alarms_))
                .get();
  }
  inbox->Add(std::make_unique<CopyTarget>(partition, term, version, store_, options.has_replicas));
  return OkStatus();
}

void Copies::OnFrame(Bytes frame, std::uint64_t now_ns) {
  const auto header = LoadUnaligned<wire::CopyFrameHeader>(frame.data());
  const Bytes body = frame.subspan(sizeof header);
  if (header.version != wire::kCopyWireVersion || header.core != store_.core().value()) return;
  for (const auto& inbox : inboxes_) {
    if (inbox->link().id() != header.link || inbox->link().lost()) continue;
    inbox->link().Hear(now_ns);
    if (inbox->OnFrame(header, body)) return;
    log::Error("a frame of a copy's link is missing: the link ends");
    return inbox->OnLost();
  }
  for (const auto& outbox : outboxes_) {
    if (outbox->link->id() != header.link || outbox->link->lost()) continue;
    outbox->link->Hear(now_ns);
    wire::CopyMessages messages(body);
    CopyMessage message;
    while (messages.Next(&message)) OnAnswer(*outbox, message);
    if (messages.malformed()) Lose(*outbox);
    return;
  }
}

void Copies::OnAnswer(Outbox& outbox, const CopyMessage& message) {
  if (message.kind == CopyMessageKind::kAck && !outbox.link->OnAck(message.number)) {
    return Lose(outbox);
  }
  if (message.kind == CopyMessageKind::kAck) {
    ++progress_;
    for (const auto& source : outbox.sources) source->OnAcked();
    return;
  }
  for (const auto& source : outbox.sources) {
    if (source->job().partition != message.partition || source->job().copy != message.copy) {
      continue;
    }
    if (message.kind == CopyMessageKind::kWhole) source->OnWhole();
    if (message.kind != CopyMessageKind::kFailed) continue;
    const auto code = static_cast<StatusCode>(message.number % kStatusCodeCount);
    source->Fail(code == StatusCode::kOk ? StatusCode::kInternal : code);
  }
}

void Copies::Lose(Outbox& outbox) {
  outbox.link->OnLost();
  for (const auto& source : outbox.sources) source->Fail(StatusCode::kUnavailable);
}

bool Copies::OnPeerLost(const transport::Endpoint* endpoint) {
  for (const auto& outbox : outboxes_) {
    if (outbox->link->endpoint() != endpoint) continue;
    Lose(*outbox);
    return true;
  }
  for (const auto& inbox : inboxes_) {
    if (inbox->link().endpoint() != endpoint) continue;
    inbox->OnLost();
    return true;
  }
  return false;
}

namespace {

// The entry names the copy that the job fills.
bool IsNamed(const CopyJob& job, const CopyPeer& peer, const placement::PlacementMap& map) {
  const placement::PartitionPlace* const place = map.Find(job.partition);
  return place != nullptr &&
         std::any_of(place->copies.begin(), place->copies.end(), [&](const auto& copy) {
           return copy.node == peer.node && copy.incarnation == peer.incarnation &&
                  copy.since == job.version;
         });
}

}  // namespace

void Copies::OnMap(const placement::PlacementMap& map, NodeId self) {
  std::vector<std::pair<PartitionId, Term>> held_back;
  for (const auto& outbox : outboxes_) {
    for (const auto& source : outbox->sources) source->OnMap();
    std::erase_if(outbox->sources, [&](const auto& source) {
      const CopyJob& job = source->job();
      if (!job.replica) return false;
      const bool is_gone = job.stage.load() == CopyJob::Stage::kGone;
      if (!is_gone && IsNamed(job, outbox->peer, map)) return false;
      if (!is_gone) source->Release();
      if (!is_gone && outbox->holds) held_back.emplace_back(job.partition, job.term);
      counting_.erase(job.partition.value());
      return true;
    });
  }
  for (const auto& inbox : inboxes_) inbox->OnMap(map, self);
  ++progress_;
  // BoundWaiting thaws those only that have a source.
  for (const auto& [partition, term] : held_back) hooks_.thaw(partition, term);
}

// A link with a replica that has stopped: its node hangs, or the network between them is cut.
void Copies::EndSilent(Outbox& outbox, std::uint64_t now_ns) {
  if (outbox.link->lost()) return;
  const bool counts = std::any_of(outbox.sources.begin(), outbox.sources.end(),
                                  [](const auto& source) { return source->counts(); });
  const bool moves =
      outbox.link->unacked_bytes() == 0 || outbox.link->acked() != outbox.moved_position;
  if (!counts || moves || outbox.moved_ns == 0 || now_ns > last_timer_ns_ + kStoppedNs) {
    outbox.moved_ns = now_ns;
    outbox.moved_position = outbox.link->acked();
    return;
  }
  if (now_ns < outbox.moved_ns + kCopyTimeoutNs) return;
  log::Warn("copies on node " + std::to_string(outbox.peer.node.value()) +
            " have taken nothing for " + std::to_string(kCopyTimeoutNs / 1'000'000) +
            " ms: they are dropped");
  (void)OnPeerLost(outbox.link->endpoint());
}

void Copies::Flush() {
  for (const auto& outbox : outboxes_) {
    if (outbox->link->can_flush()) outbox->link->Flush();
  }
}

void Copies::OnTimer(std::uint64_t now_ns) {
  if (!linked()) return;
  for (const auto& outbox : outboxes_) {
    EndSilent(*outbox, now_ns);
    if (!outbox->link->lost()) continue;  // Found lost by a send.
    for (const auto& source : outbox->sources) source->Fail(StatusCode::kUnavailable);
  }
  last_timer_ns_ = now_ns;
  RemoveOver(now_ns);
  if (now_ns < next_alive_ns_) return;
  next_alive_ns_ = now_ns + kAliveNs;
  for (const auto& outbox : outboxes_) {
    outbox->link->SendBeside({});
    if (outbox->link->lost()) Lose(*outbox);
    if (!outbox->link->lost() && now_ns > outbox->link->heard_ns() + kSilenceNs) {
      (void)OnPeerLost(outbox->link->endpoint());
    }
  }
  for (const auto& inbox : inboxes_) {
    inbox->link().SendBeside({});
    if (!inbox->link().lost() && now_ns > inbox->link().heard_ns() + kSilenceNs) inbox->OnLost();
  }
}

void Copies::RemoveOver(std::uint64_t now_ns) {
  std::erase_if(outboxes_, [now_ns](const auto& outbox) {
    if (!outbox->sources.empty() || outbox->used_ns == 0) outbox->used_ns = now_ns;
    if (!outbox->sources.empty()) return false;
    return outbox->link->lost() || now_ns > outbox->used_ns + kUnusedNs;
  });
  std::erase_if(inboxes_, [](const auto& inbox) {
    if (inbox->link().lost()) inbox->OnLost();  // Found lost by a send.
    return inbox->over();
  });
}

bool Copies::active() const {
  return std::any_of(inboxes_.begin(), inboxes_.end(),
                     [](const auto& inbox) { return inbox->has_frames(); }) ||
         std::any_of(outboxes_.begin(), outboxes_.end(), [](const auto& outbox) {
           return outbox->holds || outbox->link->can_flush() ||
                  std::any_of(outbox->sources.begin(), outbox->sources.end(),
                              [](const auto& source) { return source->has_work(); });
         });
}

bool Copies::urgent() const {
  if (std::any_of(inboxes_.begin(), inboxes_.end(),
                  [](const auto& inbox) { return inbox->urgent(); })) {
    return true;
  }
  return std::any_of(outboxes_.begin(), outboxes_.end(), [](const auto& outbox) {
    return std::any_of(outbox->sources.begin(), outbox->sources.end(),
                       [](const auto& source) { return source->urgent(); });
  });
}

bool Copies::Slice(std::uint64_t budget_ns) {
  if (fetching_) return false;
  has_more_ = Work(Clock::Real().MonotonicNs() + budget_ns);
  if (!store_.blocked()) return has_more_;
  has_more_ = false;
  fetching_ = true;
  store_.Fetch([this, budget_ns] {
    fetching_ = false;
    (void)Slice(budget_ns);
  });
  return false;
}

// Ends where something must be fetched: the store says so.
bool Copies::Work(std::uint64_t end_ns) {
  bool more = false;
  for (const auto& inbox : inboxes_) {
    more = inbox->Slice(end_ns) || more;
    if (!store_.blocked()) continue;
    const StatusCode lost = store_.TakeLost();
    if (lost == StatusCode::kOk) return false;
    inbox->Unreadable(lost);
  }
  for (const auto& outbox : outboxes_) {
    for (const auto& source : outbox->sources) {
      more = source->Slice(end_ns) || more;
      if (store_.blocked()) return false;
    }
    // Nothing is acknowledged for a last large value that has expired.
    ++progress_;
    outbox->link->Flush();
    BoundWaiting(*outbox);
  }
  return more;
}

void Copies::BoundWaiting(Outbox& outbox) {
  const std::uint64_t bytes = outbox.link->lost() ? 0 : outbox.link->unacked_bytes();
  if (bytes > kWaitingBytesHold && !outbox.holds) {
    outbox.holds = true;
    for (const auto& source : outbox.sources) {
      (void)hooks_.freeze(source->job().partition, source->job().term);
    }
  } else if (bytes < CopyLink::kCreditBytes && outbox.holds) {
    outbox.holds = false;
    for (const auto& source : outbox.sources) {
      if (!source->ending()) hooks_.thaw(source->job().partition, source->job().term);
    }
  }
}

}  // namespace tidepool::daemon
