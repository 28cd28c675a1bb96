#include "daemon/services/bulk_service.h"

#include <grpcpp/client_context.h>
#include <grpcpp/support/sync_stream.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "daemon/core/call_bounds.h"
#include "daemon/routing/call_deadline.h"
#include "daemon/routing/operation_convert.h"
#include "proto/base/glob.h"
#include "proto/base/limits.h"
#include "proto/convert/grpc_status.h"
#include "proto/convert/staged_keys.h"
#include "proto/stage/cluster.h"
#include "proto/stage/survey.h"
#include "proto/wire/ordered_ops.h"
#include "proto/wire/record_list.h"

namespace tidepool::daemon {
namespace {

// Larger values of a scan are left out and read by key. Values of a step beyond this total are left
// out too.
constexpr std::size_t kScannedValueBytesMax = kCallValueBytesMax;
constexpr std::size_t kScannedBytesMax = 2 * kCallValueBytesMax;
constexpr std::uint64_t kScanRecords = 1'024;

// Position of a scan: {namespace id:4, partition:4, cursor:8}. In an ordered namespace the key
// follows, because partitions may be split meanwhile.
struct ScanHeader {
  std::uint32_t space = 0;
  std::uint32_t partition = 0;  // In an ordered namespace: kBehindKey, kFromKey or kThrough.
  std::uint64_t cursor = 0;
};
static_assert(sizeof(ScanHeader) == 16);
constexpr std::uint32_t kFromKey = 0;
constexpr std::uint32_t kBehindKey = 1;
constexpr std::uint32_t kThrough = 2;

struct ScanCursor {
  ScanHeader at;
  std::string key;

