#include "daemon/core/core.h"

#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <future>
#include <iterator>
#include <utility>
#include <vector>

#include "daemon/core/arena_source.h"
#include "proto/base/check.h"
#include "proto/base/steady_clock.h"
#include "proto/base/thread.h"
#include "proto/base/time_namespace.h"

namespace tidepool::daemon {
namespace {

constexpr std::uint64_t kTimerNs = 5'000'000;
// Background work beside traffic takes at most 5 % of the core: 50 us each ms. A slice this short
// adds less to a request's latency than the parts of one large value do.
constexpr std::uint64_t kSliceNs = 50'000;
constexpr std::uint64_t kSliceIntervalNs = 1'000'000;
// Interval at which a spinning core looks for background work without finding any. Each look asks
// every partition, 0.25 us for 16 of them; a look in every round delayed the next frame by that
// much.
constexpr std::uint64_t kIdleSliceIntervalNs = 20'000;
// Rounds without events per reading of the clock.
constexpr unsigned kRoundsPerClock = 8;
constexpr std::uint64_t kMoveIntervalNs = 250'000;
// A sleeping core checks its timers and its stop flag at this interval, and at the next deadline.
constexpr std::uint64_t kSleepMsMax = 100;

transport::SpinPolicy::Mode ModeOf(WaitPolicy policy) {
  switch (policy) {
    case WaitPolicy::kAuto:
      return transport::SpinPolicy::Mode::kAuto;
    case WaitPolicy::kPoll:
      return transport::SpinPolicy::Mode::kPoll;
    case WaitPolicy::kBlock:
      return transport::SpinPolicy::Mode::kBlock;
  }
  return transport::SpinPolicy::Mode::kAuto;
}

void PinToCpu(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(cpu), &set);
  // Not essential: a cpuset may forbid it.
  (void)pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

}  // namespace

Core::Core(const CoreOptions& options, const Lease& lease)
    : options_(options),
      lease_(lease),
      clock_(SteadyClock::Real()),
      spin_(ModeOf(options.wait_policy)) {}

Result<std::unique_ptr<Core>> Core::Start(const CoreOptions& options, storage::ArenaPool* pool,
                                          const Lease* lease, transport::Context* context) {
  std::unique_ptr<Core> core(new Core(options, *lease));
  // The worker belongs to the thread that makes it, so the thread opens everything and reports.
  std::promise<Status> opened;
  auto outcome = opened.get_future();
  TP_RETURN_IF_ERROR(StartThread("a core", &core->thread_, [&, raw = core.get()] {
    const std::string name = "core-" + std::to_string(options.id.value());
    pthread_setname_np(pthread_self(), name.c_str());
    if (options.cpu >= 0) PinToCpu(options.cpu);
    Status status = raw->Open(pool, context);
    const bool ok = status.ok();
    opened.set_value(std::move(status));
    if (ok) raw->Run();
    raw->Close();
  }));
  TP_RETURN_IF_ERROR(outcome.get());
  return core;
}

Core::~Core() {
  mailbox_.Close([](Core& core) { core.stopping_ = true; });
  if (thread_.joinable()) thread_.join();
  if (epoll_fd_ >= 0) close(epoll_fd_);
}

Status Core::Open(storage::ArenaPool* pool, transport::Context* context) {
  storage::CoreStoreOptions store_options;
  store_options.core = options_.id;
  store_options.volume = options_.volume;
  auto store = storage::CoreStore::Create(store_options, pool, &clock_);
  if (!store.ok()) return store.status();
  store_ = *std::move(store);
  // An empty task wakes it.
  store_->set_wake([this] { (void)Post([](Core& core) { core.store().EndWake(); }); });
  life_ = std::make_unique<LifeSign>(store_->life_words());
  memory_ = std::make_unique<ArenaSource>(*pool);
  heap_ = std::make_unique<HeapCover>(*pool, options_.heap_free_bytes);
  dispatcher_ = std::make_unique<Dispatcher>(options_.id, *store_, *heap_, lease_, clock_,
                                             options_.slow_ns, options_.alarms);
  dispatcher_->runner().set_functions(options_.functions);
  dispatcher_->set_aggregator(options_.aggregator);
  dispatcher_->runner().set_exporter(options_.exporter);
  auto worker = context->MakeWorker(dispatcher_.get());
  if (!worker.ok()) return worker.status();
  worker_ = *std::move(worker);
  // Readers of the shared memory check the lease by the machine's clock.
  if (MonotonicIsMachineWide()) worker_->ShareMemory(memory_.get());
  worker_address_ = worker_->Address();
  epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
  if (epoll_fd_ < 0) {
    return Status(StatusCode::kResourceExhausted, "no descriptor for an epoll set",
                  "raise the limit with ulimit -n");
  }
  std::vector<int> descriptors = store_->device_descriptors();
  descriptors.push_back(worker_->event_fd());
  descriptors.push_back(mailbox_.event_fd());
  for (const int fd : descriptors) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    TP_CHECK(epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) == 0);
  }
  dispatcher_->Start(worker_.get());
  return OkStatus();
}

// The poll loop: network, mailbox, streams, timers, background work; then spin or sleep.
void Core::Run() {
  while (!stopping_) {
    const unsigned events = PollOnce();
    if (events > 0) {
      spin_.Found();
    } else if (spin_.ShouldBlock()) {
      Sleep();
    }
  }
}

