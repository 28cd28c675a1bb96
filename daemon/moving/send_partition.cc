#include "daemon/moving/send_partition.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "daemon/core/core.h"
#include "daemon/core/owned_by_core.h"
#include "daemon/membership/namespace_rules.h"
#include "daemon/moving/move_deadlines.h"
#include "daemon/moving/piece_hash.h"
#include "proto/base/check.h"
#include "proto/base/limits.h"
#include "proto/base/log.h"
#include "proto/convert/grpc_status.h"
#include "storage/partition_image.h"
#include "tidepool/v1/moves.grpc.pb.h"

namespace tidepool::daemon {
namespace {

// Until the target has made room, before anything is held back.
constexpr std::uint64_t kReadyMs = 5'000;
constexpr std::uint64_t kReportNs = 200'000'000;

// Of the core: what is read of the partition.
struct Reading {
  storage::ImageWriter writer;
  std::string room;
};

// Why the target does not take it.
Status StatusOf(const v1::ReceiveAnswer& answer) {
  const auto code = static_cast<StatusCode>(answer.code() % kStatusCodeCount);
  return Status(code == StatusCode::kOk ? StatusCode::kInternal : code, answer.what(),
                answer.remedy());
}

class Sender {
 public:
  using Report = std::function<void(const v1::MovePartitionProgress&)>;

  Sender(NodeState* node, const v1::MovePartitionRequest& request, const Report& report)
      : node_(*node),
        request_(request),
        report_(report),
        id_(NamespaceId(request.namespace_id()), request.partition()),
        term_(request.term()) {}
  ~Sender() {
    if (stream_ == nullptr || finished_) return;
    call_.TryCancel();
    (void)Broken();
  }

  Result<Epoch> Run();

 private:
  Status Look();
  Status Connect();
  Status Freeze();
  void Thaw();
  Status SendImage();
  Status NextPiece(std::string* piece);
  void ReportProgress(bool now);
  Result<Epoch> Learn();
  Result<Epoch> Reclaim(const Status& why);
  void InstallMap(Epoch epoch);
  Status Broken();

  NodeState& node_;
  const v1::MovePartitionRequest& request_;
  const Report& report_;
  const PartitionId id_;
  const Term term_;
  std::string name_;  // For people.
  CoreId core_;
  CoreId target_core_;
  placement::Node target_;
  std::uint64_t hold_ms_ = 0;

