#include "daemon/local_operations.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "daemon/core.h"
#include "proto/base/key_hash.h"
#include "proto/base/limits.h"
#include "proto/wire/queue_ops.h"

namespace tidepool::daemon {
namespace {

// One call, owned by its task.
struct LocalBatch {
  PartitionId partition;
  Term term;
  std::size_t value_bytes_max = 0;
  Deadline deadline{0};
  std::vector<wire::Operation> operations;
  std::vector<std::string> storage;  // What the operations' views point to.
  std::vector<OperationOutcome> outcomes;
  Status status;
};

void CopyValue(const storage::ValueReader& reader, std::string* to) {
  to->reserve(reader.value_bytes());
  while (to->size() < reader.value_bytes()) {
    to->append(AsText(reader.Part(to->size(), reader.value_bytes())));
  }
}

OperationOutcome Outcome(storage::Partition& partition, const Reply& reply,
                         std::size_t value_bytes_max) {
  const wire::Answer& answer = reply.answer;
  OperationOutcome outcome;
  outcome.code = answer.code;
  outcome.value_kind = answer.value_kind;
  outcome.version = answer.version;
  outcome.has_number = answer.has_number;
  outcome.number = answer.number;
  outcome.value.assign(AsText(answer.value));
  const storage::StoredValue& stored = reply.stored;
  if (stored.value_bytes == 0) return outcome;
  if (stored.value_bytes > value_bytes_max) {
    outcome.value_omitted = true;
    outcome.has_number = true;
    outcome.number = stored.value_bytes;
  } else if (stored.extent == nullptr) {
    outcome.value.assign(AsText(stored.value));
  } else {
    CopyValue(storage::ValueReader::Pin(partition.store(), stored), &outcome.value);
  }
  return outcome;
}

void RunBatch(Core& core, LocalBatch& batch) {
  Ownership& ownership = core.dispatcher().ownership();
  if (batch.deadline.Passed()) {
    batch.status = Status(StatusCode::kDeadlineExceeded, "the core was busy; nothing was applied");
    return;
  }
  if (!core.lease().ValidAt(Clock::Real().MonotonicNs())) {
    batch.status = Status(StatusCode::kUnavailable, "this node's lease has run out");
    return;
  }
  const Verdict verdict = ownership.Check(batch.partition, batch.term);
  if (verdict.kind != Verdict::Kind::kRun) {
    const StatusCode code =
        verdict.kind == Verdict::Kind::kWait ? StatusCode::kWrongEpoch : verdict.code;
    batch.status = Status(code, "partition " + std::to_string(batch.partition.index()) +
                                    " is not served here under this term");
    return;
  }
  const std::uint64_t now_ms = core.store().NowMs();
  // Items are delivered in lists only, so the list has room for the largest one that is wanted.
  const bool delivers =
      std::any_of(batch.operations.begin(), batch.operations.end(), [](const auto& operation) {
        return operation.opcode == wire::Opcode::kPop || operation.opcode == wire::Opcode::kPeek;
      });
  std::vector<std::byte> scratch(
      std::max(limits::kFrameBytesMax,
               delivers ? batch.value_bytes_max + wire::kDeliveredItemHeaderBytes : 0));
  bool changes = false;
  for (const wire::Operation& operation : batch.operations) {
    Reply reply;
    if (operation.has(wire::Argument::kUpload)) {
      reply.answer.code = StatusCode::kUnimplemented;
    } else {
      core.dispatcher().Execute({.partition = *verdict.partition,
                                 .operation = operation,
                                 .hash = KeyHash(operation.key),
                                 .now_ms = now_ms,
                                 .scratch = scratch,
                                 .store = core.store(),
                                 .may_stream = false,
                                 .functions = core.dispatcher().functions(),
                                 .executor = &core.dispatcher()},
                                &reply);
    }
    changes = changes || wire::InfoOf(operation.opcode).mutates;
    batch.outcomes.push_back(Outcome(*verdict.partition, reply, batch.value_bytes_max));
  }
  core.dispatcher().CountLocal(batch.operations.size());
  if (changes) core.dispatcher().Wake(batch.partition);
  if (!core.lease().ValidAt(Clock::Real().MonotonicNs())) {
    batch.status = Status(StatusCode::kUnknown, "this node's lease ran out meanwhile");
  }
}

}  // namespace

Result<std::vector<OperationOutcome>> ExecuteLocal(CoreGroup& cores, CoreId core,
                                                   PartitionId partition, Term term,
                                                   const std::vector<wire::Operation>& operations,
                                                   std::size_t value_bytes_max, Deadline deadline) {
  auto batch = std::make_shared<LocalBatch>();
  batch->partition = partition;
  batch->term = term;
  batch->value_bytes_max = value_bytes_max;
  batch->deadline = deadline;
  batch->operations = operations;
  batch->storage.reserve(2 * operations.size());  // Views must not move.
  for (wire::Operation& operation : batch->operations) {
    operation.key = AsBytes(batch->storage.emplace_back(AsText(operation.key)));
    operation.value = AsBytes(batch->storage.emplace_back(AsText(operation.value)));
  }
  const Status status = cores.Run(
      core, [batch](Core& at) { RunBatch(at, *batch); }, deadline);
  if (status.code() == StatusCode::kDeadlineExceeded) {
    const bool changes =
        std::any_of(operations.begin(), operations.end(),
                    [](const auto& operation) { return wire::InfoOf(operation.opcode).mutates; });
    if (changes) {
      return Status(StatusCode::kUnknown,
                    "the owner core did not answer in time; the change may or may not have "
                    "happened",
                    "read the key to find out");
    }
  }
  TP_RETURN_IF_ERROR(status);
  TP_RETURN_IF_ERROR(batch->status);
  return std::move(batch->outcomes);
}

}  // namespace tidepool::daemon
