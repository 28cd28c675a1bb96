// The result of an asynchronous call, now or later.
#pragma once

#include <chrono>
#include <functional>
#include <utility>

#include "tidepool/export.h"
#include "tidepool/status.h"

namespace tidepool {

namespace internal {

class Call;
struct Access;

// A reference to a call under way. Not for programs; use Future.
class TIDEPOOL_API CallRef {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  CallRef() = default;
  explicit CallRef(Call* owned) : call_(owned) {}
  CallRef(CallRef&& other) noexcept : call_(std::exchange(other.call_, nullptr)) {}
  CallRef& operator=(CallRef&& other) noexcept {
    std::swap(call_, other.call_);
    return *this;
  }
  CallRef(const CallRef&) = delete;
  CallRef& operator=(const CallRef&) = delete;
  ~CallRef();

  Call* get() const { return call_; }
  bool Done() const;
  // Drives the client's progress until the call is done. Returns false if `until` passed first.
  bool Wait(TimePoint until) const;
  // Calls `next` once, when the call is done; at once if it is done already.
  void Then(std::function<void(CallRef)> next) &&;

 private:
  bool WaitForIt(TimePoint until) const;

  Call* call_ = nullptr;
};

template <typename T>
struct OutcomeOf {
  using Type = Result<T>;
};
template <>
struct OutcomeOf<void> {
  using Type = Status;
};

}  // namespace internal

// The result of one asynchronous call. Gives the outcome of the synchronous form: a Result<T>, or a
// Status where T is void.
//
// Progress: the library has no hidden thread. Operations are sent and answers received while some
// thread waits in any call of the same client: Wait() here, or any synchronous call. With
// ConnectOptions::background_progress a thread of the library also makes progress.
//
// Threads: a Future may be moved between threads; one thread uses it at a time.
//
// Lifetime: destroying an unread Future drops the result; the operation continues. Every call has a
// deadline, so no Future stays pending for ever.
template <typename T>
class Future {
 public:
  using Outcome = typename internal::OutcomeOf<T>::Type;

  // An empty future: valid() is false, and no other method may be called.
  Future() = default;

  // Returns false for an empty future and after the result was taken.
  bool valid() const { return call_.get() != nullptr; }
  // Returns true if Wait() would return at once. Makes no progress itself.
  bool Ready() const { return call_.Done(); }

  // Waits for the result and takes it. The future is empty afterwards.
  Outcome Wait() { return Wait(internal::CallRef::TimePoint::max()); }
  // Waits at most until `deadline`. Then returns kDeadlineExceeded; the future stays valid and the
  // operation continues. (If the operation itself ended with kDeadlineExceeded, the future is
  // empty: check valid().)
  Outcome Wait(internal::CallRef::TimePoint deadline) {
    if (!call_.Wait(deadline)) {
      return Status(StatusCode::kDeadlineExceeded, "the operation is still under way",
                    "wait again; it goes on");
    }
    return take_(std::move(call_));
  }
  // Waits at most for `timeout`, in any unit. A timeout of a year or more waits for the result,
  // because every call ends within a year.
  template <typename Number, typename Unit>
  Outcome Wait(std::chrono::duration<Number, Unit> timeout) {
    const std::chrono::duration<double> seconds(timeout);
    const auto now = std::chrono::steady_clock::now();
    if (!(seconds < std::chrono::hours(365 * 24))) return Wait();
    if (seconds.count() <= 0) return Wait(now);
    return Wait(now + std::chrono::duration_cast<std::chrono::nanoseconds>(timeout));
  }

  // Calls `next` once with the result, on whichever thread makes progress. No lock of the library
  // is held, so `next` may start operations and wait for them. Calls `next` at once on this thread
  // if the result is ready. The future is empty afterwards.
  void Then(std::function<void(Outcome)> next) {
    std::move(call_).Then([take = take_, next = std::move(next)](internal::CallRef call) {
      next(take(std::move(call)));
    });
  }

 private:
  friend struct internal::Access;
  // Makes the result of a finished call.
  using Take = Outcome (*)(internal::CallRef);
  Future(internal::CallRef call, Take take) : call_(std::move(call)), take_(take) {}

  internal::CallRef call_;
  Take take_ = nullptr;
};

}  // namespace tidepool
