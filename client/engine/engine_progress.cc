// Progress of the client: leaders, followers, and the rounds of a leader.
#include <poll.h>

#include <algorithm>
#include <utility>

#include "client/engine/engine.h"
#include "client/engine/fork_guard.h"
#include "proto/base/check.h"

namespace tidepool::internal {
namespace {

// A thread that waits for room looks from time to time, because no event announces enough room.
constexpr std::uint64_t kRoomPollNs = 1'000'000;
constexpr std::uint64_t kNever = ~std::uint64_t{0};
// Rounds between two looks at the clock, which costs 20 ns.
constexpr unsigned kRoundsPerClock = 32;

// After a pause of this length, the client checks its sessions before it sends.
constexpr std::uint64_t kPauseNs = 100'000'000;
// The network library delivers messages one at a time.
constexpr int kLookRounds = 8;

void Relax() { __builtin_ia32_pause(); }

}  // namespace

void Engine::Lock::Acquire() {
  if (engine_.mutex_.try_lock()) return;
  engine_.contenders_.fetch_add(1, std::memory_order_relaxed);
  engine_.mutex_.lock();
  engine_.contenders_.fetch_sub(1, std::memory_order_relaxed);
  engine_.turns_.fetch_add(1, std::memory_order_relaxed);
}

// A mutex is not fair. A leader that unlocks and locks again wins for ever against a thread that
// must first be woken. So the leader waits until another thread has had the lock.
void Engine::Lock::LetOthersIn() {
  if (engine_.contenders_.load(std::memory_order_relaxed) == 0) return;
  const std::uint32_t turn = engine_.turns_.load(std::memory_order_relaxed);
  Release();
  constexpr int kRelaxedRounds = 500;
  for (int i = 0; engine_.turns_.load(std::memory_order_relaxed) == turn &&
                  engine_.contenders_.load(std::memory_order_relaxed) != 0;
       ++i) {
    if (i < kRelaxedRounds) {
      Relax();
    } else {
      std::this_thread::yield();
    }
  }
  Acquire();
}

bool Engine::Fulfilled(const WaitCondition& condition) const {
  if (condition.call != nullptr) return condition.call->done();
  if (!condition.any.empty()) {
    return std::any_of(condition.any.begin(), condition.any.end(),
                       [](const CallRef& call) { return call.get()->done(); });
  }
  if (condition.notifier != nullptr)
    return condition.notifier->rung.load(std::memory_order_relaxed);
  if (condition.all_up_to > 0) return EndedUpTo(condition.all_up_to);
  return condition.room ? HasRoom() : closed_.load(std::memory_order_relaxed);
}

bool Engine::EndedUpTo(std::uint64_t sequence) const {
  for (const Call* call = oldest_; call != nullptr; call = call->previous) {
    if (!call->waits_for_others) return call->sequence > sequence;
  }
  return true;
}

bool Engine::WaitForOne(std::span<const CallRef> calls, std::uint64_t until_ns) {
  if (fork_generation_ != ForkGeneration()) {
    for (const CallRef& call : calls) {
      if (!call.get()->done()) EndUnstarted(call.get(), Usable());
    }
    return true;
  }
  Lock lock(*this);
  Waiter waiter;
  WaitCondition condition;
  condition.any = calls;
  condition.until_ns = until_ns;
  for (const CallRef& call : calls) call.get()->waiter = &waiter;
  const bool done = Run(lock, condition, &waiter);
  for (const CallRef& call : calls) {
    call.get()->waiter = nullptr;
    if (call.get()->done()) continue;
    for (Operation& operation : call.get()->operations()) {
      if (operation.state == Operation::State::kEnded) continue;
      Abandon(&operation);
      End(&operation, StatusCode::kCancelled);
    }
  }
  return done;
}

void Engine::WaitForNotifier(Notifier& notifier, std::uint64_t until_ns) {
  Lock lock(*this);
  Waiter waiter;
  WaitCondition condition;
  condition.notifier = &notifier;
  condition.until_ns = until_ns;
  Run(lock, condition, &waiter);
}

void Engine::Ring(Notifier& notifier) {
  // Either the waiting thread sees the ring before it sleeps, or this thread sees that it is about
  // to.
  if (notifier.rung.exchange(true)) return;
  if (notifier.awaited.load()) worker_->Wake();
}

bool Engine::Run(Lock& lock, const WaitCondition& condition, Waiter* waiter) {
  bool fulfilled = false;
  bool tried = false;  // A wait of no time moves things on once.
  while (!(fulfilled = Fulfilled(condition))) {
    const std::uint64_t now_ns = Now();
    if (now_ns >= next_expiry_ns_) {
      Expire(now_ns);
      continue;
    }
    if (!ready_.empty()) {
      RunReady(lock);
      continue;
    }
    if (now_ns >= condition.until_ns && tried) break;
    tried = true;
    if (!dirty_.empty()) FlushDirty(now_ns);
    if (now_ns >= next_maintenance_ns_ && now_ns < condition.until_ns &&
        RunMaintenance(lock, now_ns, std::min(condition.until_ns, next_expiry_ns_))) {
      continue;
    }
    if (!leading_ && condition.background && followers_ != nullptr) {
      // A thread that waits for an answer leads better than a thread that waits for nothing.
      Appoint();
      Follow(lock, waiter, kNever);
    } else if (!leading_) {
      Lead(lock, condition);
    } else {
      Follow(lock, waiter,
             std::min({condition.until_ns, next_expiry_ns_,
                       condition.room || condition.all_up_to > 0 ? now_ns + kRoomPollNs : kNever}));
    }
  }
  // The round that brought the answer may have ended calls of other threads. No other thread would
  // run their continuations.
  while (!ready_.empty() && !closed_.load(std::memory_order_relaxed)) RunReady(lock);
  if (!leading_) Appoint();
  return fulfilled;
}

void Engine::Lead(Lock& lock, const WaitCondition& condition) {
  leading_ = true;
  unsigned rounds = 0;
  for (;;) {
    const unsigned events = worker_->Progress();
    // Counts first: the round that brings the awaited answer is the round that paid.
    if (events != 0) spin_.Found();
    if (Fulfilled(condition) || !ready_.empty() || next_maintenance_ns_ == 0) break;
    if (!dirty_.empty()) FlushDirty(Now());
    if (condition.background && followers_ != nullptr) break;
    if (events != 0) {
      rounds = 0;
    } else if (spin_.ShouldBlock()) {
      Block(lock, condition);
      if (!leading_ || condition.background) return;
      break;  // To look at deadlines and duties.
    } else if (++rounds % kRoundsPerClock == 0) {
      if (Now() >= std::min({condition.until_ns, next_expiry_ns_, next_maintenance_ns_})) break;
    }
    lock.LetOthersIn();
  }
  leading_ = false;
}

// Sleeps until something arrives. The lock is free meanwhile.
void Engine::Block(Lock& lock, const WaitCondition& condition) {
  if (!worker_->Arm()) {
    if (condition.background) leading_ = false;
    return;
  }
  const std::uint64_t until_ns =
      std::min({condition.until_ns, next_expiry_ns_, next_maintenance_ns_});
  const std::uint64_t now_ns = Now();
  const std::uint64_t left_ns =
      std::min<std::uint64_t>(until_ns > now_ns ? until_ns - now_ns : 0, 3'600'000'000'000);
  const timespec timeout{static_cast<time_t>(left_ns / 1'000'000'000),
                         static_cast<long>(left_ns % 1'000'000'000)};
  // The background thread leaves the lead to whoever comes, since it has nothing to hurry for.
  (condition.background ? background_sleeps_ : leader_sleeps_) = true;
  if (condition.background) leading_ = false;
  (condition.background ? background_until_ns_ : leader_until_ns_) = until_ns;
  ++stats_.sleeps;
  pollfd waited{worker_->event_fd(), POLLIN, 0};
  if (condition.notifier != nullptr) condition.notifier->awaited.store(true);
  lock.Release();
  if (condition.notifier == nullptr || !condition.notifier->rung.load())
    ppoll(&waited, 1, &timeout, nullptr);
  lock.Acquire();
  if (condition.notifier != nullptr) condition.notifier->awaited.store(false);
  (condition.background ? background_sleeps_ : leader_sleeps_) = false;
}

void Engine::Follow(Lock& lock, Waiter* waiter, std::uint64_t until_ns) {
  waiter->Reset();
  waiter->next = followers_;
  waiter->previous = nullptr;
  if (followers_ != nullptr) followers_->previous = waiter;
  followers_ = waiter;
  waiter->listed = true;
  lock.Release();
  thread_local transport::SpinPolicy spin;
  const bool may_spin = options_.connect.wait == WaitMode::kAuto;
  while (may_spin && !waiter->woken() && !spin.ShouldBlock()) Relax();
  if (waiter->woken()) {
    spin.Found();
  } else {
    waiter->Sleep(until_ns);
  }
  lock.Acquire();
  if (waiter->previous != nullptr) waiter->previous->next = waiter->next;
  if (waiter->next != nullptr) waiter->next->previous = waiter->previous;
  if (followers_ == waiter) followers_ = waiter->next;
  waiter->listed = false;
}

// Appoints a waiting thread if no thread leads.
void Engine::Appoint() {
  if (followers_ != nullptr) {
    followers_->Wake();
  } else if (background_sleeps_) {
    // The event that armed its descriptor is used up: the background thread must look and arm
    // again.
    worker_->Wake();
  }
}

void Engine::WakeLeader() {
  if (leader_sleeps_ || (background_sleeps_ && !leading_)) worker_->Wake();
}

// A duty or a deadline at `at_ns` has come up: whoever sleeps must not sleep beyond it.
void Engine::WakeLeaderBefore(std::uint64_t at_ns) {
  if ((leader_sleeps_ && at_ns < leader_until_ns_) ||
      (background_sleeps_ && !leading_ && at_ns < background_until_ns_)) {
    worker_->Wake();
  }
}

void Engine::MarkDirty(CoreLink* link) {
  if (link->dirty) return;
  link->dirty = true;
  dirty_.push_back(link);
}

// Checks the sessions after a pause. A daemon may have closed its session meanwhile, and a change
// sent into a closed connection ends unknown. If the check finds that in time, the change uses a
// new connection. Sleeping threads may not have woken up yet for new messages.
void Engine::LookAfterPause() {
  for (int round = 0; round < kLookRounds; ++round) worker_->Progress();
  // The event that armed its descriptor may be used up.
  if (leader_sleeps_ || background_sleeps_) worker_->Wake();
}

void Engine::FlushDirty(std::uint64_t now_ns) {
  // No thread is in Progress, because this thread has the lock.
  const bool paused = now_ns >= flushed_ns_ + kPauseNs;
  flushed_ns_ = now_ns;
  if (paused) [[unlikely]]
    LookAfterPause();
  flushing_.swap(dirty_);
  for (CoreLink* link : flushing_) {
    link->dirty = false;
    if (!link->HasWork()) continue;
    NodeSession& session = link->session();
    if (session.ReadyToSend(now_ns)) {
      link->Flush(now_ns);
    } else {
      WantAttach(&session);
    }
  }
  flushing_.clear();
}

// Runs continuations given to Then, unlocked, in a thread that does not lead. A continuation may
// call any function.
void Engine::RunReady(Lock& lock) {
  std::vector<Call*> ready;
  ready.swap(ready_);
  if (!leading_) Appoint();
  lock.Release();
  for (Call* call : ready) {
    const auto then = std::move(call->then);
    call->then = nullptr;
    then(CallRef(call));
  }
  lock.Acquire();
}

}  // namespace tidepool::internal
