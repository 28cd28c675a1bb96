// One pinned thread with all that it owns: its worker, its store, its sessions.
//
//   proto/transport -> [daemon/core/core's poll loop] -> daemon/core/dispatcher
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "daemon/core/core_group.h"
#include "daemon/core/dispatcher.h"
#include "daemon/core/life_sign.h"
#include "daemon/core/mailbox.h"
#include "proto/transport/remote_memory.h"
#include "proto/transport/spin_policy.h"
#include "proto/transport/transport.h"
#include "storage/arena.h"
#include "storage/core_store.h"

namespace tidepool::daemon {

class Functions;

struct CoreOptions {
  CoreId id;
  const Functions* functions = nullptr;  // Functions for Apply; must outlive the core.
  wire::Aggregator* aggregator =
      nullptr;                        // Must outlive the core. Null: forwarded groups are refused.
  storage::Volume* volume = nullptr;  // Must outlive the core. Null: all data stays in memory.
  transport::MemoryExporter* exporter =
      nullptr;  // Must outlive the core. Null: other nodes cannot read by RDMA.
  WaitPolicy wait_policy = WaitPolicy::kAuto;
  std::uint64_t heap_free_bytes = 0;  // See HeapCover.
  std::uint64_t slow_ns = 0;          // See CoreMetrics.
  CopyAlarms* alarms = nullptr;       // Must outlive the core. Null: nobody hears of them.
  int cpu = -1;                       // CPU to pin the thread to; -1: not pinned.
};

// Any thread: Start, Post, progress and worker_address. Tasks that run on the core: the accessors.
class Core {
 public:
  // Starts the thread. `pool`, `lease` and `context` must outlive the core.
  // Errors: kResourceExhausted, kUnavailable.
  static Result<std::unique_ptr<Core>> Start(const CoreOptions& options, storage::ArenaPool* pool,
                                             const Lease* lease, transport::Context* context);
  // Runs the tasks posted before, ends all sessions and joins the thread.
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  bool Post(Mailbox::Task task) { return mailbox_.Post(std::move(task)); }
  const std::string& worker_address() const { return worker_address_; }
  // Returns the count of loops. It stands still only if the core is stuck; a sleeping core wakes
  // every 100 ms.
  std::uint64_t progress() const { return loops_.load(std::memory_order_relaxed); }
  std::uint64_t sleeps() const { return sleeps_.load(std::memory_order_relaxed); }

  CoreId id() const { return options_.id; }
  Dispatcher& dispatcher() { return *dispatcher_; }
  storage::CoreStore& store() { return *store_; }
  transport::Worker& worker() { return *worker_; }
  const Lease& lease() const { return lease_; }

 private:
  Core(const CoreOptions& options, const Lease& lease);
  Status Open(storage::ArenaPool* pool, transport::Context* context);
  void Run();
  void Close();
  unsigned PollOnce();
  unsigned MoveRanges(std::uint64_t now_ns, unsigned events);
  unsigned FillCopies(std::uint64_t now_ns);
  bool WorkInBackground(std::uint64_t now_ns, unsigned events);
  bool MayIgnoreTheClock();
  void ShowLease(std::uint64_t now_ns);
  void Sleep();

  const CoreOptions options_;
  const Lease& lease_;
  const Clock& clock_;
  Mailbox mailbox_;
  std::unique_ptr<storage::CoreStore> store_;
  std::unique_ptr<LifeSign> life_;
  std::unique_ptr<transport::NodeMemorySource> memory_;
  std::unique_ptr<HeapCover> heap_;
  std::unique_ptr<Dispatcher> dispatcher_;
  std::unique_ptr<transport::Worker> worker_;
  transport::SpinPolicy spin_;
  int epoll_fd_ = -1;
  std::uint64_t next_timer_ns_ = 0;
  std::uint64_t next_slice_ns_ = 0;       // Time of the next background slice under traffic,
  std::uint64_t next_idle_slice_ns_ = 0;  // and without traffic.
  unsigned rounds_without_clock_ = 0;
  std::uint64_t next_move_ns_ = 0;
  std::uint64_t next_copy_ns_ = 0;
  std::uint64_t clients_seen_ns_ = 0;   // When a client's frame was last noticed, while copies are
  std::uint64_t copy_frames_seen_ = 0;  // filled: by the count of frames.
  std::string worker_address_;
  std::atomic<std::uint64_t> loops_{0};
  std::atomic<std::uint64_t> sleeps_{0};
  bool stopping_ = false;  // Set by the last task.
  std::thread thread_;
};

}  // namespace tidepool::daemon
