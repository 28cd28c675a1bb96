#include "daemon/moving/range_splitter.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "daemon/control/node_state.h"
#include "daemon/core/core.h"
#include "daemon/membership/coordinator.h"
#include "proto/base/limits.h"
#include "proto/base/log.h"
#include "proto/base/thread.h"
#include "proto/convert/grpc_status.h"
#include "tidepool/v1/namespaces.grpc.pb.h"

namespace tidepool::daemon {
namespace {

constexpr std::uint64_t kCoreTaskMs = 10'000;
constexpr std::uint64_t kCoordinatorMs = 2'000;
constexpr std::uint64_t kRetryMs = 100;
// Each time another node was faster.
constexpr int kSplitTries = 8;
// The stream's end may be so far behind when the map is asked for: some ms of work.
constexpr std::uint64_t kUnappliedAtCommitMax = 512 * 1024;

Deadline Soon() { return Deadline::AfterMs(kCoreTaskMs); }

// The coordinator has not said what has become of the split.
bool SaysNothing(const Status& status) {
  return status == StatusCode::kUnavailable || status == StatusCode::kDeadlineExceeded ||
         status == StatusCode::kCancelled || status == StatusCode::kUnknown ||
         status == StatusCode::kInternal;
}

}  // namespace

RangeSplitter::~RangeSplitter() { Stop(); }

Status RangeSplitter::Start() {
  return StartThread("splits of ranges", &thread_, [this] { Run(); });
}

void RangeSplitter::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool RangeSplitter::SleepMs(std::uint64_t ms) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, std::chrono::milliseconds(ms), [this] { return stopping_; });
}

bool RangeSplitter::Await(const std::function<bool()>& condition) {
  while (!condition()) {
    if (!SleepMs(1)) return false;
  }
  return true;
}

Result<SplitOutcome> RangeSplitter::Split(NamespaceId space, std::uint32_t partition,
                                          std::optional<std::string> key, Deadline deadline) {
  auto job = std::make_shared<Job>();
  job->space = space;
  job->partition = partition;
  job->key = std::move(key);
  job->deadline = deadline;
  std::unique_lock lock(mutex_);
  jobs_.push_back(job);
  changed_.notify_all();
  const bool ended = changed_.wait_for(lock, std::chrono::nanoseconds(deadline.LeftNs()),
                                       [&] { return job->outcome.has_value() || stopping_; });
  if (job->outcome.has_value()) return *std::move(job->outcome);
  if (!ended) {
    return Status(StatusCode::kUnknown, "the split did not end before the deadline",
                  "see: kvctl namespace describe");
  }
  return Status(StatusCode::kUnavailable, "the daemon is stopping");
}

void RangeSplitter::Run() {
  Deadline next_check = Deadline::AfterMs(node_.options.split_check_ms);
  for (;;) {
    std::shared_ptr<Job> job;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, std::chrono::nanoseconds(next_check.LeftNs()),
                        [this] { return stopping_ || !jobs_.empty(); });
      if (stopping_) return;
      if (!jobs_.empty()) {
        job = jobs_.front();
        jobs_.pop_front();
      }
    }
    if (job == nullptr) {
      Check();
      next_check = Deadline::AfterMs(node_.options.split_check_ms);
      continue;
    }
    if (job->deadline.Passed()) continue;  // Nobody waits for it.
    auto outcome = RunOne(job->space, job->partition, job->key);
    const std::lock_guard lock(mutex_);
    job->outcome = std::move(outcome);
    changed_.notify_all();
  }
}

