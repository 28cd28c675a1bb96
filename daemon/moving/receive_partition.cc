#include "daemon/moving/receive_partition.h"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "daemon/core/core.h"
#include "daemon/core/owned_by_core.h"
#include "daemon/membership/namespace_rules.h"
#include "daemon/moving/move_deadlines.h"
#include "daemon/moving/piece_hash.h"
#include "proto/base/check.h"
#include "proto/base/log.h"
#include "storage/partition_image.h"

namespace tidepool::daemon {
namespace {

constexpr std::uint64_t kMoveMapMs = 2'000;
// Of a piece, which may have to wait for room in memory.
constexpr std::uint64_t kMoveRoomMs = 30'000;

Status NoMemory() {
  return Status(StatusCode::kResourceExhausted, "no memory on the target for all of the partition",
                "delete something there, or start its daemon with more --memory");
}

class Receiver {
 public:
  Receiver(NodeState* node, const v1::ReceiveStart& start)
      : node_(*node),
        start_(start),
        id_(NamespaceId(start.namespace_id()), start.partition()),
        core_(static_cast<std::uint16_t>(start.core())) {}
  // What was not granted goes.
  ~Receiver() {
    reader_.reset();
    if (is_open_ && !is_kept_) {
      node_.cores->Post(core_, [id = id_](Core& at) { at.store().DropIncoming(id); });
    }
  }

  Status Open();
  Status Take(const v1::PartitionPiece& piece);
  // After the last piece. The answer is final; what `tell` hears before is not. Errors: kCancelled
  // (this daemon stops).
  Result<v1::ReceiveAnswer> Ask(const std::function<void(const v1::ReceiveAnswer&)>& tell);

 private:
  Status Look(placement::PlacementMapPtr* map) const;
  void WaitInstalled(Epoch epoch);

