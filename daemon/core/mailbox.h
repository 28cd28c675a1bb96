// Tasks for a core from other threads; apart from the network the only way into a core.
//
//   gRPC threads, membership -> [mailbox] -> daemon/core/core's poll loop
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <vector>

namespace tidepool::daemon {

class Core;

// Any thread: Post. Owner core: all other methods. Carries control traffic and gRPC operations, so
// a lock and an allocation per task are affordable. An empty mailbox costs the poll loop one load.
class Mailbox {
 public:
  using Task = std::function<void(Core&)>;

  Mailbox();
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  // Adds a task; tasks run in the order of posting. Returns false once the mailbox is closed: the
  // task will not run.
  bool Post(Task task);
  // Accepts no task after `last`. Tasks posted before still run.
  void Close(Task last);

  // Runs the posted tasks. Returns their number.
  unsigned Drain(Core& core);
  bool empty() const { return !pending_.load(std::memory_order_seq_cst); }

  // Returns a descriptor that is readable when a task was posted while the core slept. Clear it
  // after waking up.
  int event_fd() const { return event_fd_; }
  void ClearEvent();
  // Call around blocking: after SetSleeping(true) check empty() once more before the wait.
  void SetSleeping(bool sleeping) { sleeping_.store(sleeping, std::memory_order_seq_cst); }

 private:
  bool Add(Task task, bool last);

  std::mutex mutex_;
  std::vector<Task> tasks_;
  bool closed_ = false;
  std::vector<Task> running_;  // Drain's own; keeps its capacity.
  std::atomic<bool> pending_{false};
  std::atomic<bool> sleeping_{false};
  int event_fd_ = -1;
};

}  // namespace tidepool::daemon
