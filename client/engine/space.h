// The object behind a Namespace handle.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include "client/cache/absent_copy.h"
#include "client/cache/read_cache.h"
#include "client/engine/engine.h"
#include "client/engine/partition_queue.h"
#include "tidepool/promise.h"

namespace tidepool::internal {

// Knowledge since the begin of a round with a promise (tidepool/promise.h).
struct Round {
  explicit Round(const PromiseUse& use) : reads(use.cache_bytes_max) {}

  ReadCache reads;  // Used with kReadOnly.

  // Used with kPopOnly: the number of pushes and returned items of this program, and that number
  // when no item was found. If both agree, the queue is empty.
  std::atomic<std::uint64_t> pushes{0};
  std::atomic<std::uint64_t> drained_at{~std::uint64_t{0}};
  bool drained() const { return drained_at == pushes; }
};

// Immutable, but for the copy of a prefilter and for the round; any thread. Keeps the client
// connected.
class Space {
 public:
  Space(std::shared_ptr<Engine> engine, SpaceState* state,
        std::shared_ptr<AbsentCopy> absent = nullptr, Promise promise = Promise::kNone,
        const PromiseUse& use = {})
      : engine_(std::move(engine)),
        state_(state),
        absent_(std::move(absent)),
        promise_(promise),
        use_(use),
        lane_(engine_->NextLane() % static_cast<std::uint32_t>(state->queues.size())) {}

  const std::shared_ptr<Engine>& engine() const { return engine_; }
  // Its name, id, kind, options and number of queues never change; the rest is guarded by the
  // client's lock.
  SpaceState* state() const { return state_; }
  // Returns the copy that answers look-ups of absent keys here; null: no copy.
  AbsentCopy* absent() const { return absent_.get(); }
  const std::shared_ptr<AbsentCopy>& shared_absent() const { return absent_; }

  // Returns the same namespace without caches, for callers that must see the writes of other
  // processes.
  std::shared_ptr<Space> Plain() const { return std::make_shared<Space>(engine_, state_); }

  // Lane of a queue in which this handle pushes and looks first for items. 0 if there is a single
  // lane.
  std::uint32_t lane() const { return lane_; }

  Promise promise() const { return promise_; }
  const PromiseUse& use() const { return use_; }
  // True if the handle or this call makes one of the promises `wanted`.
  bool Promises(Promise wanted, Promise of_call = Promise::kNone) const {
    return Has(promise_ | of_call, wanted);
  }
  // Begins at the first call that promises something to remember.
  const std::shared_ptr<Round>& round() const {
    std::call_once(round_once_, [this] {
      round_ = std::make_shared<Round>(use_);
      has_round_.store(true, std::memory_order_release);
    });
    return round_;
  }
  void EndRound() const {
    ForgetReads();
    NotePush();
  }
  // Before and after a write of many keys.
  void ForgetReads() const {
    if (has_round_.load(std::memory_order_acquire)) round_->reads.Clear();
  }

  // True if this process caches data of the namespace. Writers then notify before the operation
  // is started, and again after that.
  bool minds_writes() const {
    return absent_ != nullptr || has_round_.load(std::memory_order_acquire);
  }
  // Notes that items came back or are new.
  void NotePush() const {
    if (has_round_.load(std::memory_order_acquire)) ++round_->pushes;
  }
  void NoteWrite(std::string_view key, bool streamed) const {
    if (absent_ != nullptr) absent_->NoteWrite(key, streamed);
    if (has_round_.load(std::memory_order_acquire)) round_->reads.NoteWrite(key);
  }

 private:
  std::shared_ptr<Engine> engine_;
  SpaceState* state_;
  std::shared_ptr<AbsentCopy> absent_;
  const Promise promise_;
  const PromiseUse use_;
  const std::uint32_t lane_;
  mutable std::once_flag round_once_;
  mutable std::shared_ptr<Round> round_;  // Written once, before has_round_.
  mutable std::atomic<bool> has_round_{false};
};

}  // namespace tidepool::internal
