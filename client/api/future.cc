#include "tidepool/future.h"

#include <memory>
#include <utility>

#include "client/calls/call.h"
#include "client/engine/engine.h"

namespace tidepool::internal {

CallRef::~CallRef() {
  if (call_ == nullptr) return;
  // The engine goes last. Its end may wait for its threads, and ends the calls under way.
  const std::shared_ptr<Engine> engine = std::move(call_->keeps_engine);
  call_->Release();
}

bool CallRef::Done() const { return call_->done(); }

bool CallRef::Wait(TimePoint until) const {
  if (!call_->done() && !WaitForIt(until)) return false;
  call_->TellReceipt();
  return true;
}

bool CallRef::WaitForIt(TimePoint until) const {
  // steady_clock and Clock::Real() both read CLOCK_MONOTONIC.
  const auto since = until.time_since_epoch();
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
  return call_->engine->Wait(call_, ns < 0 ? 0 : static_cast<std::uint64_t>(ns));
}

void CallRef::Then(std::function<void(CallRef)> next) && {
  Call* call = std::exchange(call_, nullptr);
  if (call->wants_receipt()) {
    next = [next = std::move(next)](CallRef done) {
      done.call_->TellReceipt();
      next(std::move(done));
    };
  }
  call->engine->Then(call, std::move(next));
}

}  // namespace tidepool::internal
