#include "daemon/core/mailbox.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

#include "proto/base/check.h"

namespace tidepool::daemon {

Mailbox::Mailbox() : event_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) { TP_CHECK(event_fd_ >= 0); }

Mailbox::~Mailbox() { close(event_fd_); }

bool Mailbox::Post(Task task) { return Add(std::move(task), false); }

void Mailbox::Close(Task last) { (void)Add(std::move(last), true); }

bool Mailbox::Add(Task task, bool last) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return false;
    closed_ = last;
    tasks_.push_back(std::move(task));
    pending_.store(true, std::memory_order_seq_cst);
  }
  // Publish first, then look whether the core sleeps; it does the same the other way round.
  if (sleeping_.load(std::memory_order_seq_cst)) {
    const std::uint64_t one = 1;
    // Fails only when the counter is full, and then the core is awake already.
    [[maybe_unused]] const auto written = write(event_fd_, &one, sizeof one);
  }
  return true;
}

unsigned Mailbox::Drain(Core& core) {
  if (empty()) return 0;
  {
    const std::lock_guard lock(mutex_);
    running_.swap(tasks_);
    pending_.store(false, std::memory_order_release);
  }
  for (Task& task : running_) task(core);
  const auto count = static_cast<unsigned>(running_.size());
  running_.clear();
  return count;
}

void Mailbox::ClearEvent() {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto bytes = read(event_fd_, &count, sizeof count);
}

}  // namespace tidepool::daemon
