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

// One reference to a call under way. Not for programs: see Future.
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
  // Moves the client's work on until the call is done. False if `until` passed before.
  bool Wait(TimePoint until) const;
  // `next` runs once, when the call is done; at once if it is.
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

// A Future is the caller's end of one asynchronous call. It gives what the synchronous form of the
// call returns: a Result<T>, and a Status where T is void.
//
// Progress: the library has no hidden thread. Operations travel, and answers are taken in, while
// some thread waits in any call of the same client: Wait() here, or any synchronous call. With
// ConnectOptions::background_progress a thread of the library does it as well.
//
// A Future may be moved between threads but used by one at a time. If it is destroyed before it was
// read, the operation goes on (as far as somebody makes progress) and its result is dropped. Every
// call has a deadline of its own, so a Future is never pending for ever.
template <typename T>
class Future {
 public:
  using Outcome = typename internal::OutcomeOf<T>::Type;

  // An empty future: valid() is false and nothing else may be called.
  Future() = default;

  // False for an empty future, and once the result was taken.
  bool valid() const { return call_.get() != nullptr; }
  // True if Wait() would return at once. Makes no progress by itself.
  bool Ready() const { return call_.Done(); }

  // Waits for the result and takes it; the future is empty afterwards.
  Outcome Wait() { return Wait(internal::CallRef::TimePoint::max()); }
  // The same, but gives up waiting at `deadline`: then returns kDeadlineExceeded, and the future
  // stays valid and the operation goes on. (If the operation itself ended with kDeadlineExceeded
  // the future is empty: ask valid().)
  Outcome Wait(internal::CallRef::TimePoint deadline) {
    if (!call_.Wait(deadline)) {
      return Status(StatusCode::kDeadlineExceeded, "the operation is still under way",
                    "wait again; it goes on");
    }
    return take_(std::move(call_));
  }
  // The same of a duration in any unit. A timeout of a year or more waits for the result, since
  // every call ends within a year.
  template <typename Number, typename Unit>
  Outcome Wait(std::chrono::duration<Number, Unit> timeout) {
    const std::chrono::duration<double> seconds(timeout);
    const auto now = std::chrono::steady_clock::now();
    if (!(seconds < std::chrono::hours(365 * 24))) return Wait();
    if (seconds.count() <= 0) return Wait(now);
    return Wait(now + std::chrono::duration_cast<std::chrono::nanoseconds>(timeout));
  }

  // Calls `next` with the result, once, on whichever thread makes progress at that time and outside
  // of all locks of the library, so `next` may start and wait for other operations. If the result
  // is there already, `next` runs at once on this thread. The future is empty afterwards.
  void Then(std::function<void(Outcome)> next) {
    std::move(call_).Then([take = take_, next = std::move(next)](internal::CallRef call) {
      next(take(std::move(call)));
    });
  }

 private:
  friend struct internal::Access;
  // Makes the result of a call that is done.
  using Take = Outcome (*)(internal::CallRef);
  Future(internal::CallRef call, Take take) : call_(std::move(call)), take_(take) {}

  internal::CallRef call_;
  Take take_ = nullptr;
};

}  // namespace tidepool