Result<std::string> RangeSplitter::ChooseKey(const placement::Namespace& space,
                                             std::uint32_t partition,
                                             const std::optional<std::string>& asked) {
  const placement::Ranges& ranges = *space.ranges;
  std::string key = asked.value_or("");
  if (!asked.has_value()) {
    auto middle = std::make_shared<std::optional<std::string>>();
    TP_RETURN_IF_ERROR(node_.cores->Run(
        space.partitions[partition].core,
        [middle, id = PartitionId(space.id, partition)](Core& core) {
          storage::Partition* held = core.store().Find(id);
          if (held == nullptr || held->has_moved_out()) return;
          if (const auto found = held->ordered().SplitKey(); found.has_value()) {
            *middle = std::string(AsText(*found));
          }
        },
        Soon()));
    if (!middle->has_value()) {
      return Status(StatusCode::kFailedPrecondition,
                    "the range has fewer than two keys, or what left it by its last split is still "
                    "being removed",
                    "give a key, or try again soon");
    }
    key = **middle;
  }
  const std::string* end = ranges.EndOf(partition);
  if (key <= ranges.BeginOf(partition) || (end != nullptr && key >= *end)) {
    return Status(StatusCode::kFailedPrecondition,
                  "the split key does not lie inside of a range: one begins with it",
                  "see where ranges begin: kvctl namespace describe " + space.name);
  }
  if (key.size() <= limits::kSplitKeyBytesMax) return key;
  return Status(StatusCode::kInvalidArgument,
                "a split key of " + std::to_string(key.size()) + " bytes",
                "split keys have at most " + std::to_string(limits::kSplitKeyBytesMax) +
                    " bytes; give a shorter one");
}

// The core with the fewest partitions of the namespace; beside the source, if there is another.
CoreId RangeSplitter::ChooseCore(const placement::Namespace& space, CoreId source) const {
  const std::uint32_t cores = node_.cores->size();
  std::vector<std::uint32_t> partitions(cores, 0);
  for (const placement::PartitionPlace& place : space.partitions) {
    if (place.node == node_.self() && place.core.value() < cores) ++partitions[place.core.value()];
  }
  std::uint32_t best = source.value();
  for (std::uint32_t i = 1; i < cores; ++i) {
    const std::uint32_t core = (source.value() + i) % cores;
    if (best == source.value() || partitions[core] < partitions[best]) best = core;
  }
  return CoreId(static_cast<std::uint16_t>(best));
}

// Nodes that split ranges of one namespace at the same time take their numbers one after another.
Result<SplitOutcome> RangeSplitter::RunOne(NamespaceId id, std::uint32_t partition,
                                           const std::optional<std::string>& asked) {
  for (int tries_left = kSplitTries;; --tries_left) {
    const Epoch known = node_.map.Get()->epoch;
    auto outcome = TryOne(id, partition, asked);
    if (outcome.code() != StatusCode::kAborted || tries_left == 1) return outcome;
    // Where the coordinator has said it, the map with the next number is on its way.
    node_.map.WaitFor(Epoch(known.value() + 1), Deadline::AfterMs(kCoordinatorMs));
  }
}