  bool done(const placement::Namespace& space) const {
    return at.partition == (space.ranges != nullptr ? kThrough : space.partitions.size());
  }
  // The partition that the next step asks.
  std::uint32_t Partition(const placement::Namespace& space) const {
    return space.ranges != nullptr ? space.ranges->IndexOf(AsBytes(key)) : at.partition;
  }
};

std::string EncodeCursor(const ScanCursor& cursor) {
  return std::string(reinterpret_cast<const char*>(&cursor.at), sizeof cursor.at) + cursor.key;
}

Status DecodeCursor(const std::string& bytes, const placement::Namespace& space,
                    ScanCursor* cursor) {
  if (bytes.empty()) {
    *cursor = {{space.id.value(), 0, 0}, {}};
    return OkStatus();
  }
  const bool has_key = space.ranges != nullptr;
  if (bytes.size() == sizeof cursor->at || (has_key && bytes.size() > sizeof cursor->at)) {
    std::memcpy(&cursor->at, bytes.data(), sizeof cursor->at);
    cursor->key = bytes.substr(sizeof cursor->at);
    const std::size_t places = has_key ? kThrough : space.partitions.size();
    if (cursor->at.space == space.id.value() && cursor->at.partition <= places &&
        cursor->key.size() <= limits::kKeyBytesMax) {
      return OkStatus();
    }
  }
  return Status(StatusCode::kInvalidArgument, "this cursor is not of this namespace",
                "start the scan without one");
}

// Moves behind a partition that cannot be had.
void PassOver(const placement::Namespace& space, std::uint32_t partition, ScanCursor* cursor) {
  cursor->at.cursor = 0;
  if (space.ranges == nullptr) {
    ++cursor->at.partition;
    return;
  }
  const std::string* end = space.ranges->EndOf(partition);
  cursor->at.partition = end == nullptr ? kThrough : kFromKey;
  cursor->key = end == nullptr ? std::string() : *end;
}

v1::MissingPart MissingPartOf(const placement::Node* owner, NodeId id, const Status& why) {
  v1::MissingPart missing;
  missing.set_node_id(id.value());
  missing.set_node(owner == nullptr ? "node " + std::to_string(id.value())
                                    : stage::Describe(*owner));
  missing.set_partitions(1);
  missing.set_code(static_cast<std::uint32_t>(why.code()));
  missing.set_why(std::string(why.what()));
  return missing;
}

// Returns the operation of a step on its partition.
wire::Operation StepOf(const placement::Namespace& space, const v1::ScanPartitionRequest& request) {
  wire::Operation step;
  step.set(wire::Argument::kOperand, request.records_max());
  if (space.ranges == nullptr) {
    step.opcode = wire::Opcode::kIterate;
    step.set(wire::Argument::kCursor, request.cursor());
    step.set(wire::Argument::kOptions, request.keys_only() ? wire::kIterateKeysOnly : 0);
    return step;
  }
  step.opcode = wire::Opcode::kScan;
  step.key = AsBytes(request.from_key());
  step.set(wire::Argument::kOptions, (request.keys_only() ? wire::kScanKeysOnly : 0) |
                                         (request.behind_key() ? wire::kRangeAfterBegin : 0));
  return step;
}

// The end of the answer to a Scan, behind its list of records.
std::size_t RestBytes(const OperationOutcome& outcome) {
  return std::min<std::size_t>(outcome.number, outcome.value.size());
}

// Where an ordered scan goes on.
Status TakeRest(const OperationOutcome& outcome, Bytes last_key,
                v1::ScanPartitionResponse* response) {
  const auto rest = wire::LoadRangeRest(AsBytes(outcome.value).last(RestBytes(outcome)));
  if (!rest.ok()) return rest.status();
  const bool behind_listed = rest->kind == wire::RangeRest::Kind::kBehindListed;
  response->set_cursor(rest->kind == wire::RangeRest::Kind::kDone ? 0 : 1);
  response->set_next_key(std::string(AsText(behind_listed ? last_key : rest->key)));
  response->set_next_behind(rest->kind != wire::RangeRest::Kind::kFromKey);
  return OkStatus();
}

bool IsInternal(Bytes key) {
  const convert::StagedRole role = convert::ParseStagedKey(AsText(key)).role;
  return role == convert::StagedRole::kManifest || role == convert::StagedRole::kPart;
}

// Listing of a step.
struct Listing {
  OperationOutcome outcome;
  std::vector<wire::ListedRecord> matches;  // Views of `outcome`.
  Bytes last_key;                           // Last key of all records.
  // Number of records up to the last wanted record; 0 if there are not more than wanted.
  std::uint64_t wanted_records = 0;
  std::uint64_t unreadable = 0;
};

Status ListMatches(const placement::Namespace& space, const v1::ScanPartitionRequest& request,
                   Listing* listing) {
  Bytes rest = AsBytes(listing->outcome.value);
  if (space.ranges != nullptr) rest = rest.first(rest.size() - RestBytes(listing->outcome));
  for (std::uint64_t records = 1; !rest.empty(); ++records) {
    wire::ListedRecord listed;
    TP_RETURN_IF_ERROR(wire::TakeRecord(&rest, &listed));
    listing->unreadable += listed.unreadable;
    if (listed.unreadable > 0) continue;
    listing->last_key = listed.key;
    if (!request.include_internal() && IsInternal(listed.key)) continue;
    if (!request.glob().empty() && !GlobMatches(request.glob(), AsText(listed.key))) continue;
    listing->matches.push_back(listed);
    if (listing->matches.size() == request.matches_max()) listing->wanted_records = records;
  }
  if (listing->matches.size() <= request.matches_max()) listing->wanted_records = 0;
  return OkStatus();
}

v1::Record RecordOf(const wire::ListedRecord& listed, std::uint64_t now_ms) {
  v1::Record record;
  record.set_key(listed.key.data(), listed.key.size());
  record.set_value(listed.value.data(), listed.value.size());
  record.set_value_bytes(listed.value_omitted ? listed.value_bytes : listed.value.size());
  record.set_value_omitted(listed.value_omitted);
  record.set_value_kind(static_cast<v1::ValueKind>(listed.value_kind));
  record.set_version(listed.version.value());
  if (listed.expiry_ms > now_ms) record.set_ttl_ms(listed.expiry_ms - now_ms);
  return record;
}

}  // namespace

grpc::Status BulkService::Load(
    grpc::ServerContext* /*call*/,
    grpc::ServerReaderWriter<v1::LoadResponse, v1::LoadRequest>* stream) {
  v1::LoadRequest request;
  std::string space;
  while (stream->Read(&request)) {
    if (!request.namespace_().empty()) space = request.namespace_();
    const auto found = router_.FindNamespaceFor(space, "load", wire::kRecordKinds);
    if (!found.ok()) return convert::ToGrpc(found.status());
    if (static_cast<std::size_t>(request.records_size()) > kLoadRecordsMax) {
      return convert::ToGrpc(
          Status(StatusCode::kInvalidArgument,
                 std::to_string(request.records_size()) + " records in one message",
                 "send at most " + std::to_string(kLoadRecordsMax)));
    }
    v1::LoadResponse response;
    response.set_batch(request.batch());
    std::size_t text_bytes = 0;
    const auto fail = [&](int index, const Status& status) {
      auto* failure = response.add_failures();
      failure->set_index(static_cast<std::uint32_t>(index));
      failure->mutable_status()->set_code(static_cast<std::uint32_t>(status.code()));
      // For this number of failures, the code suffices.
      std::string text = status.ToString();
      if (text_bytes + text.size() > kLoadTextBytesMax) return;
      text_bytes += text.size();
      failure->mutable_status()->set_message(std::move(text));
    };
    std::vector<wire::Operation> puts;
    std::vector<int> indices;
    for (int i = 0; i < request.records_size(); ++i) {
      const auto put = PutOf(request.records(i));
      if (!put.ok()) {
        fail(i, put.status());
        continue;
      }
      puts.push_back(*put);
      indices.push_back(i);
    }
    for (std::size_t first = 0; first < puts.size(); first += kCallOperationsMax) {
      const std::size_t end = std::min(puts.size(), first + kCallOperationsMax);
      const std::vector<wire::Operation> some(puts.begin() + static_cast<std::ptrdiff_t>(first),
                                              puts.begin() + static_cast<std::ptrdiff_t>(end));
      const auto outcomes = router_.Execute(space, some, 0, RoomDeadline());
      for (std::size_t i = 0; i < outcomes.size(); ++i) {
        const int index = indices[first + i];
        const Status status = StatusOf(outcomes[i], space, request.records(index).key());
        if (!status.ok()) fail(index, status);
      }
    }
    response.set_records_loaded(
        static_cast<std::uint64_t>(request.records_size() - response.failures_size()));
    if (!stream->Write(response)) break;
  }
  return grpc::Status::OK;
}

Status BulkService::ScanLocal(const placement::Namespace& space, std::uint32_t partition,
                              const v1::ScanPartitionRequest& request, Deadline deadline,
                              v1::ScanPartitionResponse* response) {
  const placement::PartitionPlace& place = space.partitions[partition];
  CoreGroup& cores = *router_.context().cores;
  const PartitionId id(space.id, partition);
  wire::Operation step = StepOf(space, request);
  Listing listing;
  for (;;) {
    auto outcomes = cores.Execute(place.core, id, place.term, {step}, 0, deadline);
    if (!outcomes.ok()) return outcomes.status();
    listing = Listing();
    listing.outcome = std::move(outcomes->front());
    TP_RETURN_IF_ERROR(StatusOf(listing.outcome, space.name, {}));
    TP_RETURN_IF_ERROR(ListMatches(space, request, &listing));
    // The step returned too many records. A cursor stands at the end of a step, so a shorter step
    // runs again. Each retry is shorter; keys with equal hashes stay together.
    if (listing.wanted_records == 0 ||
        listing.wanted_records >= step.get(wire::Argument::kOperand)) {
      break;
    }
    step.set(wire::Argument::kOperand, listing.wanted_records);
  }
  response->set_unreadable(listing.unreadable);
  const std::uint64_t now_ms = Clock::Real().WallMs();
  std::size_t fetched_bytes = 0;
  for (const wire::ListedRecord& listed : listing.matches) {
    v1::Record* record = response->add_records();
    *record = RecordOf(listed, now_ms);
    if (request.keys_only() || !listed.value_omitted ||
        listed.value_bytes > kScannedValueBytesMax ||
        fetched_bytes + listed.value_bytes > kScannedBytesMax) {
      continue;
    }
    // Too large for the list but not for the message: fetched by its key.
    wire::Operation get;
    get.opcode = wire::Opcode::kGet;
    get.key = listed.key;
    auto values = cores.Execute(place.core, id, place.term, {get}, kScannedValueBytesMax, deadline);
    if (!values.ok()) return values.status();
    if (values->front().code != StatusCode::kOk || values->front().value_omitted) continue;
    fetched_bytes += values->front().value.size();
    record->set_version(values->front().version.value());
    record->set_value_bytes(values->front().value.size());
    record->set_value(std::move(values->front().value));
    record->set_value_omitted(false);
  }
  if (space.ranges != nullptr) return TakeRest(listing.outcome, listing.last_key, response);
  response->set_cursor(listing.outcome.number);
  return OkStatus();
}

Status BulkService::ScanStep(const placement::Namespace& space, std::uint32_t partition,
                             const v1::ScanPartitionRequest& request, Deadline deadline,
                             v1::ScanPartitionResponse* response) {
  const placement::PartitionPlace& place = space.partitions[partition];
  TP_RETURN_IF_ERROR(router_.CheckPlace(space, place));
  const RouterContext& context = router_.context();
  if (place.node == context.self()) {
    return ScanLocal(space, partition, request, deadline, response);
  }
  const placement::PlacementMapPtr map = context.map();
  const placement::Node* node = map->FindNode(place.node);
  if (node == nullptr) return Status(StatusCode::kWrongEpoch, "the owner is not in the map yet");
  grpc::ClientContext call;
  call.set_deadline(std::chrono::system_clock::now() + std::chrono::nanoseconds(deadline.LeftNs()));
  context.authorize(call);
  v1::ScanPartitionRequest forwarded = request;
  forwarded.set_namespace_id(space.id.value());
  forwarded.set_partition(partition);
  forwarded.set_term(place.term.value());
  const auto stub = v1::Bulk::NewStub(context.channel(*node));
  return convert::FromGrpc(stub->ScanPartition(&call, forwarded, response),
                           "node " + std::to_string(place.node.value()));
}

grpc::Status BulkService::ScanPartition(grpc::ServerContext* call,
                                        const v1::ScanPartitionRequest* request,
                                        v1::ScanPartitionResponse* response) {
  const placement::PlacementMapPtr map = router_.context().map();
  const auto space = map == nullptr ? nullptr : map->Find(NamespaceId(request->namespace_id()));
  if (space == nullptr || request->partition() >= space->partitions.size() ||
      space->partitions[request->partition()].node != router_.context().self() ||
      space->partitions[request->partition()].term != Term(request->term())) {
    return convert::ToGrpc(
        Status(StatusCode::kWrongEpoch, "this node does not own the partition under this term"));
  }
  return convert::ToGrpc(
      ScanLocal(*space, request->partition(), *request, DeadlineOf(*call), response));
}

grpc::Status BulkService::Scan(grpc::ServerContext* call, const v1::ScanRequest* request,
                               grpc::ServerWriter<v1::ScanResponse>* writer) {
  auto space = router_.FindNamespaceFor(request->namespace_(), "this", wire::kRecordKinds);
  if (!space.ok()) return convert::ToGrpc(space.status());
  ScanCursor cursor;
  if (const Status status = DecodeCursor(request->cursor(), **space, &cursor); !status.ok()) {
    return convert::ToGrpc(status);
  }
  std::uint64_t left = request->limit() == 0 ? ~0ull : request->limit();
  std::map<NodeId, Status> gone;  // With partial_ok: nodes that are not asked again.
  while (!cursor.done(**space) && left > 0) {
    if (call->IsCancelled()) return grpc::Status(grpc::StatusCode::CANCELLED, "cancelled");
    v1::ScanPartitionRequest step;
    // With a pattern the scan may skip most records, so the limit cannot bound the step.
    step.set_records_max(request->glob().empty() ? std::min(left, kScanRecords) : kScanRecords);
    step.set_matches_max(std::min(left, kScanRecords));
    step.set_cursor(cursor.at.cursor);
    step.set_from_key(cursor.key);
    step.set_behind_key(cursor.at.partition == kBehindKey);
    step.set_keys_only(request->keys_only());
    step.set_glob(request->glob());
    step.set_include_internal(request->include_internal());
    v1::ScanPartitionResponse part;
    const std::uint32_t partition = cursor.Partition(**space);
    const NodeId owner = (*space)->partitions[partition].node;
    const auto known_gone = gone.find(owner);
    const Status status = known_gone != gone.end()
                              ? known_gone->second
                              : ScanStep(**space, partition, step, StepDeadline(), &part);
    if (status.code() == StatusCode::kWrongEpoch) {
      // The partition goes on under another term or elsewhere; the cursor holds.
      router_.context().refresh_map(router_.context().map()->epoch, StepDeadline());
      auto again = router_.FindNamespace(request->namespace_());
      if (!again.ok()) return convert::ToGrpc(again.status());
      if ((*again)->id != (*space)->id) {
        return convert::ToGrpc(
            Status(StatusCode::kNotFound, "the namespace was dropped during the scan"));
      }
      space = std::move(again);
      continue;
    }
    if (request->partial_ok() && stage::IsOfNode(status.code())) {
      // A lost partition says nothing about the other partitions of its node.
      if (status.code() != StatusCode::kDataLoss) gone.emplace(owner, status);
      PassOver(**space, partition, &cursor);
      v1::ScanResponse passed;
      *passed.mutable_missing() =
          MissingPartOf(router_.context().map()->FindNode(owner), owner, status);
      passed.set_partitions(static_cast<std::uint32_t>((*space)->partitions.size()));
      passed.set_cursor(EncodeCursor(cursor));
      passed.set_done(cursor.done(**space));
      if (!writer->Write(passed)) return grpc::Status(grpc::StatusCode::CANCELLED, "cancelled");
      continue;
    }
    if (!status.ok()) return convert::ToGrpc(status);
    if ((*space)->ranges != nullptr) {
      cursor.at.partition = part.cursor() == 0   ? kThrough
                            : part.next_behind() ? kBehindKey
                                                 : kFromKey;
      cursor.key = part.next_key();
    } else {
      cursor.at.cursor = part.cursor();
      if (part.cursor() == 0) ++cursor.at.partition;
    }
    v1::ScanResponse response;
    response.mutable_records()->Swap(part.mutable_records());
    response.set_unreadable(part.unreadable());
    left -= std::min(left, static_cast<std::uint64_t>(response.records_size()));
    response.set_cursor(EncodeCursor(cursor));
    response.set_done(cursor.done(**space));
    if (!writer->Write(response)) return grpc::Status(grpc::StatusCode::CANCELLED, "cancelled");
  }
  return grpc::Status::OK;
}

}  // namespace tidepool::daemon
