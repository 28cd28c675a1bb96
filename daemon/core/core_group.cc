#include "daemon/core/core_group.h"

#include <sys/random.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "daemon/core/arena_source.h"
#include "daemon/core/core.h"
#include "daemon/core/local_operations.h"
#include "daemon/ops/functions.h"
#include "daemon/ops/operation.h"
#include "proto/base/check.h"
#include "proto/base/limits.h"
#include "proto/base/log.h"
#include "proto/transport/remote_memory.h"
#include "storage/arena.h"

namespace tidepool::daemon {
namespace {

// Waits for tasks on several cores. Shared with the tasks, since the waiter may give up first.
class Completion {
 public:
  explicit Completion(std::size_t tasks) : left_(tasks) {}
  void Done(Status status) {
    const std::lock_guard lock(mutex_);
    if (status_.ok()) status_ = std::move(status);
    if (--left_ == 0) all_done_.notify_all();
  }
  // Returns the first failure, or kDeadlineExceeded while some still run.
  Status Wait(Deadline deadline) {
    std::unique_lock lock(mutex_);
    const bool done = all_done_.wait_for(lock, std::chrono::nanoseconds(deadline.LeftNs()),
                                         [&] { return left_ == 0; });
    if (done) return status_;
    return Status(StatusCode::kDeadlineExceeded,
                  waits_for_room_ ? std::string(kWaitedForRoom) : "a core did not answer in time");
  }
  // Cleared before the task runs again, which may look at its deadline.
  void set_waits_for_room(bool waits) { waits_for_room_ = waits; }

