#include "daemon/control/stop_signal.h"

#include <chrono>
#include <utility>

namespace tidepool::daemon {

void StopSignal::Request(StopRequest request) {
  {
    const std::lock_guard lock(mutex_);
    if (request_.has_value()) return;
    request_ = std::move(request);
  }
  wake_.notify_all();
  const std::lock_guard lock(hook_mutex_);
  if (hook_) hook_();
}

bool StopSignal::requested() const {
  const std::lock_guard lock(mutex_);
  return request_.has_value();
}

StopRequest StopSignal::request() const {
  const std::lock_guard lock(mutex_);
  return request_.value_or(StopRequest());
}

bool StopSignal::WaitUntil(Deadline deadline) const {
  std::unique_lock lock(mutex_);
  return wake_.wait_for(lock, std::chrono::nanoseconds(deadline.LeftNs()),
                        [this] { return request_.has_value(); });
}

void StopSignal::Wait() const {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [this] { return request_.has_value(); });
}

void StopSignal::SetHook(std::function<void()> hook) {
  const std::lock_guard lock(hook_mutex_);
  hook_ = std::move(hook);
  if (hook_ && requested()) hook_();
}

}  // namespace tidepool::daemon
