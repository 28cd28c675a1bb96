// Namespaces.Migrate: the owners move the partitions to a node, one after the other.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "daemon/membership/namespace_rules.h"
#include "daemon/routing/request_router.h"
#include "daemon/services/namespaces_service.h"
#include "proto/base/thread.h"
#include "proto/convert/grpc_status.h"
#include "tidepool/v1/moves.grpc.pb.h"

namespace tidepool::daemon {
namespace {

using convert::ToGrpc;

constexpr std::uint64_t kMapMs = 2'000;
// Another may have moved it, or its owner come back, since the map was read.
constexpr int kMigrateTries = 5;
// The owner says how far it is each fifth of a second.
constexpr std::chrono::seconds kSilenceMax(15);

// Ends a call after too long a silence of the other side.
class SilenceWatch {
 public:
  explicit SilenceWatch(grpc::ClientContext* call) : call_(*call) {}
  // Errors: kResourceExhausted (no thread).
  Status Begin() {
    return StartThread("the watch over a move", &thread_, [this] { Run(); });
  }
  ~SilenceWatch() { End(); }
  SilenceWatch(const SilenceWatch&) = delete;
  SilenceWatch& operator=(const SilenceWatch&) = delete;

  void Heard() {
    const std::lock_guard lock(mutex_);
    heard_ = true;
  }
  // False: it has ended the call.
  bool End() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
    return !was_silent_;
  }

 private:
  void Run() {
    std::unique_lock lock(mutex_);
    do {
      heard_ = false;
      if (wake_.wait_for(lock, kSilenceMax, [this] { return ended_; })) return;
    } while (heard_);
    was_silent_ = true;
    call_.TryCancel();
  }

  grpc::ClientContext& call_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool heard_ = false;
  bool ended_ = false;
  bool was_silent_ = false;
  std::thread thread_;  // After all that it uses.
};

class Migration {
 public:
  Migration(NodeState* node, const v1::MigrateNamespaceRequest& request,
            grpc::ServerContext* caller, grpc::ServerWriter<v1::MigrateNamespaceProgress>* writer)
      : node_(*node), request_(request), caller_(*caller), writer_(*writer) {}

  Status Run();

 private:
  Status FindTarget(const placement::PlacementMap& map);
  Status MoveAway(const placement::Namespace& space, std::uint32_t partition);
  Status MoveOnce(NamespaceId space, std::uint32_t partition, bool* is_there);