 private:
  std::mutex mutex_;
  std::condition_variable all_done_;
  std::size_t left_;
  Status status_;
  std::atomic<bool> waits_for_room_{false};
};

// Runs a task, and again after it met missing records or memory: then it has changed nothing, or
// continues where it was. Completes `completion` at its end.
void RunToEnd(Core& core, const std::function<void(Core&)>& task,
              const std::shared_ptr<Completion>& completion) {
  storage::CoreStore& store = core.store();
  (void)store.TakeRefused();  // Left by an earlier task.
  (void)core.dispatcher().TakeTaskWait();
  completion->set_waits_for_room(false);
  task(core);
  const auto again = [&core, task, completion] { RunToEnd(core, task, completion); };
  if (store.blocked()) {
    const StatusCode lost = store.TakeLost();
    if (lost == StatusCode::kOk) return store.Fetch(again);
    return completion->Done(
        Status(lost, "a record on the device cannot be read", "see the daemon's log"));
  }
  if (storage::Refusal refusal = store.TakeRefused(); store.MayWait(refusal)) {
    completion->set_waits_for_room(true);
    return core.dispatcher().waiting().WhenRoom(std::move(refusal), again);
  }
  Dispatcher::TaskWait wait = core.dispatcher().TakeTaskWait();
  if (wait.position <= store.durable_position() && wait.copies.empty()) {
    return completion->Done(OkStatus());
  }
  const auto done = [completion](bool durable) {
    completion->Done(durable ? OkStatus()
                             : Status(StatusCode::kUnknown,
                                      "a device of the node has failed, or another node became the "
                                      "owner; what was changed may or may not last",
                                      "see the daemon's log"));
  };
  core.dispatcher().responder().WhenDurable(wait.position, done, std::move(wait.copies));
}

SpaceStats StatsOf(NamespaceId space, const SpaceCounters& counters) {
  SpaceStats stats;
  stats.space = space;
  for (std::size_t i = 0; i < counters.operations.size(); ++i) {
    const std::uint64_t count = counters.operations[i];
    const auto opcode = static_cast<wire::Opcode>(i);
    if (count == 0) continue;
    stats.operations.emplace_back(opcode, count);
    if (ReadsRecords(opcode)) stats.reads += count;
    if (wire::InfoOf(opcode).mutates) stats.changes += count;
  }
  stats.device_reads = counters.device_reads;
  stats.direct_reads = counters.direct_reads;
  stats.frames = counters.frames;
  stats.waits = counters.waits;
  return stats;
}

// On the core.
CoreStats StatsOf(Core& at) {
  CoreStats entry;
  at.dispatcher().CountDirectReads();
  Dispatcher& dispatcher = at.dispatcher();
  const storage::MemoryUsage usage = at.store().usage();
  entry.answered = true;
  entry.sessions = at.dispatcher().sessions().size();
  entry.partitions = at.store().partition_count();
  entry.operations = dispatcher.meter().counters().operations;
  entry.direct_reads = dispatcher.meter().counters().direct_reads;
  entry.frames = dispatcher.meter().counters().frames;
  entry.malformed_frames = dispatcher.meter().counters().malformed_frames;
  entry.loops = at.progress();
  entry.sleeps = at.sleeps();
  entry.p50_ns = dispatcher.meter().latency_ns().Quantile(0.5);
  entry.p99_ns = dispatcher.meter().latency_ns().Quantile(0.99);
  entry.ring_bytes = at.worker().memory_bytes();
  entry.ring_bytes_max = at.worker().memory_bytes_max();
  at.store().ForEachPartition(
      [&](storage::Partition& held) { entry.records += held.store().size(); });
  entry.used_bytes = usage.used_bytes + dispatcher.heap_bytes();
  entry.live_bytes = usage.live_bytes;
  entry.index_bytes = usage.index_bytes;
  entry.limit_bytes = usage.limit_bytes;
  entry.spilled_live_bytes = usage.spilled_live_bytes;
  const storage::StoreCounters counters = at.store().counters();
  entry.spill = counters.spill;
  entry.durable_written_bytes = counters.checkpoint.written_bytes + counters.commit.written_bytes;
  entry.durable_bytes = counters.durable_bytes;
  entry.refused_for_memory = counters.refused_for_memory;
  entry.expired_records = counters.expired_records;
  entry.compacted_segments = counters.compacted_segments;
  entry.slow_frames = at.dispatcher().meter().metrics().slow_log().total();
  at.dispatcher().sessions().ForEach([&entry](const Session& session) {
    entry.credit_operations += session.credit_operations;
    entry.credit_bytes += session.credit_bytes;
    entry.credit_operations_held += session.waiting_operations;
  });
  entry.reply_cache_bytes = at.dispatcher().sessions().cached_bytes();
  entry.map_waiters = dispatcher.map_waiters();
  entry.io_waiters = dispatcher.waiting().io_waiters();
  entry.event_waiters = dispatcher.waiting().event_waiters();
  entry.replies_awaiting_commit =
      dispatcher.responder().commit_waiters().size() + dispatcher.responder().copy_waiters().size();
  dispatcher.meter().metrics().ForEach([&entry](NamespaceId space, const SpaceCounters& of) {
    entry.spaces.push_back(StatsOf(space, of));
  });
  return entry;
}

Status Stopping() { return Status(StatusCode::kUnavailable, "the daemon is stopping"); }

std::uint64_t RandomSessionId() {
  std::uint64_t id = 0;
  // Blocks only before the kernel's pool is seeded, long before a batch job runs.
  while (id == 0) TP_CHECK(getrandom(&id, sizeof id, 0) == sizeof id);
  return id;
}

}  // namespace

struct CoreGroup::Shared {
  std::unique_ptr<storage::ArenaPool> pool;
  transport::Context* context = nullptr;
  std::shared_ptr<const Functions> functions;
  CopyAlarms alarms;
  std::unique_ptr<ArenaSource> memory;
  std::unique_ptr<transport::MemoryExporter> exporter;  // Null: nothing is shown to other nodes.

