// Values too large for a message, written and read as streams: here, or at the owner's daemon.
#include <grpcpp/client_context.h>
#include <grpcpp/support/sync_stream.h>

#include <string>
#include <utility>

#include "daemon/core/local_values.h"
#include "daemon/routing/call_deadline.h"
#include "daemon/routing/operation_convert.h"
#include "daemon/services/bulk_service.h"
#include "proto/base/limits.h"
#include "proto/convert/grpc_status.h"

namespace tidepool::daemon {
namespace {

constexpr std::size_t kPieceBytes = 1024 * 1024;

std::uint32_t PartitionOf(const placement::Namespace& space, const std::string& key) {
  return space.IndexOf(AsBytes(key));
}

Status BrokenStream() {
  return Status(StatusCode::kCancelled, "the stream broke before its end; nothing was written");
}

}  // namespace

// Before a value of up to 1 GiB is sent in vain. The put looks again.
Status BulkService::CheckCondition(const placement::Namespace& space, std::uint32_t partition,
                                   const v1::WriteValueRequest::Start& start) {
  if (start.condition() == v1::PUT_CONDITION_ALWAYS) return OkStatus();
  wire::Operation contains;
  contains.opcode = wire::Opcode::kContains;
  contains.key = AsBytes(start.key());
  auto outcomes = router_.ExecuteAt(space, partition, {contains}, 0, StepDeadline(),
                                    /*is_users=*/false);
  if (!outcomes.ok()) return outcomes.status();
  OperationOutcome& outcome = outcomes->front();
  if (outcome.code == StatusCode::kNotFound && start.condition() == v1::PUT_CONDITION_IF_ABSENT) {
    return OkStatus();
  }
  if (outcome.code == StatusCode::kOk && start.condition() == v1::PUT_CONDITION_IF_ABSENT) {
    outcome.code = StatusCode::kAlreadyExists;
  } else if (outcome.code == StatusCode::kOk && start.condition() == v1::PUT_CONDITION_IF_VERSION &&
             outcome.version != Lsn(start.version())) {
    outcome.code = StatusCode::kFailedPrecondition;
  }
  return StatusOf(outcome, space.name, start.key());
}

Status BulkService::WriteLocal(grpc::ServerContext* call, const placement::Namespace& space,
                               std::uint32_t partition, v1::WriteValueRequest message,
                               grpc::ServerReader<v1::WriteValueRequest>* reader,
                               v1::WriteValueResponse* response) {
  const v1::WriteValueRequest::Start start = message.start();
  const placement::PartitionPlace& place = space.partitions[partition];
  TP_RETURN_IF_ERROR(CheckCondition(space, partition, start));
  auto writer = LocalValueWriter::Begin(*router_.context().cores, place.core, start.total_bytes(),
                                        RoomDeadlineOf(*call));
  if (!writer.ok()) return writer.status();
  do {
    if (message.data().empty()) continue;
    TP_RETURN_IF_ERROR(writer->Write(std::move(*message.mutable_data()), StepDeadline()));
  } while (reader->Read(&message));
  if (writer->written_bytes() != start.total_bytes()) return BrokenStream();
  wire::Operation put;
  put.opcode = wire::Opcode::kPut;
  put.key = AsBytes(start.key());
  put.value_kind = static_cast<wire::ValueKind>(start.value_kind());
  if (start.has_ttl_ms()) put.set(wire::Argument::kTtlMs, start.ttl_ms());
  put.condition = static_cast<wire::PutCondition>(start.condition());
  if (put.condition == wire::PutCondition::kIfVersion) {
    put.set(wire::Argument::kVersion, start.version());
  }
  auto outcome =
      writer->Put(PartitionId(space.id, partition), place.term, put, RoomDeadlineOf(*call));
  if (!outcome.ok()) return outcome.status();
  response->set_version(outcome->version.value());
  ToProto(outcome->receipt, response->mutable_receipt());
  return StatusOf(*outcome, space.name, start.key());
}

Status BulkService::WriteRemote(grpc::ServerContext* call, const placement::Node& node,
                                v1::WriteValueRequest message,
                                grpc::ServerReader<v1::WriteValueRequest>* reader,
                                v1::WriteValueResponse* response) {
  const auto context = grpc::ClientContext::FromServerContext(*call);
  router_.context().authorize(*context);
  const auto stub = v1::Bulk::NewStub(router_.context().channel(node));
  const auto writer = stub->WriteValue(context.get(), response);
  do {
    if (!writer->Write(message)) break;
  } while (reader->Read(&message));
  writer->WritesDone();
  return convert::FromGrpc(writer->Finish(), "node " + std::to_string(node.id.value()));
}

grpc::Status BulkService::WriteValue(grpc::ServerContext* call,
                                     grpc::ServerReader<v1::WriteValueRequest>* reader,
                                     v1::WriteValueResponse* response) {
  v1::WriteValueRequest message;
  if (!reader->Read(&message) || !message.has_start()) {
    return convert::ToGrpc(
        Status(StatusCode::kInvalidArgument, "the first message of WriteValue must hold `start`"));
  }
  const v1::WriteValueRequest::Start& start = message.start();
  if (start.total_bytes() > limits::kValueBytesMax || start.key().size() > limits::kKeyBytesMax ||
      start.value_kind() < v1::VALUE_KIND_BYTES || start.value_kind() > v1::VALUE_KIND_F64 ||
      start.condition() < v1::PUT_CONDITION_ALWAYS ||
      start.condition() > v1::PUT_CONDITION_IF_VERSION) {
    return convert::ToGrpc(Status(StatusCode::kInvalidArgument,
                                  "key, value, kind or condition is out of bounds",
                                  "keys have at most 16384 bytes, values 1 GiB"));
  }
  const auto space = router_.FindNamespaceFor(start.namespace_(), "put", wire::kRecordKinds);
  if (!space.ok()) return convert::ToGrpc(space.status());
  const std::uint32_t partition = PartitionOf(**space, start.key());
  const placement::PartitionPlace& place = (*space)->partitions[partition];
  if (const Status status = router_.CheckPlace(**space, place); !status.ok()) {
    return convert::ToGrpc(status);
  }
  if (place.node == router_.context().self()) {
    return convert::ToGrpc(
        WriteLocal(call, **space, partition, std::move(message), reader, response));
  }
  const placement::PlacementMapPtr map = router_.context().map();
  const placement::Node* node = map->FindNode(place.node);
  if (node == nullptr) {
    return convert::ToGrpc(Status(StatusCode::kUnavailable, "the owner is not in the map yet"));
  }
  return convert::ToGrpc(WriteRemote(call, *node, std::move(message), reader, response));
}

Status BulkService::ReadLocal(const placement::Namespace& space, std::uint32_t partition,
                              const v1::ReadValueRequest& request,
                              grpc::ServerWriter<v1::ReadValueResponse>* writer) {
  const placement::PartitionPlace& place = space.partitions[partition];
  auto reader =
      LocalValueReader::Open(*router_.context().cores, place.core, PartitionId(space.id, partition),
                             place.term, request.key(), StepDeadline());
  if (!reader.ok()) return reader.status();
  TP_RETURN_IF_ERROR(StatusOf(reader->outcome(), space.name, request.key()));
  v1::ReadValueResponse response;
  response.set_total_bytes(reader->value_bytes());
  response.set_version(reader->outcome().version.value());
  response.set_value_kind(static_cast<v1::ValueKind>(reader->outcome().value_kind));
  std::uint64_t offset = 0;
  do {
    auto piece = reader->Read(offset, kPieceBytes, StepDeadline());
    if (!piece.ok()) return piece.status();
    offset += piece->size();
    response.set_data(*std::move(piece));
    if (!writer->Write(response)) return Status(StatusCode::kCancelled, "the reader went away");
    response.Clear();
  } while (offset < reader->value_bytes());
  return OkStatus();
}

Status BulkService::ReadRemote(grpc::ServerContext* call, const placement::Node& node,
                               const v1::ReadValueRequest& request,
                               grpc::ServerWriter<v1::ReadValueResponse>* writer) {
  const auto context = grpc::ClientContext::FromServerContext(*call);
  router_.context().authorize(*context);
  const auto stub = v1::Bulk::NewStub(router_.context().channel(node));
  const auto reader = stub->ReadValue(context.get(), request);
  v1::ReadValueResponse response;
  while (reader->Read(&response)) {
    if (!writer->Write(response)) {
      context->TryCancel();
      break;
    }
  }
  return convert::FromGrpc(reader->Finish(), "node " + std::to_string(node.id.value()));
}

grpc::Status BulkService::ReadValue(grpc::ServerContext* call, const v1::ReadValueRequest* request,
                                    grpc::ServerWriter<v1::ReadValueResponse>* writer) {
  const auto space = router_.FindNamespaceFor(request->namespace_(), "get", wire::kRecordKinds);
  if (!space.ok()) return convert::ToGrpc(space.status());
  const std::uint32_t partition = PartitionOf(**space, request->key());
  const placement::PartitionPlace& place = (*space)->partitions[partition];
  if (const Status status = router_.CheckPlace(**space, place); !status.ok()) {
    return convert::ToGrpc(status);
  }
  if (place.node == router_.context().self()) {
    const Epoch known = router_.context().map()->epoch;
    Status status = ReadLocal(**space, partition, *request, writer);
    if (status.code() == StatusCode::kWrongEpoch) {
      // Nothing was sent: a range that was split a moment ago. Once more, by the newer map.
      router_.context().refresh_map(known, StepDeadline());
      const auto again = router_.FindNamespace(request->namespace_());
      if (!again.ok()) return convert::ToGrpc(again.status());
      const std::uint32_t now_at = PartitionOf(**again, request->key());
      if ((*again)->partitions[now_at].node == router_.context().self()) {
        status = ReadLocal(**again, now_at, *request, writer);
      }
    }
    return convert::ToGrpc(status);
  }
  const placement::PlacementMapPtr map = router_.context().map();
  const placement::Node* node = map->FindNode(place.node);
  if (node == nullptr) {
    return convert::ToGrpc(Status(StatusCode::kUnavailable, "the owner is not in the map yet"));
  }
  return convert::ToGrpc(ReadRemote(call, *node, *request, writer));
}

}  // namespace tidepool::daemon
