#include "daemon/routing/peer_calls.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "daemon/routing/call_deadline.h"
#include "daemon/routing/operation_convert.h"
#include "proto/base/check.h"
#include "proto/convert/grpc_status.h"
#include "tidepool/v1/data.grpc.pb.h"

namespace tidepool::daemon {

PeerCalls::~PeerCalls() {
  if (queue_ == nullptr) return;
  for (const auto& call : calls_) call->context.TryCancel();
  queue_->Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) {
  }
}

Status PeerCalls::Start(const placement::Namespace& space, std::uint32_t partition,
                        const std::vector<wire::Operation>& operations, std::size_t value_bytes_max,
                        std::size_t answer_bytes_max, Deadline deadline,
                        std::optional<Deadline> work_deadline, std::size_t tag) {
  const placement::PartitionPlace& place = space.partitions[partition];
  const placement::PlacementMapPtr map = context_.map();
  const placement::Node* node = map->FindNode(place.node);
  if (node == nullptr) return Status(StatusCode::kWrongEpoch, "the owner is not in the map yet");
  v1::ExecuteRequest request;
  request.set_namespace_(space.name);
  request.mutable_addressed()->set_namespace_id(space.id.value());
  request.mutable_addressed()->set_partition(partition);
  request.mutable_addressed()->set_term(place.term.value());
  request.set_value_bytes_max(value_bytes_max);
  request.set_answer_bytes_max(answer_bytes_max);
  request.set_tell_receipt(true);
  auto call = std::make_unique<Call>();
  call->tag = tag;
  call->node = "node " + std::to_string(place.node.value()) + " (" + node->host + " " +
               node->control_address + ")";
  for (const wire::Operation& operation : operations) {
    ToProto(operation, request.add_operations());
    call->opcodes.push_back(operation.opcode);
    call->mutates = call->mutates || wire::InfoOf(operation.opcode).mutates;
  }
  call->context.set_deadline(std::chrono::system_clock::now() +
                             std::chrono::nanoseconds(deadline.LeftNs()));
  if (work_deadline) SetWorkDeadline(&call->context, *work_deadline);
  context_.authorize(call->context);
  if (queue_ == nullptr) queue_ = std::make_unique<grpc::CompletionQueue>();
  const auto stub = v1::Data::NewStub(context_.channel(*node));
  call->reader = stub->AsyncExecute(&call->context, request, queue_.get());
  call->reader->Finish(&call->response, &call->status, call.get());
  calls_.push_back(std::move(call));
  ++under_way_;
  return OkStatus();
}

PeerCalls::Outcome PeerCalls::OutcomeOf(const Call& call) {
  if (!call.status.ok()) {
    // The peer's own refusals carry details; a broken call says nothing about its effect.
    const bool broken = call.status.error_details().empty();
    if (broken && call.mutates) {
      return Status(StatusCode::kUnknown,
                    "the call to " + call.node + " broke; the change may or may not have happened",
                    "read the key to find out");
    }
    if (broken && call.status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
      return Status(StatusCode::kDeadlineExceeded, call.node + " did not answer in time",
                    "see: kvctl status");
    }
    return convert::FromGrpc(call.status, call.node);
  }
  if (call.response.results_size() != static_cast<int>(call.opcodes.size())) {
    return Status(StatusCode::kInternal, "a peer answered another number of operations");
  }
  std::vector<OperationOutcome> outcomes;
  const wire::Receipt receipt = FromProto(call.response.receipt());
  for (std::size_t i = 0; i < call.opcodes.size(); ++i) {
    outcomes.push_back(FromProto(call.response.results(static_cast<int>(i)), call.opcodes[i]));
    // All operations are on one partition.
    if (outcomes.back().code == StatusCode::kOk) outcomes.back().receipt = receipt;
  }
  return outcomes;
}

std::size_t PeerCalls::Next(Outcome* outcome) {
  TP_CHECK(under_way_ > 0);
  void* done = nullptr;
  bool ok = false;
  TP_CHECK(queue_->Next(&done, &ok));  // Its end is its destructor.
  --under_way_;
  const auto call = std::find_if(calls_.begin(), calls_.end(),
                                 [done](const auto& each) { return each.get() == done; });
  TP_CHECK(call != calls_.end());
  const std::size_t tag = (*call)->tag;
  *outcome = OutcomeOf(**call);
  calls_.erase(call);
  return tag;
}

}  // namespace tidepool::daemon