  // Sessions as the node knows them: how often each has attached. The cores hold the rest.
  std::mutex sessions_mutex;
  struct Known {
    std::uint32_t connection = 1;
    std::uint32_t credit_operations = 0;
    std::uint32_t credit_bytes = 0;
    std::weak_ptr<std::atomic<std::uint64_t>> heard_ns;  // Expires when no core holds it any more.
  };
  std::unordered_map<SessionId, Known> sessions;
};

Result<std::unique_ptr<CoreGroup>> CoreGroup::Start(const CoreGroupOptions& options,
                                                    const Lease* lease,
                                                    transport::Context* context) {
  std::unique_ptr<CoreGroup> group(new CoreGroup());
  group->shared_ = std::make_unique<Shared>();
  group->shared_->context = context;
  group->shared_->functions =
      options.functions != nullptr ? options.functions : std::make_shared<const Functions>();
  storage::ArenaPoolOptions pool_options;
  group->outside_bytes_ =
      HeapCover::OutsideBytes(options.memory_bytes, options.cores, options.volume != nullptr);
  pool_options.memory_bytes = options.memory_bytes - group->outside_bytes_;
  pool_options.prepare_in_background = true;
  auto pool = storage::ArenaPool::Create(pool_options);
  if (!pool.ok()) return pool.status();
  group->shared_->pool = *std::move(pool);
  group->ShowMemory(options);
  for (std::uint32_t i = 0; i < options.cores; ++i) {
    CoreOptions core_options;
    core_options.id = CoreId(static_cast<std::uint16_t>(i));
    core_options.functions = group->shared_->functions.get();
    core_options.aggregator = options.aggregator;
    core_options.volume = options.volume;
    core_options.exporter = group->shared_->exporter.get();
    core_options.wait_policy = options.wait_policy;
    core_options.heap_free_bytes = HeapCover::FreeBytes(options.memory_bytes, options.cores);
    core_options.slow_ns = options.slow_ns;
    core_options.alarms = &group->shared_->alarms;
    core_options.cpu = options.cpus.empty() ? -1 : options.cpus[i % options.cpus.size()];
    auto core = Core::Start(core_options, group->shared_->pool.get(), lease, context);
    if (!core.ok()) return core.status();
    group->cores_.push_back(*std::move(core));
  }
  return group;
}

// Without it everything works, by frames.
void CoreGroup::ShowMemory(const CoreGroupOptions& options) {
  if (options.memory_address.empty() || options.memory_transports.empty()) return;
  shared_->memory = std::make_unique<ArenaSource>(*shared_->pool);
  auto exporter = transport::MemoryExporter::Start(
      {options.memory_transports, options.memory_address, shared_->pool->base()},
      shared_->memory.get());
  if (!exporter.ok()) {
    return log::Warn("clients of other nodes read by frames, not by RDMA: " +
                     exporter.status().ToString());
  }
  shared_->exporter = *std::move(exporter);
  log::Info("clients of other nodes may read records by " + options.memory_transports);
}

std::string CoreGroup::memory_address() const {
  return shared_->exporter == nullptr ? std::string() : shared_->exporter->address();
}

transport::MemoryExporter::Usage CoreGroup::memory_usage() const {
  return shared_->exporter == nullptr ? transport::MemoryExporter::Usage()
                                      : shared_->exporter->usage();
}

CoreGroup::CoreGroup() = default;
CoreGroup::~CoreGroup() = default;

Status CoreGroup::Run(CoreId core, std::function<void(Core&)> task, Deadline deadline) {
  if (core.value() >= cores_.size()) {
    return Status(StatusCode::kInvalidArgument, "no core " + std::to_string(core.value()));
  }
  auto completion = std::make_shared<Completion>(1);
  const bool posted = cores_[core.value()]->Post(
      [task = std::move(task), completion](Core& at) { RunToEnd(at, task, completion); });
  return posted ? completion->Wait(deadline) : Stopping();
}

bool CoreGroup::Post(CoreId core, std::function<void(Core&)> task) {
  return core.value() < cores_.size() && cores_[core.value()]->Post(std::move(task));
}

void CoreGroup::OnForwarded(CoreId core, std::vector<wire::ForwardedOutcome> outcomes) {
  // Shared, because tasks are copied. A closed core has ended its sessions already.
  auto shared = std::make_shared<std::vector<wire::ForwardedOutcome>>(std::move(outcomes));
  Post(core, [shared](Core& at) { at.dispatcher().OnForwarded(*shared); });
}

Status CoreGroup::InstallMap(placement::PlacementMapPtr map, NodeId self, Deadline deadline,
                             bool may_grant_durable) {
  auto completion = std::make_shared<Completion>(cores_.size());
  for (auto& core : cores_) {
    const bool posted = core->Post([map, self, may_grant_durable, completion](Core& at) {
      completion->Done(at.dispatcher().InstallMap(map, self, may_grant_durable));
    });
    if (!posted) return Stopping();
  }
  return completion->Wait(deadline);
}

Result<SessionGrant> CoreGroup::Grant(SessionId resume) {
  const std::lock_guard lock(shared_->sessions_mutex);
  auto& sessions = shared_->sessions;
  std::erase_if(sessions, [](const auto& entry) { return entry.second.heard_ns.expired(); });
  if (const auto found = sessions.find(resume); found != sessions.end()) {
    Shared::Known& known = found->second;
    return SessionGrant{resume, ++known.connection, known.credit_operations, known.credit_bytes,
                        known.heard_ns.lock()};
  }
  if (sessions.size() >= limits::kSessionsPerCoreMax) {
    return Status(StatusCode::kOverloaded,
                  std::to_string(sessions.size()) + " clients are attached to this node",
                  "use fewer clients, or more nodes");
  }
  // Divides the budget over all sessions, within fixed bounds, so that late clients still get a
  // share.
  const auto count = static_cast<std::uint32_t>(sessions.size() + 1);
  SessionGrant grant;
  grant.id = SessionId(RandomSessionId());
  grant.credit_operations = std::clamp(limits::kCreditOperationsBudget / count,
                                       limits::kCreditOperationsMin, limits::kCreditOperationsMax);
  grant.credit_bytes = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
      limits::kCreditBytesBudget / count, limits::kCreditBytesMin, limits::kCreditBytesMax));
  grant.heard_ns = std::make_shared<std::atomic<std::uint64_t>>(0);
  sessions.emplace(grant.id, Shared::Known{grant.connection, grant.credit_operations,
                                           grant.credit_bytes, grant.heard_ns});
  return grant;
}