Result<SplitOutcome> RangeSplitter::TryOne(NamespaceId id, std::uint32_t partition,
                                           const std::optional<std::string>& asked) {
  const placement::PlacementMapPtr map = node_.map.Get();
  const auto space = map->Find(id);
  if (space == nullptr || space->ranges == nullptr || partition >= space->partitions.size()) {
    return Status(StatusCode::kNotFound, "no such range");
  }
  if (asked.has_value()) partition = space->IndexOf(AsBytes(*asked));
  const placement::PartitionPlace place = space->partitions[partition];
  if (place.node != node_.self() || place.state != placement::PartitionState::kActive) {
    return Status(StatusCode::kFailedPrecondition, "the range is not served here", "try again");
  }
  if (space->options.durable()) {
    return Status(StatusCode::kUnimplemented,
                  "'" + space->name + "' is durable: its ranges stay as they were made",
                  "give split keys when it is made");
  }
  if (space->options.prefilter == "admit") {
    return Status(StatusCode::kFailedPrecondition,
                  "'" + space->name +
                      "' has prefilter 'admit': what it has only marked could not "
                      "be told apart by the ranges of its keys",
                  "give split keys when it is made");
  }
  const auto key = ChooseKey(*space, partition, asked);
  if (!key.ok()) return key.status();
  auto move = std::make_shared<RangeMove>();
  move->from = PartitionId(id, partition);
  move->term = place.term;
  const auto next = static_cast<std::uint32_t>(space->partitions.size());
  if (next >= limits::kPartitionsPerNamespaceMax) {
    return Status(StatusCode::kResourceExhausted, "'" + space->name + "' has too many ranges");
  }
  move->to = PartitionId(id, next);
  move->key = *key;
  move->source = place.core;
  move->target = ChooseCore(*space, place.core);
  move->post = [cores = node_.cores](CoreId core, std::function<void(Core&)> task) {
    return cores->Post(core, std::move(task));
  };
  const std::uint64_t begun_ns = Clock::Real().MonotonicNs();
  if (const Status copied = Copy(move); !copied.ok()) {
    Cancel(move);
    return copied;
  }
  const auto epoch = Commit({id, partition, place.term, node_.self(), *key, next, move->target});
  if (!epoch.ok()) {
    if (!SaysNothing(epoch.status())) Cancel(move);
    return epoch.status();
  }
  using Stage = RangeMove::Stage;
  const bool ended = Await([&] {
    const Stage stage = move->stage.load();
    return stage == Stage::kDone || stage == Stage::kFailed;
  });
  if (!ended || move->stage.load() == Stage::kFailed) {
    Cancel(move);
    return Status(StatusCode::kUnavailable, "the namespace was dropped, or the daemon is stopping");
  }
  log::Info("split '" + space->name + "': partition " + std::to_string(next) + " on core " +
            std::to_string(move->target.value()) + " has " + std::to_string(move->records.load()) +
            " records of partition " + std::to_string(partition) + ", in " +
            std::to_string((Clock::Real().MonotonicNs() - begun_ns) / 1'000'000) + " ms");
  return SplitOutcome{next, *key, move->target, *epoch};
}

// Until the copy is through and the target close behind.
Status RangeSplitter::Copy(const RangeMovePtr& move) {
  auto started = std::make_shared<Status>();
  TP_RETURN_IF_ERROR(node_.cores->Run(
      move->target,
      [started, move](Core& core) { *started = core.dispatcher().range_moves().StartTarget(move); },
      Soon()));
  TP_RETURN_IF_ERROR(*started);
  TP_RETURN_IF_ERROR(node_.cores->Run(
      move->source,
      [started, move](Core& core) { *started = core.dispatcher().range_moves().StartSource(move); },
      Soon()));
  TP_RETURN_IF_ERROR(*started);
  using Stage = RangeMove::Stage;
  // Whoever is faster on another node has the number first; the copy is of no use then.
  const auto is_taken = [&] {
    const auto space = node_.map.Get()->Find(move->to.space());
    return space == nullptr || space->partitions.size() > move->to.index();
  };
  const bool waited = Await([&] {
    return is_taken() || move->out_of_memory.load() || move->stage.load() == Stage::kFailed ||
           (move->stage.load() == Stage::kFollowing &&
            move->unapplied_bytes.load() < kUnappliedAtCommitMax);
  });
  if (!waited) return Status(StatusCode::kUnavailable, "the daemon is stopping");
  if (is_taken()) {
    return Status(StatusCode::kAborted, "another range of the namespace was split meanwhile",
                  "try again");
  }
  if (move->stage.load() == Stage::kFailed) {
    return Status(StatusCode::kFailedPrecondition, "the range was granted anew meanwhile",
                  "try again");
  }
  if (!move->out_of_memory.load()) return OkStatus();
  return Status(StatusCode::kResourceExhausted,
                "core " + std::to_string(move->target.value()) +
                    " has no memory for the copy of the range; it was not split",
                "delete something, or start the daemons with more --memory");
}