  NodeState& node_;
  const v1::MigrateNamespaceRequest& request_;
  grpc::ServerContext& caller_;
  grpc::ServerWriter<v1::MigrateNamespaceProgress>& writer_;
  NodeId target_;
  v1::MigrateNamespaceProgress progress_;
};

Status Migration::FindTarget(const placement::PlacementMap& map) {
  const std::string home = request_.node() == placement::kHomeLocal
                               ? std::to_string(node_.self().value())
                               : request_.node();
  if (home.empty()) {
    return Status(StatusCode::kInvalidArgument, "no node to move to was named",
                  "give a node's number, see kvctl status, or 'local'");
  }
  const auto nodes = NodesFor(map.nodes, home);
  if (!nodes.ok()) return nodes.status();
  target_ = nodes->front().id;
  progress_.set_node_id(target_.value());
  return OkStatus();
}

Status Migration::Run() {
  const Deadline deadline = Deadline::AfterMs(kMapMs);
  if (node_.ActingCoordinator() == nullptr && node_.joined()) node_.member.load()->Sync(deadline);
  const auto found = node_.FindNamespace(request_.name(), deadline);
  if (!found.ok()) return found.status();
  const placement::Namespace& space = **found;
  TP_RETURN_IF_ERROR(CheckMovable(space));
  const placement::PlacementMapPtr map = node_.NewestMap();
  TP_RETURN_IF_ERROR(FindTarget(*map));
  std::vector<std::uint32_t> away;
  if (request_.has_from_node() &&
      (request_.from_node() >= limits::kNodesMax ||
       map->FindNode(NodeId(static_cast<std::uint16_t>(request_.from_node()))) == nullptr)) {
    return Status(StatusCode::kInvalidArgument,
                  "there is no node " + std::to_string(request_.from_node()), "see: kvctl status");
  }
  for (std::uint32_t i = 0; i < space.partitions.size(); ++i) {
    const NodeId at = space.partitions[i].node;
    const bool is_meant = !request_.has_from_node() || at.value() == request_.from_node();
    if (is_meant && at != target_) away.push_back(i);
  }
  progress_.set_partitions_total(static_cast<std::uint32_t>(away.size()));
  progress_.set_epoch(map->epoch.value());
  for (const std::uint32_t partition : away) {
    if (caller_.IsCancelled()) return Status(StatusCode::kCancelled, "the caller has gone away");
    TP_RETURN_IF_ERROR(MoveAway(space, partition));
    progress_.set_partitions_done(progress_.partitions_done() + 1);
  }
  node_.map.WaitFor(Epoch(progress_.epoch()), Deadline::AfterMs(kMapMs));
  progress_.set_done(true);
  writer_.Write(progress_);
  return OkStatus();
}

Status Migration::MoveAway(const placement::Namespace& space, std::uint32_t partition) {
  Status status;
  for (int attempt = 0; attempt < kMigrateTries; ++attempt) {
    bool is_there = false;
    status = MoveOnce(space.id, partition, &is_there);
    if (is_there || status.code() != StatusCode::kWrongEpoch || caller_.IsCancelled()) break;
    node_.member.load()->Refresh(node_.map.Get()->epoch, Deadline::AfterMs(kMapMs));
  }
  if (status.ok() || space.partitions.size() == 1) return status;
  return Status(status.code(),
                std::to_string(progress_.partitions_done()) + " of " +
                    std::to_string(progress_.partitions_total()) +
                    " partitions have moved, then: " + std::string(status.what()),
                std::string(status.remedy()));
}

Status Migration::MoveOnce(NamespaceId space_id, std::uint32_t partition, bool* is_there) {
  const placement::PlacementMapPtr map = node_.NewestMap();
  const auto space = map->Find(space_id);
  if (space == nullptr) return Status(StatusCode::kNotFound, "the namespace was dropped");
  const placement::PartitionPlace& place = space->partitions[partition];
  *is_there = place.node == target_;
  if (*is_there) return OkStatus();
  TP_RETURN_IF_ERROR(node_.router->CheckPlace(*space, place));
  v1::MovePartitionRequest request;
  request.set_namespace_id(space_id.value());
  request.set_partition(partition);
  request.set_term(place.term.value());
  request.set_target_node(target_.value());
  request.set_hold_ms(request_.hold_ms());
  const placement::Node& owner = map->nodes[place.node.value()];
  // No deadline: the owner's deadlines suffice, and an unfinished move has no result to report. The
  // call ends when the owner ends or falls silent, or when this node or the caller ends.
  const std::unique_ptr<grpc::ClientContext> call = grpc::ClientContext::FromServerContext(caller_);
  node_.peers.Authorize(*call);
  SilenceWatch watch(call.get());
  TP_RETURN_IF_ERROR(watch.Begin());
  const MovesUnderWay::Call registered(&node_.moves, call.get());
  const auto reader =
      v1::Moves::NewStub(node_.peers.Get(owner.control_address))->Move(call.get(), request);
  const std::uint64_t bytes_before = progress_.bytes_done();
  v1::MovePartitionProgress step;
  while (reader->Read(&step)) {
    watch.Heard();
    progress_.set_entries_done(step.entries_done());
    progress_.set_entries_total(step.entries_total());
    progress_.set_bytes_done(bytes_before + step.bytes_done());
    if (step.epoch() != 0) progress_.set_epoch(step.epoch());
    if (!writer_.Write(progress_)) call->TryCancel();
  }
  const grpc::Status end = reader->Finish();
  if (watch.End()) return convert::FromGrpc(end, NodeText(owner));
  return Status(StatusCode::kUnknown,
                NodeText(owner) + ", which moves partition " + std::to_string(partition) +
                    ", says nothing any more",
                "where it is: kvctl namespace describe " + request_.name());
}

}  // namespace

grpc::Status NamespacesService::Migrate(grpc::ServerContext* call,
                                        const v1::MigrateNamespaceRequest* request,
                                        grpc::ServerWriter<v1::MigrateNamespaceProgress>* writer) {
  if (const Status joined = node_.CheckJoined(); !joined.ok()) return ToGrpc(joined);
  return ToGrpc(Migration(&node_, *request, call, writer).Run());
}

}  // namespace tidepool::daemon