  grpc::ClientContext call_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::PartitionPiece, v1::ReceiveAnswer>> stream_;
  bool finished_ = false;
  std::shared_ptr<Reading> reading_;
  v1::MovePartitionProgress progress_;
  std::uint64_t reported_ns_ = 0;
};

Status Sender::Look() {
  const placement::PlacementMapPtr map = node_.map.Get();
  const auto space = map->Find(id_.space());
  const placement::PartitionPlace* place = map->Find(id_);
  if (space == nullptr || place == nullptr || place->node != node_.self() || place->term != term_ ||
      place->state == placement::PartitionState::kLost) {
    return Status(StatusCode::kWrongEpoch, "the partition is not owned here under this term");
  }
  name_ = "partition " + std::to_string(id_.index()) + " of '" + space->name + "'";
  core_ = place->core;
  TP_RETURN_IF_ERROR(CheckMovable(*space));
  const placement::Node* target =
      map->FindNode(NodeId(static_cast<std::uint16_t>(request_.target_node())));
  if (target == nullptr || target->id == node_.self() ||
      target->state != placement::NodeState::kUp) {
    return Status(StatusCode::kUnavailable,
                  "node " + std::to_string(request_.target_node()) + " is not up",
                  "see: kvctl status");
  }
  target_ = *target;
  // As SpreadPartitions places them on a node of their own.
  const bool has_one = space->partitions.size() == 1;
  const std::uint32_t nth = has_one ? id_.space().value() : id_.index();
  target_core_ = CoreId(static_cast<std::uint16_t>(nth % target_.cores));
  auto payload = std::make_shared<std::uint64_t>(0);
  TP_RETURN_IF_ERROR(node_.cores->Run(
      core_,
      [payload, id = id_](Core& at) {
        const storage::Partition* held = at.store().Find(id);
        if (held != nullptr) *payload = held->store().payload_bytes();
      },
      Deadline::AfterMs(kCoreMs)));
  hold_ms_ = request_.hold_ms() != 0
                 ? request_.hold_ms()
                 : limits::kCallTimeoutMs + *payload * 1'000 / limits::kTimeoutBytesPerSecond;
  return OkStatus();
}

// Opens the stream and waits until the target is ready; nothing is held back yet.
Status Sender::Connect() {
  node_.peers.Authorize(call_);
  // Everything that blocks on the stream ends by then.
  call_.set_deadline(std::chrono::system_clock::now() +
                     std::chrono::milliseconds(kReadyMs + hold_ms_));
  stream_ = v1::Moves::NewStub(node_.peers.Get(target_.control_address))->Receive(&call_);
  v1::PartitionPiece first;
  v1::ReceiveStart* start = first.mutable_start();
  start->set_namespace_id(id_.space().value());
  start->set_partition(id_.index());
  start->set_term(term_.value());
  start->set_source_node(node_.self().value());
  start->set_core(target_core_.value());
  v1::ReceiveAnswer answer;
  stream_->Write(first);
  if (!stream_->Read(&answer)) return Broken();
  return answer.ready() ? OkStatus() : StatusOf(answer);
}

// Nothing can be read or written any more: how the stream ended.
Status Sender::Broken() {
  finished_ = true;
  const Status status = convert::FromGrpc(stream_->Finish(), NodeText(target_));
  if (node_.moves.stopping()) return Status(StatusCode::kCancelled, "this daemon is stopping");
  if (!status.ok()) return status;
  return Status(StatusCode::kUnavailable, NodeText(target_) + " ended the move");
}

Status Sender::Freeze() {
  auto code = std::make_shared<StatusCode>(StatusCode::kUnavailable);
  auto reading = std::make_shared<std::shared_ptr<Reading>>();
  const Status ran = node_.cores->Run(
      core_,
      [code, reading, id = id_, term = term_, core = core_, cores = node_.cores](Core& at) {
        *code = at.dispatcher().ownership().Freeze(id, term);
        if (*code != StatusCode::kOk) return;
        *reading = OwnedByCore(*cores, core, Reading{{at.store(), id}, {}});
      },
      Deadline::AfterMs(kCoreMs));
  // A core that is late may still freeze it.
  if (!ran.ok()) {
    Thaw();
    return ran;
  }
  if (*code != StatusCode::kOk) return Status(*code, name_ + " is not served here any more");
  reading_ = std::move(*reading);
  return OkStatus();
}

void Sender::Thaw() {
  node_.cores->Post(core_, [id = id_, term = term_](Core& at) { at.dispatcher().Thaw(id, term); });
}

// Empty: that was all.
Status Sender::NextPiece(std::string* piece) {
  TP_CHECK(reading_ != nullptr);  // Nothing is sent that could still change: Freeze comes first.
  auto ok = std::make_shared<bool>(false);
  auto bytes = std::make_shared<std::string>();
  auto done = std::make_shared<std::pair<std::uint64_t, std::uint64_t>>();
  TP_RETURN_IF_ERROR(node_.cores->Run(
      core_,
      [reading = reading_, ok, bytes, done](Core& at) {
        reading->room.resize(storage::kImagePieceBytes);
        const std::size_t used = reading->writer.Next(
            {reinterpret_cast<std::byte*>(reading->room.data()), reading->room.size()},
            at.store().NowMs(), ok.get());
        bytes->assign(reading->room, 0, used);
        *done = {reading->writer.entries_done(), reading->writer.entries_total()};
      },
      Deadline::AfterMs(kCoreMs)));
  if (!*ok) return Status(StatusCode::kAborted, name_ + " is not here any more");
  *piece = std::move(*bytes);
  progress_.set_entries_done(done->first);
  progress_.set_entries_total(done->second);
  progress_.set_bytes_done(progress_.bytes_done() + piece->size());
  return OkStatus();
}

void Sender::ReportProgress(bool now) {
  const std::uint64_t now_ns = Clock::Real().MonotonicNs();
  if (!now && now_ns < reported_ns_ + kReportNs) return;
  reported_ns_ = now_ns;
  report_(progress_);
}

// When this is OK the target may have it all, and decides.
Status Sender::SendImage() {
  const Deadline hold = Deadline::AfterMs(hold_ms_);
  std::uint64_t hash = 0;
  for (;;) {
    v1::PartitionPiece piece;
    TP_RETURN_IF_ERROR(NextPiece(piece.mutable_piece()));
    ReportProgress(false);
    if (node_.moves.stopping()) {
      return Status(StatusCode::kCancelled, "this daemon is stopping");
    }
    if (hold.Passed()) {
      return Status(StatusCode::kDeadlineExceeded,
                    name_ + " was not copied within " + std::to_string(hold_ms_) +
                        " ms, for which operations may be held back",
                    "raise --timeout, or move it when it holds less");
    }
    hash = HashOfPiece(hash, AsBytes(piece.piece()));
    piece.set_hash(hash);
    piece.set_last(piece.piece().empty());
    const bool written = stream_->Write(piece);
    // It may have arrived all the same.
    if (piece.last()) return OkStatus();
    if (written) continue;
    // The target has ended it, and perhaps said why.
    v1::ReceiveAnswer answer;
    return stream_->Read(&answer) ? StatusOf(answer) : Broken();
  }
}

// The image is sent: what has the target made of it?
Result<Epoch> Sender::Learn() {
  TP_CHECK(reading_ != nullptr && !finished_);
  ReportProgress(true);
  v1::ReceiveAnswer answer;
  if (!stream_->Read(&answer)) return Reclaim(Broken());
  if (answer.granted()) {
    InstallMap(Epoch(answer.epoch()));
    return Epoch(answer.epoch());
  }
  if (answer.undecided()) return Reclaim(StatusOf(answer));
  Thaw();
  return StatusOf(answer);
}

// The target may have the partition, or get it yet. Whoever's grant comes first has it.
Result<Epoch> Sender::Reclaim(const Status& why) {
  log::Warn(name_ + ": the move to " + NodeText(target_) + " is not decided (" + why.ToString() +
            "); asking the coordinator who has it");
  v1::GrantPartitionRequest request;
  request.set_namespace_id(id_.space().value());
  request.set_partition(id_.index());
  request.set_term(term_.value());
  request.set_source_node(node_.self().value());
  request.set_target_node(node_.self().value());
  request.set_target_incarnation(node_.incarnation);
  request.set_core(core_.value());
  Member& member = *node_.member.load();
  while (!node_.moves.stopping()) {
    const auto answer = member.GrantPartition(request, Deadline::AfterMs(kGrantMs));
    ReportProgress(true);
    if (answer.ok() && answer->granted()) {
      InstallMap(Epoch(answer->epoch()));
      return Status(why.code(), std::string(why.what()) + "; " + name_ + " stays where it was",
                    std::string(why.remedy()));
    }
    if (answer.ok() && answer->superseded()) {
      member.Sync(Deadline::AfterMs(kGrantMs));
      const placement::PlacementMapPtr map = node_.map.Get();
      const placement::PartitionPlace* place = map->Find(id_);
      if (place != nullptr && place->node == target_.id) return map->epoch;
      // Dropped, or not yet heard of.
      if (place == nullptr || place->term != term_) {
        return Status(StatusCode::kAborted, name_ + " was dropped or granted anew meanwhile");
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(kAskAgainMs));
  }
  return Status(StatusCode::kCancelled, "this daemon is stopping");
}

// So that whoever waits here hears of it now and not with the next poll of maps.
void Sender::InstallMap(Epoch epoch) {
  const Deadline deadline = Deadline::AfterMs(kCoreMs);
  while (node_.map.Get()->epoch < epoch && !deadline.Passed() && !node_.moves.stopping()) {
    node_.member.load()->Sync(deadline);
  }
}

Result<Epoch> Sender::Run() {
  TP_RETURN_IF_ERROR(Look());
  MovesUnderWay::Leaving leaving(&node_.moves, id_);
  if (!leaving.is_first()) {
    return Status(StatusCode::kAborted, name_ + " is being moved already, or this daemon stops");
  }
  const MovesUnderWay::Call call(&node_.moves, &call_);
  TP_RETURN_IF_ERROR(Connect());
  const Status frozen = Freeze();
  const Status sent = frozen.ok() ? SendImage() : frozen;
  if (!sent.ok()) {
    if (frozen.ok()) Thaw();
    return sent;
  }
  return Learn();
}

}  // namespace

Result<Epoch> SendPartition(NodeState* node, const v1::MovePartitionRequest& request,
                            const std::function<void(const v1::MovePartitionProgress&)>& report) {
  return Sender(node, request, report).Run();
}

}  // namespace tidepool::daemon
