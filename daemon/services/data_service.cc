#include "daemon/services/data_service.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "daemon/core/call_bounds.h"
#include "daemon/routing/call_deadline.h"
#include "daemon/routing/operation_convert.h"
#include "daemon/staging/cluster_view.h"
#include "proto/base/limits.h"
#include "proto/convert/grpc_status.h"

namespace tidepool::daemon {
namespace {

wire::Operation KeyOperation(wire::Opcode opcode, const std::string& key) {
  wire::Operation operation;
  operation.opcode = opcode;
  operation.key = AsBytes(key);
  return operation;
}

}  // namespace

grpc::Status DataService::Get(grpc::ServerContext* call, const v1::GetRequest* request,
                              v1::GetResponse* response) {
  OperationOutcome outcome =
      router_.ExecuteOne(request->namespace_(), KeyOperation(wire::Opcode::kGet, request->key()),
                         kCallValueBytesMax, DeadlineOf(*call));
  const Status status = StatusOf(outcome, request->namespace_(), request->key());
  if (!status.ok()) return convert::ToGrpc(status);
  v1::Record* record = response->mutable_record();
  record->set_key(request->key());
  record->set_value_kind(static_cast<v1::ValueKind>(outcome.value_kind));
  record->set_version(outcome.version.value());
  record->set_value_bytes(outcome.value_omitted ? outcome.number : outcome.value.size());
  record->set_value_omitted(outcome.value_omitted);
  record->set_value(std::move(outcome.value));
  return grpc::Status::OK;
}

grpc::Status DataService::Put(grpc::ServerContext* call, const v1::PutRequest* request,
                              v1::PutResponse* response) {
  v1::Operation message;
  message.set_kind(v1::OPERATION_KIND_PUT);
  message.set_key(request->key());
  message.set_value(request->value());
  message.set_value_kind(request->value_kind());
  message.set_condition(request->condition());
  message.set_version(request->version());
  if (request->has_ttl_ms()) message.set_ttl_ms(request->ttl_ms());
  const auto operation = FromProto(message);
  if (!operation.ok()) return convert::ToGrpc(operation.status());
  const OperationOutcome outcome = router_.ExecuteOne(request->namespace_(), *operation, 0,
                                                      WriteDeadlineOf(*call), DeadlineOf(*call));
  response->set_version(outcome.version.value());
  if (request->tell_receipt()) ToProto(outcome.receipt, response->mutable_receipt());
  return convert::ToGrpc(StatusOf(outcome, request->namespace_(), request->key()));
}

grpc::Status DataService::Delete(grpc::ServerContext* call, const v1::DeleteRequest* request,
                                 v1::DeleteResponse* response) {
  const OperationOutcome outcome =
      router_.ExecuteOne(request->namespace_(), KeyOperation(wire::Opcode::kDelete, request->key()),
                         0, WriteDeadlineOf(*call), DeadlineOf(*call));
  response->set_version(outcome.version.value());
  if (request->tell_receipt()) ToProto(outcome.receipt, response->mutable_receipt());
  return convert::ToGrpc(StatusOf(outcome, request->namespace_(), request->key()));
}

Status DataService::ExecuteAddressed(const v1::ExecuteRequest& request,
                                     const std::vector<wire::Operation>& operations,
                                     Deadline deadline, std::vector<OperationOutcome>* outcomes) {
  const PartitionId id(NamespaceId(request.addressed().namespace_id()),
                       request.addressed().partition());
  const placement::PlacementMapPtr map = router_.context().map();
  const placement::PartitionPlace* place = map == nullptr ? nullptr : map->Find(id);
  if (place == nullptr || place->node != router_.context().self()) {
    return Status(StatusCode::kWrongEpoch, "this node does not own the partition");
  }
  const auto bounded = [](std::uint64_t asked, std::size_t otherwise) {
    return asked == 0 ? otherwise : std::min<std::size_t>(asked, kCallAnswerBytesMax);
  };
  auto result = router_.context().cores->Execute(
      place->core, id, Term(request.addressed().term()), operations,
      bounded(request.value_bytes_max(), kCallValueBytesMax), deadline,
      request.has_answer_bytes_max() ? bounded(request.answer_bytes_max(), 0)
                                     : kCallAnswerBytesMax);
  if (!result.ok()) return result.status();
  *outcomes = *std::move(result);
  return OkStatus();
}

grpc::Status DataService::Execute(grpc::ServerContext* call, const v1::ExecuteRequest* request,
                                  v1::ExecuteResponse* response) {
  if (static_cast<std::size_t>(request->operations_size()) > kCallOperationsMax) {
    return convert::ToGrpc(
        Status(StatusCode::kInvalidArgument,
               std::to_string(request->operations_size()) + " operations in one call",
               "ask for at most " + std::to_string(kCallOperationsMax)));
  }
  std::vector<wire::Operation> operations;
  // Expected and new value, or function and argument, concatenated like on the wire.
  std::vector<std::string> joined;
  joined.reserve(static_cast<std::size_t>(request->operations_size()));
  for (const v1::Operation& message : request->operations()) {
    auto operation = FromProto(message);
    if (!operation.ok()) return convert::ToGrpc(operation.status());
    if (operation->opcode == wire::Opcode::kCompareAndSwap) {
      operation->value = AsBytes(joined.emplace_back(message.expected() + message.value()));
      operation->set(wire::Argument::kExpectedBytes, message.expected().size());
    }
    if (operation->opcode == wire::Opcode::kApply) {
      operation->value = AsBytes(joined.emplace_back(message.function() + message.value()));
      operation->set(wire::Argument::kExpectedBytes, message.function().size());
    }
    operations.push_back(*operation);
  }
  std::vector<OperationOutcome> outcomes;
  if (request->has_addressed()) {
    const Status status = ExecuteAddressed(*request, operations, WorkDeadlineOf(*call), &outcomes);
    if (!status.ok()) return convert::ToGrpc(status);
  } else {
    outcomes = router_.Execute(request->namespace_(), operations, kCallValueBytesMax,
                               WriteDeadlineOf(*call), DeadlineOf(*call));
  }
  wire::Receipt receipt;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    receipt.Add(outcomes[i].receipt);
    ToProto(outcomes[i], operations[i].opcode, response->add_results());
  }
  if (request->tell_receipt() && receipt.level != wire::ReceiptLevel::kNone) {
    ToProto(receipt, response->mutable_receipt());
  }
  return grpc::Status::OK;
}

