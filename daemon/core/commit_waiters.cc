#include "daemon/core/commit_waiters.h"

#include <utility>
#include <vector>

#include "proto/base/check.h"

namespace tidepool::daemon {

CommitWaiter& CommitWaiters::Add(CommitWaiter waiter) {
  TP_CHECK(waiter.position > 0 || !waiter.copies.empty());
  TP_DCHECK(waiter.run == nullptr || waiter.frames.empty());
  return waiters_.emplace_back(std::move(waiter));
}

CommitWaiter& CommitWaiters::newest() {
  TP_CHECK(!waiters_.empty());
  return waiters_.back();
}

unsigned CommitWaiters::Release(std::uint64_t durable, bool failed,
                                absl::FunctionRef<void(CommitWaiter&, bool is_durable)> end) {
  unsigned released = 0;
  while (!waiters_.empty() && (failed || waiters_.front().position <= durable)) {
    CommitWaiter waiter = std::move(waiters_.front());
    waiters_.pop_front();
    ++released;
    end(waiter, waiter.position <= durable);
  }
  return released;
}

unsigned CommitWaiters::ReleaseCopied(absl::FunctionRef<void(CommitWaiter&, bool is_copied)> end) {
  std::vector<CommitWaiter> ended;
  std::erase_if(waiters_, [&ended](CommitWaiter& waiter) {
    if (waiter.copies.state() == CopyWaits::State::kWaiting) return false;
    ended.push_back(std::move(waiter));
    return true;
  });
  for (CommitWaiter& waiter : ended) {
    end(waiter, waiter.copies.state() == CopyWaits::State::kSettled);
  }
  return static_cast<unsigned>(ended.size());
}

}  // namespace tidepool::daemon