  NodeState& node_;
  const v1::ReceiveStart start_;
  const PartitionId id_;
  const CoreId core_;
  bool is_open_ = false;
  bool is_whole_ = false;  // The last piece has arrived.
  bool is_kept_ = false;   // It is the map's now.
  std::uint64_t hash_ = 0;
  std::shared_ptr<storage::ImageReader> reader_;
};

// Whether this node may have it, by the newest map.
Status Receiver::Look(placement::PlacementMapPtr* map) const {
  *map = node_.map.Get();
  const auto space = (*map)->Find(id_.space());
  if (start_.partition() >= limits::kPartitionsPerNamespaceMax || space == nullptr ||
      start_.partition() >= space->partitions.size()) {
    return Status(StatusCode::kNotFound, "no such partition");
  }
  const placement::PartitionPlace& place = space->partitions[start_.partition()];
  if (place.node.value() != start_.source_node() || place.term.value() != start_.term() ||
      place.node == node_.self()) {
    return Status(StatusCode::kWrongEpoch, "the partition has another owner or term by now");
  }
  return CheckMovable(*space);
}

Status Receiver::Open() {
  TP_RETURN_IF_ERROR(node_.CheckJoined());
  if (node_.moves.stopping()) return Status(StatusCode::kUnavailable, "the target is stopping");
  placement::PlacementMapPtr map;
  if (!Look(&map).ok()) {
    // It may have been made a moment ago.
    node_.member.load()->Sync(Deadline::AfterMs(kMoveMapMs));
    TP_RETURN_IF_ERROR(Look(&map));
  }
  struct Opened {
    Status status;
    std::shared_ptr<storage::ImageReader> reader;
  };
  auto opened = std::make_shared<Opened>();
  is_open_ = true;  // Perhaps late.
  const Status ran = node_.cores->Run(
      core_,
      [opened, id = id_, core = core_, cores = node_.cores, term = Term(start_.term()),
       options = PartitionOptionsOf(*map->Find(id_.space()), id_.index())](Core& at) {
        const auto added = at.store().AddIncoming(id, term, options);
        opened->status = added.status();
        if (!added.ok()) return;
        opened->reader = OwnedByCore(*cores, core, storage::ImageReader(at.store(), id));
      },
      Deadline::AfterMs(kCoreMs));
  TP_RETURN_IF_ERROR(ran);
  is_open_ = opened->status.ok();
  if (opened->status == StatusCode::kResourceExhausted) return NoMemory();
  if (opened->status == StatusCode::kAlreadyExists) {
    return Status(StatusCode::kAborted, "the target has not yet ended an earlier move of it",
                  "try again in a moment");
  }
  reader_ = opened->reader;
  return opened->status;
}

Status Receiver::Take(const v1::PartitionPiece& piece) {
  TP_CHECK(is_open_ && reader_ != nullptr && !is_whole_);
  hash_ = HashOfPiece(hash_, AsBytes(piece.piece()));
  if (hash_ != piece.hash()) {
    return Status(StatusCode::kDataLoss, "a piece of the partition arrived damaged");
  }
  auto code = std::make_shared<StatusCode>(StatusCode::kOk);
  auto complete = std::make_shared<bool>(false);
  auto bytes = std::make_shared<const std::string>(piece.piece());
  TP_RETURN_IF_ERROR(node_.cores->Run(
      core_,
      [code, complete, bytes, reader = reader_](Core& at) {
        *code = reader->Apply(AsBytes(*bytes), at.store().NowMs());
        *complete = reader->complete();
        // Only for want of memory that will come the same piece is given again.
        if (*code != StatusCode::kResourceExhausted) (void)at.store().TakeRefused();
      },
      Deadline::AfterMs(kMoveRoomMs)));
  if (*code == StatusCode::kResourceExhausted) return NoMemory();
  if (*code != StatusCode::kOk)
    return Status(*code, "a piece of the partition makes no sense here");
  if (piece.last() && !*complete) {
    return Status(StatusCode::kDataLoss, "not all of the partition has arrived");
  }
  is_whole_ = piece.last();
  return OkStatus();
}

// So that it is served here when the owner hears of it.
void Receiver::WaitInstalled(Epoch epoch) {
  const Deadline deadline = Deadline::AfterMs(kCoreMs);
  while (node_.map.Get()->epoch < epoch && !deadline.Passed() && !node_.moves.stopping()) {
    node_.member.load()->Sync(deadline);
  }
}

Result<v1::ReceiveAnswer> Receiver::Ask(const std::function<void(const v1::ReceiveAnswer&)>& tell) {
  // A grant is asked for once, and only for a partition that is here as a whole.
  TP_CHECK(is_open_ && is_whole_ && !is_kept_);
  v1::GrantPartitionRequest request;
  request.set_namespace_id(start_.namespace_id());
  request.set_partition(start_.partition());
  request.set_term(start_.term());
  request.set_source_node(start_.source_node());
  request.set_target_node(node_.self().value());
  request.set_target_incarnation(node_.incarnation);
  request.set_core(start_.core());
  v1::ReceiveAnswer answer;
  bool is_unanswered = false;  // An earlier question, which may be granted when it arrives.
  bool is_told = false;
  for (;;) {
    // From the first question on it may be ours.
    is_kept_ = true;
    const auto asked = node_.member.load()->GrantPartition(request, Deadline::AfterMs(kGrantMs));
    if (asked.ok()) {
      const bool is_final = asked->granted() || asked->superseded() || !is_unanswered;
      answer.set_granted(asked->granted());
      answer.set_undecided(!is_final);
      answer.set_epoch(asked->epoch());
      answer.set_code(asked->code());
      answer.set_what(asked->what());
      answer.set_remedy(asked->remedy());
      if (is_final) {
        is_kept_ = asked->granted();
        if (is_kept_) WaitInstalled(Epoch(asked->epoch()));
        return answer;
      }
      if (!std::exchange(is_told, true)) tell(answer);
    } else if (!std::exchange(is_unanswered, true)) {
      log::Warn("the coordinator did not say who has partition " + std::to_string(id_.index()) +
                " of namespace " + std::to_string(id_.space().value()) +
                ", which is here; asking on: " + asked.status().ToString());
    }
    if (node_.moves.stopping()) {
      return Status(StatusCode::kCancelled, "the target is stopping");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(kAskAgainMs));
  }
}

v1::ReceiveAnswer Refusal(const Status& why) {
  v1::ReceiveAnswer answer;
  answer.set_code(static_cast<std::uint32_t>(why.code()));
  answer.set_what(std::string(why.what()));
  answer.set_remedy(std::string(why.remedy()));
  return answer;
}

}  // namespace

Status ReceivePartition(NodeState* node, const v1::ReceiveStart& start, ReceiveStream* stream) {
  v1::PartitionPiece piece;
  std::optional<Receiver> receiver(std::in_place, node, start);
  Status status = receiver->Open();
  if (status.ok()) {
    v1::ReceiveAnswer ready;
    ready.set_ready(true);
    stream->Write(ready);
  }
  bool is_whole = false;
  while (status.ok() && !is_whole) {
    if (!stream->Read(&piece)) {
      return Status(StatusCode::kCancelled, "the owner has ended the move");
    }
    status = receiver->Take(piece);
    is_whole = piece.last();
  }
  if (!status.ok()) {
    // Gone before the owner hears of it, so that it may try again.
    receiver.reset();
    stream->Write(Refusal(status));
    return OkStatus();
  }
  const auto answer =
      receiver->Ask([&](const v1::ReceiveAnswer& so_far) { stream->Write(so_far); });
  if (!answer.ok()) return answer.status();
  receiver.reset();
  stream->Write(*answer);
  return OkStatus();
}

}  // namespace tidepool::daemon