Result<AttachResult> CoreGroup::Attach(const AttachRequest& request, Deadline deadline) {
  auto grant = Grant(request.session);
  if (!grant.ok()) return grant.status();
  AttachResult result;
  result.session = grant->id;
  result.resumed = grant->connection > 1;
  result.connection = grant->connection;
  result.credit_operations = grant->credit_operations;
  result.credit_bytes = grant->credit_bytes;
  auto completion = std::make_shared<Completion>(cores_.size());
  for (auto& core : cores_) {
    result.worker_addresses.push_back(core->worker_address());
    const bool posted = core->Post([grant = *grant, request, completion](Core& at) {
      completion->Done(at.dispatcher().sessions().Attach(grant, request));
    });
    if (!posted) return Stopping();
  }
  const Status status = completion->Wait(deadline);
  if (status.ok()) return result;
  // A session that may be resumed holds answers that its client lacks: one slow core must not cost
  // them.
  if (result.resumed && status.code() != StatusCode::kNotFound) return status;
  ForgetSession(result.session);
  if (!result.resumed) return status;
  // A core has ended the session: the client begins anew, and unanswered calls stay unknown.
  AttachRequest fresh = request;
  fresh.session = SessionId(0);
  return Attach(fresh, deadline);
}

void CoreGroup::ForgetSession(SessionId session) {
  {
    const std::lock_guard lock(shared_->sessions_mutex);
    shared_->sessions.erase(session);
  }
  for (auto& core : cores_) {
    core->Post([session](Core& at) {
      Sessions& sessions = at.dispatcher().sessions();
      if (Session* held = sessions.Find(session); held != nullptr) sessions.End(*held, {});
    });
  }
}

Result<std::vector<OperationOutcome>> CoreGroup::Execute(
    CoreId core, PartitionId partition, Term term, const std::vector<wire::Operation>& operations,
    std::size_t value_bytes_max, Deadline deadline, std::size_t answer_bytes_max, bool is_users) {
  return ExecuteLocal(*this, core, partition, term, operations, value_bytes_max, deadline,
                      answer_bytes_max, is_users);
}

std::vector<CoreStats> CoreGroup::Stats(Deadline deadline) {
  std::vector<CoreStats> all;
  for (auto& core : cores_) {
    // Shared with the task: a core that is stuck may fill it after the deadline.
    auto stats = std::make_shared<CoreStats>();
    const Status status = Run(
        core->id(), [stats](Core& at) { *stats = StatsOf(at); }, deadline);
    all.push_back(status.ok() ? std::move(*stats) : CoreStats());
    if (!status.ok()) continue;
    all.back().limit_bytes += outside_bytes_;
    all.back().used_bytes += outside_bytes_ / cores_.size();
  }
  return all;
}

std::vector<PartitionStats> CoreGroup::NamespaceStats(Deadline deadline) {
  std::vector<PartitionStats> all;
  for (auto& core : cores_) {
    auto stats = std::make_shared<std::vector<PartitionStats>>();
    const Status status = Run(
        core->id(),
        [stats](Core& at) {
          at.store().ForEachPartition([&](storage::Partition& held) {
            // Skips an incomplete copy, which has no owner yet.
            if (at.dispatcher().ownership().importing(held.id())) return;
            stats->push_back({held.id(), held.records(), held.store().payload_bytes(),
                              held.last_lsn().value(), held.operations()});
          });
        },
        deadline);
    if (status.ok()) all.insert(all.end(), stats->begin(), stats->end());
  }
  return all;
}

void CoreGroup::ResetStats() {
  for (auto& core : cores_) core->Post([](Core& at) { at.dispatcher().meter().ResetLatency(); });
}

std::vector<std::uint64_t> CoreGroup::Progress() const {
  std::vector<std::uint64_t> counts;
  for (const auto& core : cores_) counts.push_back(core->progress());
  return counts;
}

std::string CoreGroup::Describe() const { return std::string(shared_->context->name()); }

CopyAlarms& CoreGroup::copy_alarms() { return shared_->alarms; }

}  // namespace tidepool::daemon
