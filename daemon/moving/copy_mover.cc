#include "daemon/moving/copy_mover.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "daemon/copies/copies.h"
#include "daemon/core/core.h"
#include "daemon/membership/entry_change.h"
#include "daemon/moving/move_deadlines.h"
#include "proto/base/check.h"
#include "proto/base/limits.h"
#include "proto/base/log.h"
#include "proto/cluster_file/random.h"
#include "proto/convert/grpc_status.h"
#include "proto/transport/node_transport.h"
#include "tidepool/v1/moves.grpc.pb.h"

namespace tidepool::daemon {
namespace {

using CopyStage = CopyJob::Stage;

constexpr std::uint64_t kOpenMs = 5'000;
constexpr std::uint64_t kReportCopyNs = 200'000'000;
constexpr std::chrono::microseconds kLookAtCopy(2'000);
constexpr std::chrono::microseconds kLookAtEnd(200);
// A copy that lacks no more than this is a moment behind.
constexpr std::uint64_t kCloseBytes = 512 * 1024;
// So often the coordinator is asked to forget a copy that was given up. The next move of the
// partition, and each restart, forget it too.
constexpr int kForgetTries = 3;

std::uint64_t RandomLink() {
  const std::uint64_t link = std::strtoull(cluster_file::RandomHex(8).c_str(), nullptr, 16);
  return link == 0 ? 1 : link;
}

class CopyMover {
 public:
  using Report = std::function<void(const v1::MovePartitionProgress&)>;

  CopyMover(NodeState* node, const v1::MovePartitionRequest& request, const Report& report,
            const std::function<bool()>& cancelled)
      : node_(*node),
        request_(request),
        report_(report),
        cancelled_(cancelled),
        id_(NamespaceId(request.namespace_id()), request.partition()),
        term_(request.term()) {}

  Result<Epoch> Run();

 private:
  using Answer = Result<v1::ChangePartitionResponse>;

  Status Look();
  Status Fill();
  Status Follow();
  Result<Epoch> HandOver();
  Status HoldBack();
  Result<Epoch> AskForHandover();
  Result<Epoch> Withdraw(const Status& why);
  void EndJob(Copies::Ending ending);
  void ForgetCopy();

  v1::EntryStep Step(v1::EntryStep::What what) const;
  Answer Ask(const std::vector<v1::EntryStep>& steps);
  Status Change(v1::EntryStep::What what);
  bool IsMine(const v1::ChangePartitionResponse& answer) const {
    return answer.owner_node() == node_.self().value() && answer.term() == term_.value();
  }
  bool IsTargets(const v1::ChangePartitionResponse& answer) const {
    return answer.owner_node() == target_.id.value() && answer.term() == term_.value() + 1;
  }
  Status Stopped() const;
  Status Failure() const;
  Epoch Install(std::uint64_t epoch);
  void ReportProgress(bool now);

  NodeState& node_;
  const v1::MovePartitionRequest& request_;
  const Report& report_;
  const std::function<bool()>& cancelled_;
  const PartitionId id_;
  const Term term_;
  std::string name_;        // For people.
  bool is_others_ = false;  // By the coordinator's answer; the map follows.
  CoreId core_;
  CoreId target_core_;
  placement::Node target_;
  std::uint64_t version_ = 0;  // Of the entry, from the last answer.
  std::uint64_t hold_ms_ = limits::kCallTimeoutMs;
  std::shared_ptr<CopyJob> job_;
  std::uint64_t reported_ns_ = 0;
};

// Why the move ends where nobody has failed.
Status CopyMover::Stopped() const {
  if (node_.moves.stopping()) return Status(StatusCode::kCancelled, "this daemon is stopping");
  if (cancelled_()) return Status(StatusCode::kCancelled, "the move was cancelled");
  return OkStatus();
}

Status CopyMover::Failure() const {
  const std::string behind = "; " + name_ + " stays where it was";
  if (job_->stage.load() == CopyStage::kGone) {
    return Status(StatusCode::kAborted, name_ + " was dropped or granted anew meanwhile");
  }
  const StatusCode code = job_->code.load();
  if (code == StatusCode::kResourceExhausted) {
    return Status(code, "no memory on " + NodeText(target_) + " for all of the partition" + behind,
                  "delete something there, or start its daemon with more --memory");
  }
  if (code == StatusCode::kDataLoss || code == StatusCode::kDeviceError) {
    return Status(code, "a record cannot be read from its device" + behind);
  }
  if (code == StatusCode::kUnavailable) {
    return Status(code, "the link to " + NodeText(target_) + " was lost" + behind,
                  "see: kvctl status");
  }
  return Status(code, NodeText(target_) + " has given the copy up" + behind);
}

Status CopyMover::Look() {
  const placement::PlacementMapPtr map = node_.map.Get();
  const auto space = map->Find(id_.space());
  const placement::PartitionPlace* place = map->Find(id_);
  if (space == nullptr || place == nullptr || place->node != node_.self() || place->term != term_ ||
      place->state == placement::PartitionState::kLost) {
    return Status(StatusCode::kWrongEpoch, "the partition is not owned here under this term");
  }
  name_ = "partition " + std::to_string(id_.index()) + " of '" + space->name + "'";
  core_ = place->core;
  TP_RETURN_IF_ERROR(CheckCopyable(*space));
  const placement::Node* target =
      map->FindNode(NodeId(static_cast<std::uint16_t>(request_.target_node())));
  if (target == nullptr || target->id == node_.self() ||
      target->state != placement::NodeState::kUp) {
    return Status(StatusCode::kUnavailable,
                  "node " + std::to_string(request_.target_node()) + " is not up",
                  "see: kvctl status");
  }
  target_ = *target;
  target_core_ = CoreId(static_cast<std::uint16_t>(id_.index() % target_.cores));
  if (request_.hold_ms() != 0) hold_ms_ = request_.hold_ms();
  return OkStatus();
}

v1::EntryStep CopyMover::Step(v1::EntryStep::What what) const {
  v1::EntryStep step;
  step.set_what(what);
  step.set_node_id(target_.id.value());
  step.set_incarnation(target_.incarnation);
  step.set_core(target_core_.value());
  return step;
}

CopyMover::Answer CopyMover::Ask(const std::vector<v1::EntryStep>& steps) {
  v1::ChangePartitionRequest request;
  request.set_namespace_id(id_.space().value());
  request.set_partition(id_.index());
  request.set_term(term_.value());
  request.set_version(version_);
  for (const v1::EntryStep& step : steps) *request.add_steps() = step;
  return node_.member.load()->ChangePartition(request, Deadline::AfterMs(kGrantMs));
}

// One step that may be repeated, until the coordinator has answered. Nothing is held back.
Status CopyMover::Change(v1::EntryStep::What what) {
  for (;;) {
    const Answer answer = Ask({Step(what)});
    if (answer.ok() && answer->changed()) {
      version_ = answer->version();
      return OkStatus();
    }
    const auto code = answer.ok() ? static_cast<StatusCode>(answer->code() % kStatusCodeCount)
                                  : StatusCode::kUnavailable;
    if (answer.ok() && code == StatusCode::kAborted && IsMine(*answer) &&
        answer->version() > version_) {
      version_ = answer->version();  // An answer was lost, or a copy was removed.
      continue;
    }
    if (answer.ok()) return Status(code, answer->what(), answer->remedy());
    TP_RETURN_IF_ERROR(Stopped());
    if (job_ != nullptr &&
        (job_->stage.load() == CopyStage::kFailed || job_->stage.load() == CopyStage::kGone)) {
      return Failure();
    }
    ReportProgress(false);
    std::this_thread::sleep_for(std::chrono::milliseconds(kAskAgainMs));
  }
}

// Until the copy is a moment behind.
Status CopyMover::Fill() {
  const CopyPlan plan{id_, term_, version_, core_, target_core_, target_, false};
  TP_RETURN_IF_ERROR(BeginCopy(&node_, plan, &job_));
  return Follow();
}

Status CopyMover::Follow() {
  for (;;) {
    const CopyStage stage = job_->stage.load();
    if (stage == CopyStage::kFailed || stage == CopyStage::kGone) return Failure();
    if (stage == CopyStage::kFollowing && job_->unacked_bytes.load() <= kCloseBytes)
      return OkStatus();
    TP_RETURN_IF_ERROR(Stopped());
    ReportProgress(false);
    std::this_thread::sleep_for(kLookAtCopy);
  }
}

void CopyMover::ReportProgress(bool now) {
  const std::uint64_t now_ns = Clock::Real().MonotonicNs();
  if (!now && now_ns < reported_ns_ + kReportCopyNs) return;
  reported_ns_ = now_ns;
  v1::MovePartitionProgress progress;
  if (job_ != nullptr) {
    const std::uint64_t records = job_->records.load();
    progress.set_entries_done(records);
    progress.set_entries_total(std::max(records, job_->records_total.load()));
    progress.set_bytes_done(job_->bytes.load());
  }
  report_(progress);
}

void CopyMover::EndJob(Copies::Ending ending) {
  if (job_ == nullptr) return;
  node_.cores->Post(core_,
                    [ending, job = job_](Core& at) { at.dispatcher().copies().End(*job, ending); });
}

// Without this, the entry would name a copy that nobody fills.
void CopyMover::ForgetCopy() {
  for (int i = 0; i < kForgetTries && !node_.moves.stopping(); ++i) {
    const Answer answer = Ask({Step(v1::EntryStep::WHAT_DROP)});
    if (!answer.ok()) continue;
    const bool is_behind = answer->version() > version_ && IsMine(*answer);
    if (answer->changed() || !is_behind) return;
    version_ = answer->version();
  }
}

// Holds the partition's groups back until the target has applied everything.
Status CopyMover::HoldBack() {
  auto code = std::make_shared<StatusCode>(StatusCode::kUnavailable);
  TP_RETURN_IF_ERROR(node_.cores->Run(
      core_, [code, job = job_](Core& at) { *code = at.dispatcher().copies().Hold(*job); },
      Deadline::AfterMs(kCoreMs)));
  if (*code == StatusCode::kWrongEpoch) {
    return Status(*code, name_ + " is not served here any more");
  }
  if (*code != StatusCode::kOk) return Failure();
  const Deadline deadline = Deadline::AfterMs(hold_ms_);
  while (job_->stage.load() != CopyStage::kWhole) {
    const CopyStage stage = job_->stage.load();
    if (stage == CopyStage::kFailed || stage == CopyStage::kGone) return Failure();
    TP_RETURN_IF_ERROR(Stopped());
    if (deadline.Passed()) {
      return Status(StatusCode::kDeadlineExceeded,
                    NodeText(target_) + " has not taken the end of " + name_ + " within " +
                        std::to_string(hold_ms_) + " ms",
                    "try again, or raise --timeout");
    }
    std::this_thread::sleep_for(kLookAtEnd);
  }
  return OkStatus();
}

// The map reaches the core, which drops the partition and refuses the held groups.
Epoch CopyMover::Install(std::uint64_t epoch) {
  const Deadline deadline = Deadline::AfterMs(kCoreMs);
  while (node_.map.Get()->epoch.value() < epoch && !deadline.Passed() && !node_.moves.stopping()) {
    node_.member.load()->Sync(deadline);
  }
  return Epoch(epoch);
}

// Everything is held back and the target has all of it. Only an answer ends this.
Result<Epoch> CopyMover::AskForHandover() {
  v1::EntryStep former = Step(v1::EntryStep::WHAT_DROP);
  former.set_node_id(node_.self().value());
  former.set_incarnation(node_.incarnation);
  bool warned = false;
  while (!node_.moves.stopping()) {
    // The coordinator takes a dead node for a living one until its lease has run out.
    if (job_->link_lost.load()) {
      return Withdraw(Status(StatusCode::kUnavailable,
                             "the link to " + NodeText(target_) + " was lost",
                             "see: kvctl status"));
    }
    const Answer answer =
        Ask({Step(v1::EntryStep::WHAT_ADMIT), Step(v1::EntryStep::WHAT_HANDOVER), former});
    if (answer.ok() && (answer->changed() || IsTargets(*answer))) {
      return Install(answer->epoch());
    }
    if (answer.ok()) {
      const auto code = static_cast<StatusCode>(answer->code() % kStatusCodeCount);
      return Withdraw(Status(code, answer->what(), answer->remedy()));
    }
    if (!std::exchange(warned, true)) {
      log::Warn(name_ + ": the coordinator does not say whether it has moved to " +
                NodeText(target_) + " (" + answer.status().ToString() + "); asking on");
    }
    ReportProgress(false);
    std::this_thread::sleep_for(std::chrono::milliseconds(kAskAgainMs));
  }
  return Status(StatusCode::kCancelled, "this daemon is stopping");
}

// A hand-over was refused. An earlier request for it may still arrive, so the entry gets another
// version before anything runs here again.
Result<Epoch> CopyMover::Withdraw(const Status& why) {
  while (!node_.moves.stopping()) {
    const Answer answer = Ask({Step(v1::EntryStep::WHAT_TOUCH)});
    if (answer.ok() && IsTargets(*answer)) return Install(answer->epoch());
    if (answer.ok() && IsMine(*answer) && answer->version() > version_) {
      version_ = answer->version();
      return Status(why.code(), std::string(why.what()) + "; " + name_ + " stays where it was",
                    std::string(why.remedy()));
    }
    if (answer.ok() && !IsMine(*answer)) {
      is_others_ = true;
      return Status(StatusCode::kAborted, name_ + " was dropped or granted anew meanwhile");
    }
    ReportProgress(false);
    std::this_thread::sleep_for(std::chrono::milliseconds(kAskAgainMs));
  }
  return Status(StatusCode::kCancelled, "this daemon is stopping");
}

Result<Epoch> CopyMover::HandOver() {
  // The coordinator must be there before anything is held back.
  TP_RETURN_IF_ERROR(Change(v1::EntryStep::WHAT_TOUCH));
  TP_RETURN_IF_ERROR(Follow());
  TP_RETURN_IF_ERROR(HoldBack());
  ReportProgress(true);
  return AskForHandover();
}

Result<Epoch> CopyMover::Run() {
  TP_RETURN_IF_ERROR(Look());
  MovesUnderWay::Leaving leaving(&node_.moves, id_);
  if (!leaving.is_first()) {
    return Status(StatusCode::kAborted, name_ + " is being moved already, or this daemon stops");
  }
  TP_RETURN_IF_ERROR(Change(v1::EntryStep::WHAT_JOIN));
  const Status filled = Fill();
  auto moved = filled.ok() ? HandOver() : Result<Epoch>(filled);
  // A daemon that stops may have been granted away: it runs nothing any more.
  // Another node's partition stays held back until the newer map comes.
  if (moved.ok() || is_others_) {
    EndJob(Copies::Ending::kMoved);
  } else if (!node_.moves.stopping()) {
    EndJob(Copies::Ending::kStays);
  }
  if (!moved.ok()) ForgetCopy();
  return moved;
}

}  // namespace

Result<Epoch> MoveByCopy(NodeState* node, const v1::MovePartitionRequest& request,
                         const std::function<void(const v1::MovePartitionProgress&)>& report,
                         const std::function<bool()>& cancelled) {
  return CopyMover(node, request, report, cancelled).Run();
}

namespace {

Result<std::string> OpenAtTarget(NodeState& node, const CopyPlan& plan, std::uint64_t link) {
  auto own = std::make_shared<std::string>();
  TP_RETURN_IF_ERROR(node.cores->Run(
      plan.core, [own](Core& at) { *own = at.worker_address(); }, Deadline::AfterMs(kCoreMs)));
  v1::OpenCopyRequest request;
  request.set_namespace_id(plan.partition.space().value());
  request.set_partition(plan.partition.index());
  request.set_term(plan.term.value());
  request.set_version(plan.version);
  request.set_source_node(node.self().value());
  request.set_core(plan.target_core.value());
  request.set_link(link);
  request.set_source_core(plan.core.value());
  request.set_worker_address(transport::TagAddress(*own, link));
  request.set_incarnation(plan.target.incarnation);
  grpc::ClientContext call;
  node.peers.Prepare(&call, Deadline::AfterMs(kOpenMs));
  const MovesUnderWay::Call registered(&node.moves, &call);
  v1::OpenCopyResponse response;
  TP_RETURN_IF_ERROR(
      convert::FromGrpc(v1::Moves::NewStub(node.peers.Get(plan.target.control_address))
                            ->OpenCopy(&call, request, &response),
                        NodeText(plan.target)));
  return transport::TagAddress(response.worker_address(), link);
}

}  // namespace

Status BeginCopy(NodeState* node, const CopyPlan& plan, std::shared_ptr<CopyJob>* job) {
  const CopyPeer peer{plan.target.id, plan.target.incarnation, plan.target_core};
  auto found = std::make_shared<std::uint64_t>(0);
  TP_RETURN_IF_ERROR(node->cores->Run(
      plan.core, [found, peer](Core& at) { *found = at.dispatcher().copies().FindLink(peer); },
      Deadline::AfterMs(kCoreMs)));
  const std::uint64_t link = *found != 0 ? *found : RandomLink();
  const auto address = OpenAtTarget(*node, plan, link);
  if (!address.ok()) return address.status();
  *job = std::make_shared<CopyJob>(plan.partition, plan.term, plan.version, link, plan.is_replica);
  auto begun = std::make_shared<Status>();
  TP_RETURN_IF_ERROR(node->cores->Run(
      plan.core,
      [begun, peer, to = *address, job = *job](Core& at) {
        *begun = at.dispatcher().copies().Begin(job, peer, to);
      },
      Deadline::AfterMs(kCoreMs)));
  return *begun;
}

Result<v1::OpenCopyResponse> OpenCopy(NodeState* node, const v1::OpenCopyRequest& request) {
  if (request.incarnation() != node->incarnation || node->moves.stopping()) {
    return Status(StatusCode::kUnavailable, "the target was started again, or is stopping");
  }
  const PartitionId id(NamespaceId(request.namespace_id()), request.partition());
  const Deadline deadline = Deadline::AfterMs(kOpenMs);
  placement::PlacementMapPtr map = node->map.Get();
  const placement::PartitionPlace* place = map->Find(id);
  const auto is_named = [&] {
    return place != nullptr && std::any_of(place->copies.begin(), place->copies.end(),
                                           [&](const placement::CopyPlace& copy) {
                                             return copy.node == node->self() &&
                                                    copy.incarnation == request.incarnation() &&
                                                    copy.since == request.version();
                                           });
  };
  const auto has_replicas = [&] {
    const auto found = map->Find(id.space());
    return found != nullptr && found->options.replicas > 1;
  };
  if (place == nullptr || place->term.value() < request.term() || (has_replicas() && !is_named())) {
    // It may have been made or granted a moment ago.
    node->member.load()->Sync(deadline);
    map = node->map.Get();
    place = map->Find(id);
  }
  const auto space = map->Find(id.space());
  const bool is_as_said = space != nullptr && place != nullptr &&
                          place->node.value() == request.source_node() &&
                          place->node != node->self() && place->term.value() == request.term();
  if (!is_as_said) {
    return Status(StatusCode::kWrongEpoch, "the partition has another owner or term by now");
  }
  TP_RETURN_IF_ERROR(CheckCopyable(*space));
  if (has_replicas() && !is_named()) {
    return Status(StatusCode::kWrongEpoch, "the partition's entry names another copy by now");
  }
  const CoreId core(static_cast<std::uint16_t>(request.core()));
  if (core.value() >= node->cores->size()) {
    return Status(StatusCode::kInvalidArgument, "the target has no such core");
  }
  struct Opened {
    Status status;
    std::string address;
  };
  auto opened = std::make_shared<Opened>();
  TP_RETURN_IF_ERROR(node->cores->Run(
      core,
      [opened, id, request, options = PartitionOptionsOf(*space, id.index())](Core& at) {
        opened->status = at.dispatcher().copies().Open(
            id, Term(request.term()), request.version(), options, request.link(),
            NodeId(static_cast<std::uint16_t>(request.source_node())),
            CoreId(static_cast<std::uint16_t>(request.source_core())), request.worker_address());
        opened->address = at.worker_address();
      },
      deadline));
  if (opened->status == StatusCode::kAlreadyExists) {
    return Status(StatusCode::kAborted, "the target has not yet ended an earlier move of it",
                  "try again in a moment");
  }
  TP_RETURN_IF_ERROR(opened->status);
  v1::OpenCopyResponse response;
  response.set_worker_address(opened->address);
  return response;
}

}  // namespace tidepool::daemon