grpc::Status DataService::Length(grpc::ServerContext* call, const v1::LengthRequest* request,
                                 v1::LengthResponse* response) {
  auto space = router_.FindNamespace(request->namespace_());
  if (!space.ok()) return convert::ToGrpc(space.status());
  wire::Operation length;
  length.opcode = wire::Opcode::kLength;
  std::uint64_t records = 0;
  const Deadline deadline = DeadlineOf(*call);
  for (std::uint32_t i = 0; i < (*space)->partitions.size(); ++i) {
    const auto outcomes = router_.ExecuteAt(**space, i, {length}, 0, deadline);
    if (outcomes.code() == StatusCode::kWrongEpoch && !deadline.Passed()) {
      // Another map may have other ranges: it is asked as a whole.
      router_.context().refresh_map(router_.context().map()->epoch, deadline);
      space = router_.FindNamespace(request->namespace_());
      if (!space.ok()) return convert::ToGrpc(space.status());
      records = 0;
      i = ~0u;
      continue;
    }
    if (!outcomes.ok()) return convert::ToGrpc(outcomes.status());
    records += outcomes->front().number;
  }
  const auto internal = staging::InternalRecords(&router_, *space, true);
  if (!internal.ok()) return convert::ToGrpc(internal.status());
  response->set_records(records - std::min(records, *internal));
  return grpc::Status::OK;
}

grpc::Status DataService::Locate(grpc::ServerContext* /*call*/, const v1::LocateRequest* request,
                                 v1::LocateResponse* response) {
  const auto space = router_.FindNamespace(request->namespace_());
  if (!space.ok()) return convert::ToGrpc(space.status());
  const std::uint32_t index = (*space)->IndexOf(AsBytes(request->key()));
  const placement::PartitionPlace& place = (*space)->partitions[index];
  response->set_partition(index);
  response->set_node_id(place.node.value());
  response->set_core(place.core.value());
  response->set_term(place.term.value());
  if (const auto& ranges = (*space)->ranges; ranges != nullptr) {
    response->set_range_begin(ranges->BeginOf(index));
    if (const std::string* end = ranges->EndOf(index)) response->set_range_end(*end);
  }
  if (const placement::Node* node = router_.context().map()->FindNode(place.node);
      node != nullptr) {
    response->set_control_address(node->control_address);
    response->set_host(node->host);
    response->set_node_state(std::string(placement::NodeStateName(node->state)));
  }
  return grpc::Status::OK;
}

}  // namespace tidepool::daemon
