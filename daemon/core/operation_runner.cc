#include "daemon/core/operation_runner.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "daemon/core/room_waiters.h"
#include "proto/base/check.h"
#include "proto/placement/owner.h"

namespace tidepool::daemon {
namespace {

bool BelongsTo(const storage::Partition& partition, Bytes key, std::uint64_t hash) {
  if (partition.kind() == Kind::kOrdered) return partition.bounds().Holds(key);
  return placement::PartitionIndexOf(PlacementHash(key, hash),
                                     partition.options().partition_count) == partition.id().index();
}

}  // namespace

OperationRunner::OperationRunner(storage::CoreStore& store, Ownership& ownership,
                                 Responder& responder, OperationMeter& meter, const Copies& copies)
    : store_(store),
      ownership_(ownership),
      responder_(responder),
      meter_(meter),
      copies_(copies),
      scratch_(limits::kFrameBytesMax) {}

void OperationRunner::Start(Streams* streams, Sessions* sessions) {
  TP_CHECK(streams_ == nullptr);
  streams_ = streams;
  sessions_ = sessions;
}

void OperationRunner::Stop() {
  streams_ = nullptr;
  sessions_ = nullptr;
}

WaitFor OperationRunner::Run(const Planned& planned, std::size_t reserved_bytes,
                             std::uint64_t now_ms, bool may_wait, Reception& to) {
  const wire::Operation& operation = *planned.operation;
  const std::size_t room = to.sink.ValueRoom(reserved_bytes);
  storage::ValueWriter* upload = nullptr;
  if (planned.upload != nullptr) {
    upload = &planned.upload->writer;
  } else if (operation.has(wire::Argument::kUpload)) {
    upload = streams_->FindUpload(to.session, operation.get(wire::Argument::kUpload));
  }
  Reply reply;
  TP_DCHECK(!store_.blocked());  // Otherwise this operation's work would be taken for not done.
  store_.BeginRun();
  Execute({.partition = *planned.partition,
           .operation = operation,
           .hash = planned.hash,
           .now_ms = now_ms,
           .upload = upload,
           .scratch = MutableBytes(scratch_.data(), std::min(room, scratch_.size())),
           .store = store_,
           .may_wait = may_wait,
           .session = to.session.id,
           .groups = &groups_,
           .functions = functions_,
           .executor = this,
           .exporter = exporter_},
          &reply);
  if (store_.blocked() || reply.answer.code == StatusCode::kResourceExhausted) [[unlikely]] {
    if (const WaitFor wait_for = WaitsOnStore(&reply); wait_for != WaitFor::kNothing) {
      return wait_for;
    }
  }
  if (planned.partition->options().durability == storage::Durability::kSync) [[unlikely]] {
    if (const std::uint64_t wait = responder_.CommitWaitOf(*planned.partition); wait != 0)
      Responder::RequireCommit(wait, to);
  }
  if (planned.partition->options().has_replicas) [[unlikely]] {
    CopyWaits waits;
    copies_.AddWaits(planned.partition->id(), &waits);
    if (!waits.empty()) Responder::RequireCopies(waits, to);
  }
  // Room that later answers need is not available for the text of a failure.
  Bytes& text = reply.answer.value;
  if (reply.answer.code != StatusCode::kOk && to.rooms_behind > 0) {
    text = text.first(std::min(text.size(), room));
  }
  if (reply.wakes) groups_to_wake_.push_back({planned.partition->id(), planned.hash});
  if (reply.wait_for != WaitFor::kNothing) return reply.wait_for;
  responder_.Conclude(planned, reply, room, to);
  return WaitFor::kNothing;
}

// Returns the wait condition of the operation that has just run. A waiting operation has met
// records that are not in DRAM, and has changed nothing.
WaitFor OperationRunner::WaitsOnStore(Reply* reply) {
  if (store_.blocked()) {
    const StatusCode lost = store_.TakeLost();
    if (lost == StatusCode::kOk) return WaitFor::kDevice;
    *reply = Reply();
    Refuse(reply, lost,
           lost == StatusCode::kDeviceError         ? "the device does not give the record back"
           : lost == StatusCode::kResourceExhausted ? "no memory to read the value into; try again"
                                                    : "the record on the device is damaged");
  } else if (reply->answer.code == StatusCode::kResourceExhausted) {
    refusal_ = store_.TakeRefused();
    if (store_.MayWait(refusal_)) return WaitFor::kMemory;
    if (refusal_ && store_.checkpoints() && reply->answer.value.empty()) {
      Refuse(reply, StatusCode::kResourceExhausted, kMemoryAndDevicesFull);
    }
  }
  return WaitFor::kNothing;
}

bool OperationRunner::RefusesDurable(const OperationContext& context, Reply* reply) const {
  if (store_.commit_failed() != StatusCode::kOk) {
    reply->answer.code = StatusCode::kDeviceError;
    reply->answer.value = AsBytes(std::string_view(
        "a device of the node has failed: nothing of a durable namespace can be changed; what is "
        "there can be read, and staged out"));
    return true;
  }
  if (context.partition.kind() == Kind::kOrdered && wire::InfoOf(context.operation.opcode).keyed &&
      context.operation.key.size() > limits::kDurableOrderedKeyBytesMax) {
    static_assert(limits::kDurableOrderedKeyBytesMax == 400);
    reply->answer.code = StatusCode::kInvalidArgument;
    reply->answer.value = AsBytes(
        std::string_view("keys of a durable namespace of kind ordered have at most 400 bytes"));
    return true;
  }
  return false;
}

void OperationRunner::Execute(const OperationContext& context, Reply* reply) {
  const wire::Operation& operation = context.operation;
  const storage::Partition& partition = context.partition;
  const wire::OpcodeInfo& info = wire::InfoOf(operation.opcode);
  const Handler handler = FindHandler(operation.opcode);
  if (handler == nullptr) {
    reply->answer.code = StatusCode::kUnimplemented;
  } else if (!partition.IsOneOf(info.kinds)) {
    reply->answer.code = StatusCode::kInvalidArgument;
    reply->answer.value = AsBytes(kWrongKind);
  } else if (info.keyed && !BelongsTo(partition, operation.key, context.hash)) {
    reply->answer.code = StatusCode::kInvalidArgument;
    reply->answer.value = AsBytes("the key does not belong to the addressed partition");
  } else if (operation.opcode == wire::Opcode::kChain && partition.options().has_replicas) {
    reply->answer.code = StatusCode::kUnimplemented;
    reply->answer.value =
        AsBytes(std::string_view("chains are not in this version for namespaces with replicas"));
  } else if (partition.is_durable() && info.mutates && RefusesDurable(context, reply)) {
    return;
  } else {
    MemoryShares& shares = ownership_.shares();
    const MemoryShares::Admission admission = shares.Admit(context, reply);
    if (admission.refused) [[unlikely]]
      return;
    handler(context, reply);
    shares.Settle(context, admission);
  }
}

void OperationRunner::OnDirectReads(SessionId session, const storage::Partition& partition,
                                    const DirectReads& reads) {
  if (Session* found = sessions_->Find(session); found != nullptr) {
    meter_.AddDirectReads(*found, partition.id().space(), reads);
  }
}

}  // namespace tidepool::daemon