// On the core's own thread, which its parts belong to; also after half an serving_epoch.
void Core::Close() {
  if (dispatcher_ != nullptr) dispatcher_->Stop();
  worker_.reset();
  dispatcher_.reset();
  if (store_ != nullptr) store_->EndLease();
  life_.reset();
  store_.reset();
}

unsigned Core::PollOnce() {
  loops_.store(loops_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  unsigned events = worker_->Progress();
  events += dispatcher_->PollDevices();
  events += mailbox_.Drain(*this);
  events += dispatcher_->SendStreamParts();
  if (events == 0 && MayIgnoreTheClock()) return 0;
  const std::uint64_t now_ns = clock_.MonotonicNs();
  if (now_ns >= next_timer_ns_) {
    next_timer_ns_ = now_ns + kTimerNs;
    ShowLease(now_ns);
    dispatcher_->OnTimer(now_ns);
  }
  if (dispatcher_->range_moves().active()) [[unlikely]]
    events += MoveRanges(now_ns, events);
  if (dispatcher_->copies().active()) [[unlikely]]
    events += FillCopies(now_ns);
  if (WorkInBackground(now_ns, events)) ++events;
  return events;
}

// The clock takes 25 ns and waits for every load before it, half of a round that finds nothing.
bool Core::MayIgnoreTheClock() {
  return ++rounds_without_clock_ % kRoundsPerClock != 0 && next_idle_slice_ns_ != 0 &&
         !dispatcher_->range_moves().active() && !dispatcher_->copies().active() &&
         !dispatcher_->waiting().waits_for_room() && !store_->room_waits();
}

// Shows direct readers the lease that the core itself uses.
void Core::ShowLease(std::uint64_t now_ns) {
  const std::uint64_t until_ns = lease_.until_ns();
  if (until_ns == store_->shown_lease_ns()) return;
  if (until_ns <= now_ns) return store_->EndLease();
  store_->ShowWallOffset(SteadyClock::Real().OffsetNs());
  store_->ShowLease(until_ns, now_ns, [](const storage::Partition& partition) {
    return partition.Serves(partition.term());
  });
}

// Beside traffic a fifth of the core, and all that it needs while clients wait for its end.
unsigned Core::MoveRanges(std::uint64_t now_ns, unsigned events) {
  RangeMoves& moves = dispatcher_->range_moves();
  moves.Flush();
  if (events > 0 && now_ns < next_move_ns_ && !moves.urgent()) return 0;
  next_move_ns_ = now_ns + kMoveIntervalNs;
  return moves.Slice(kSliceNs) ? 1 : 0;
}

// Beside clients' frames a fifth of the core, and all that it needs without them, or while clients
// wait for its end. The frames of copies do not count.
unsigned Core::FillCopies(std::uint64_t now_ns) {
  Copies& copies = dispatcher_->copies();
  copies.Flush();  // Answers of namespaces with replicas wait for it.
  const std::uint64_t frames = dispatcher_->meter().counters().frames;
  if (frames != copy_frames_seen_) {
    copy_frames_seen_ = frames;
    clients_seen_ns_ = now_ns;
  }
  const bool beside_clients = now_ns < clients_seen_ns_ + 2 * kMoveIntervalNs;
  if (!beside_clients || now_ns >= next_copy_ns_ || copies.urgent()) {
    next_copy_ns_ = now_ns + kMoveIntervalNs;
    (void)copies.Slice(kSliceNs);
  }
  return copies.has_more() ? 1 : 0;  // An idle core does not sleep on it.
}

// True if there is more to do at once, so that an idle core does not sleep on it.
bool Core::WorkInBackground(std::uint64_t now_ns, unsigned events) {
  const std::uint64_t next_ns = events > 0 ? next_slice_ns_ : next_idle_slice_ns_;
  if (now_ns < next_ns && !dispatcher_->waiting().waits_for_room() && !store_->room_waits())
    return false;
  const bool more = store_->BackgroundSlice(kSliceNs);
  next_slice_ns_ = now_ns + kSliceIntervalNs;
  next_idle_slice_ns_ = more ? 0 : now_ns + kIdleSliceIntervalNs;
  return more;
}

void Core::Sleep() {
  next_idle_slice_ns_ = 0;
  if (WorkInBackground(clock_.MonotonicNs(), 0)) return;
  if (!store_->SubmitToDevices()) return;
  mailbox_.SetSleeping(true);
  if (mailbox_.empty() && worker_->Arm()) {
    epoll_event event[8];
    sleeps_.store(sleeps_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    const std::uint64_t now_ns = clock_.MonotonicNs();
    const std::uint64_t next_ns = std::max(now_ns, dispatcher_->NextDeadlineNs());
    const std::uint64_t sleep_ms =
        std::clamp((next_ns - now_ns) / 1'000'000 + 1, kTimerNs / 1'000'000, kSleepMsMax);
    const int ready = epoll_wait(epoll_fd_, event, std::size(event), static_cast<int>(sleep_ms));
    for (int i = 0; i < ready; ++i) {
      if (event[i].data.fd == mailbox_.event_fd()) mailbox_.ClearEvent();
    }
  }
  mailbox_.SetSleeping(false);
  next_idle_slice_ns_ = 0;  // The first round looks at the clock.
}

}  // namespace tidepool::daemon