void RangeSplitter::Cancel(const RangeMovePtr& move) {
  // In this order: what the source has sent finds no target, and is dropped.
  (void)node_.cores->Run(
      move->source, [move](Core& core) { core.dispatcher().range_moves().CancelSource(*move); },
      Soon());
  (void)node_.cores->Run(
      move->target, [move](Core& core) { core.dispatcher().range_moves().CancelTarget(*move); },
      Soon());
}

Result<Epoch> RangeSplitter::AskCoordinator(const RangeSplit& split) {
  if (Coordinator* coordinator = node_.ActingCoordinator(); coordinator != nullptr) {
    return coordinator->SplitPartition(split);
  }
  v1::CommitSplitRequest request;
  request.set_namespace_id(split.space.value());
  request.set_partition(split.partition);
  request.set_term(split.term.value());
  request.set_node_id(split.node.value());
  request.set_key(split.key);
  request.set_new_partition(split.new_partition);
  request.set_new_core(split.new_core.value());
  v1::CommitSplitResponse response;
  grpc::ClientContext context;
  node_.peers.Prepare(&context, Deadline::AfterMs(kCoordinatorMs));
  const placement::PlacementMapPtr known = node_.map.Get();
  const placement::Node* at = node_.CoordinatorNode(*known);
  if (at == nullptr) return node_.NoCoordinator();
  const std::string& address = at->control_address;
  const auto stub = v1::Namespaces::NewStub(node_.peers.Get(address));
  TP_RETURN_IF_ERROR(convert::FromGrpc(stub->CommitSplit(&context, request, &response),
                                       "the coordinator, " + address + ","));
  return Epoch(response.epoch());
}

// Until the coordinator has said yes or no: after a yes whose answer was lost the copy is the
// range, so nothing may be dropped before. The source serves on, and its changes follow.
Result<Epoch> RangeSplitter::Commit(const RangeSplit& split) {
  for (bool is_unanswered = false;;) {
    auto epoch = AskCoordinator(split);
    if (epoch.ok()) return epoch;
    if (!SaysNothing(epoch.status())) {
      return is_unanswered ? Withdraw(split, epoch.status()) : epoch;
    }
    if (!std::exchange(is_unanswered, true)) {
      log::Warn("the coordinator does not say whether a range is split; asking on: " +
                epoch.status().ToString());
    }
    if (!SleepMs(kRetryMs)) return epoch;
  }
}

// A question that was not answered may still arrive, and what was refused since may then be
// granted, to a copy that is gone. It names the range's term, so a new term ends it.
Result<Epoch> RangeSplitter::Withdraw(const RangeSplit& split, const Status& why) {
  const PartitionId id(split.space, split.partition);
  const placement::PlacementMapPtr known = node_.map.Get();
  const placement::PartitionPlace* place = known->Find(id);
  // Under the last term nothing is split.
  if (place == nullptr || split.term.value() >= limits::kTermMax) return why;
  v1::GrantPartitionRequest request;
  request.set_namespace_id(split.space.value());
  request.set_partition(split.partition);
  request.set_term(split.term.value());
  request.set_source_node(split.node.value());
  request.set_target_node(split.node.value());
  request.set_target_incarnation(node_.incarnation);
  request.set_core(place->core.value());
  Member& member = *node_.member.load();
  do {
    const auto answer = member.GrantPartition(request, Deadline::AfterMs(kCoordinatorMs));
    if (answer.ok() && answer->granted()) return why;
    if (answer.ok() && answer->superseded()) {
      // By that question, or as the namespace was dropped.
      member.Sync(Deadline::AfterMs(kCoordinatorMs));
      const placement::PlacementMapPtr map = node_.map.Get();
      const auto space = map->Find(split.space);
      if (space != nullptr && IsSplitSo(*space, split)) return map->epoch;
      if (space == nullptr || space->partitions[split.partition].term != split.term) return why;
    }
  } while (SleepMs(kRetryMs));
  return Status(StatusCode::kUnavailable, "the daemon is stopping");
}

}  // namespace tidepool::daemon
