#include "client/link/node_aggregator.h"

#include <algorithm>
#include <utility>

#include "client/engine/connector.h"
#include "proto/base/log.h"
#include "proto/base/thread.h"

namespace tidepool::internal {
namespace {

constexpr std::uint64_t kConnectMs = 2'000;
constexpr std::uint64_t kStopNs = 1'000'000'000;
constexpr std::uint64_t kNever = ~std::uint64_t{0};
// A companion that missed this number of rounds has gone or is busy. The others stop waiting for
// it.
constexpr std::uint32_t kMissedMax = 2;
// Time for which a companion counts. Clients without companions go straight to the owners. They
// look again more often than this, so that they meet.
constexpr std::uint64_t kCompanionNs = 10'000'000'000;

}  // namespace

void NodeAggregator::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    if (to_ring_ != nullptr) to_ring_->Ring(notifier_);
    arrived_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void NodeAggregator::Forward(wire::ForwardedFrame frame) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return;
  inbox_.push_back(std::move(frame));
  if (to_ring_ != nullptr) return to_ring_->Ring(notifier_);
  arrived_.notify_one();
  if (thread_.joinable()) return;
  const Status begun = StartThread("operations of other nodes", &thread_, [this] { Run(); });
  if (begun.ok()) return;
  // This frame is refused; the next frame tries again.
  std::vector<wire::ForwardedFrame> frames;
  frames.swap(inbox_);
  for (const wire::ForwardedFrame& refused : frames) Refuse(refused, begun);
  Deliver();
}

// False: the end.
bool NodeAggregator::TakeInbox(std::vector<wire::ForwardedFrame>* frames) {
  std::unique_lock lock(mutex_);
  if (engine_ == nullptr) {
    arrived_.wait(lock, [this] { return stopping_ || !inbox_.empty(); });
  }
  frames->clear();
  frames->swap(inbox_);
  return !stopping_;
}

void NodeAggregator::Run() {
  std::vector<wire::ForwardedFrame> frames;
  while (TakeInbox(&frames)) {
    if (const Status connected = Connect(); !connected.ok()) {
      for (const wire::ForwardedFrame& frame : frames) Refuse(frame, connected);
      Deliver();
      continue;
    }
    for (const wire::ForwardedFrame& frame : frames) Add(frame);
    if (!merger_->empty() && RoundIsComplete(engine_->Now())) EndRound();
    Deliver();
    const std::uint64_t until_ns =
        merger_->empty() ? kNever : round_since_ns_ + options_.flush_delay_us * 1'000ull;
    engine_->WaitForNotifier(notifier_, until_ns);
    notifier_.rung.store(false);  // Frames from here on ring again.
  }
  const Status why(StatusCode::kUnavailable, "the daemon is stopping");
  for (const wire::ForwardedFrame& frame : frames) Refuse(frame, why);
  if (engine_ != nullptr) EndAll();
  Deliver();
}

void NodeAggregator::EndAll() {
  merger_->Send();
  const std::uint64_t until_ns = engine_->Now() + kStopNs;
  while (merger_->requests() > 0 && engine_->Now() < until_ns) {
    engine_->WaitForNotifier(notifier_, until_ns);
    notifier_.rung.store(false);
  }
  engine_->Close();
}

Status NodeAggregator::Connect() {
  if (engine_ != nullptr) return {};
  wire::AggregatorTarget target = options_.target();
  EngineOptions parts;
  parts.connect.devices = target.devices;
  parts.client_name = "node aggregator";
  parts.addresses = std::move(target.addresses);
  auto engine = MakeEngine(std::move(parts), std::move(target.token), std::move(target.security));
  Status status = engine.status();
  if (status.ok()) status = (*engine)->RefreshMap(Epoch(), Deadline::AfterMs(kConnectMs));
  if (!status.ok()) {
    log::Warn("the node's aggregator cannot reach its cluster: " + status.ToString());
    return status;
  }
  engine_ = *std::move(engine);
  merger_ = std::make_unique<PackMerger>(engine_, [this](
                                                      std::unique_ptr<ForwardedRequest> request) {
    outcomes_[request->core].push_back(
        {request->ticket, static_cast<std::uint32_t>(std::max<std::size_t>(1, companions_.size())),
         std::move(request->failures)});
    notifier_.rung.store(true);  // It is this thread that waits, and delivers when it wakes.
  });
  const std::lock_guard lock(mutex_);
  to_ring_ = engine_.get();
  return {};
}

void NodeAggregator::Add(const wire::ForwardedFrame& frame) {
  const std::uint64_t now_ns = engine_->Now();
  if (merger_->empty()) round_since_ns_ = now_ns;
  const auto [entry, is_new] = companions_.try_emplace(frame.session);
  Companion& companion = entry->second;
  if (is_new || companion.missed >= kMissedMax) ++expected_;
  companion.missed = 0;
  companion.seen_ns = now_ns;
  if (!std::exchange(companion.present, true)) ++present_;
  merger_->Add(frame);
}

bool NodeAggregator::RoundIsComplete(std::uint64_t now_ns) const {
  return present_ == expected_ || now_ns >= round_since_ns_ + options_.flush_delay_us * 1'000ull;
}

void NodeAggregator::EndRound() {
  merger_->Send();
  present_ = expected_ = 0;
  const std::uint64_t now_ns = engine_->Now();
  for (auto entry = companions_.begin(); entry != companions_.end();) {
    Companion& companion = entry->second;
    if (!std::exchange(companion.present, false) && companion.missed < kMissedMax) {
      ++companion.missed;
    }
    if (companion.missed < kMissedMax) ++expected_;
    entry = now_ns - companion.seen_ns > kCompanionNs ? companions_.erase(entry) : std::next(entry);
  }
}

void NodeAggregator::Deliver() {
  for (auto& [core, outcomes] : outcomes_) {
    if (!outcomes.empty()) options_.deliver(core, std::exchange(outcomes, {}));
  }
}

void NodeAggregator::Refuse(const wire::ForwardedFrame& frame, const Status& why) {
  wire::ForwardedOutcome outcome;
  outcome.ticket = frame.ticket;
  for (const wire::ForwardedGroup& group : frame.groups) {
    outcome.failures.push_back({group.first, group.count, why.code(), std::string(why.what())});
  }
  outcomes_[frame.core].push_back(std::move(outcome));
}

}  // namespace tidepool::internal
