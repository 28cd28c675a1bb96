#include "daemon/core/local_operations.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "daemon/core/call_bounds.h"
#include "daemon/core/core.h"
#include "daemon/core/room_waiters.h"
#include "proto/base/key_hash.h"
#include "proto/base/limits.h"
#include "proto/convert/staged_keys.h"
#include "proto/wire/queue_ops.h"

namespace tidepool::daemon {
namespace {

// A slice of one call, owned by its task.
struct Slice {
  PartitionId partition;
  Term term;
  std::size_t value_bytes_max = 0;
  std::size_t answer_bytes_max = 0;  // For all outcomes together.
  Deadline deadline{0};
  std::vector<wire::Operation> operations;
  std::vector<std::string> storage;  // Data of the operations' views.
  // Fewer than operations if they have many bytes; at least one unless `status` says why.
  std::vector<OperationOutcome> outcomes;
  bool is_users = true;
  std::atomic<std::size_t> done{0};  // Number of outcomes, for a caller that has given up waiting.
  std::size_t counted = 0;           // Operations up to the last that has waited for a device.
  Status status;
};

void CopyValue(const storage::ValueReader& reader, std::string* to) {
  to->reserve(reader.value_bytes());
  while (to->size() < reader.value_bytes()) {
    to->append(AsText(reader.Part(to->size(), reader.value_bytes())));
  }
}

// `left`: of the answer.
OperationOutcome Outcome(storage::Partition& partition, const Reply& reply,
                         std::size_t value_bytes_max, std::size_t left) {
  const wire::Answer& answer = reply.answer;
  OperationOutcome outcome;
  outcome.code = answer.code;
  outcome.value_kind = answer.value_kind;
  outcome.version = answer.version;
  outcome.has_number = answer.has_number;
  outcome.number = answer.number;
  // A longer value is a text, which was cut at the end of the room.
  if (answer.value.size() <= left) outcome.value.assign(AsText(answer.value));
  const storage::StoredValue& stored = reply.stored;
  if (stored.value_bytes == 0) return outcome;
  if (stored.value_bytes > std::min(value_bytes_max, left)) {
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

wire::ReceiptLevel LevelOf(storage::Durability durability) {
  switch (durability) {
    case storage::Durability::kVolatile:
      return wire::ReceiptLevel::kMemory;
    case storage::Durability::kAsync:
      return wire::ReceiptLevel::kNextCheckpoint;
    case storage::Durability::kSync:
      return wire::ReceiptLevel::kDevice;  // The caller is answered only after the commit.
  }
  return wire::ReceiptLevel::kMemory;
}

// Items are delivered in lists only, so the list has room for the largest item that is requested.
std::size_t ScratchBytes(const Slice& slice) {
  const bool delivers =
      std::any_of(slice.operations.begin(), slice.operations.end(), [](const auto& operation) {
        return operation.opcode == wire::Opcode::kPop || operation.opcode == wire::Opcode::kPeek;
      });
  return std::max(limits::kFrameBytesMax,
                  delivers ? slice.value_bytes_max + wire::kDeliveredItemHeaderBytes : 0);
}

Result<storage::Partition*> PartitionOf(Core& core, const Slice& slice) {
  if (slice.deadline.Passed()) {
    return Status(StatusCode::kDeadlineExceeded, "the core was busy; nothing was applied");
  }
  if (!core.lease().ValidAt(Clock::Real().MonotonicNs())) {
    return Status(StatusCode::kUnavailable, "this node's lease has run out");
  }
  const Verdict verdict = core.dispatcher().ownership().Check(slice.partition, slice.term);
  if (verdict.kind == Verdict::Kind::kRun) return verdict.partition;
  return Status(verdict.kind == Verdict::Kind::kWait ? StatusCode::kWrongEpoch : verdict.code,
                "partition " + std::to_string(slice.partition.index()) +
                    " is not served here under this term");
}

bool IsUsersRead(const Slice& slice, const wire::Operation& operation) {
  return slice.is_users && ReadsRecords(operation.opcode) && IsUsers(operation);
}

// Counts a device read once per operation.
void CountDeviceRead(Core& core, storage::Partition& partition, Slice* slice) {
  const std::size_t at = slice->outcomes.size();
  if (!core.store().blocked() || slice->counted > at) return;
  slice->counted = at + 1;
  if (!IsUsersRead(*slice, slice->operations[at])) return;
  partition.CountDeviceRead();
  core.dispatcher().meter().CountDeviceRead(partition);
}

void RunSlice(Core& core, Slice& slice) {
  const auto partition = PartitionOf(core, slice);
  if (!partition.ok()) {
    // Operations before the wait are done; the next slice reports the failure.
    if (slice.outcomes.empty()) slice.status = partition.status();
    return;
  }
  const std::uint64_t now_ms = core.store().NowMs();
  std::vector<std::byte> scratch(ScratchBytes(slice));
  std::size_t answered_bytes = 0;
  for (const OperationOutcome& outcome : slice.outcomes) answered_bytes += outcome.value.size();
  bool changes = false;
  while (slice.outcomes.size() < slice.operations.size()) {
    const wire::Operation& operation = slice.operations[slice.outcomes.size()];
    const std::size_t left = slice.answer_bytes_max - answered_bytes;
    Reply reply;
    if (operation.has(wire::Argument::kUpload)) {
      reply.answer.code = StatusCode::kUnimplemented;
    } else {
      core.dispatcher().runner().Execute(
          {.partition = **partition,
           .operation = operation,
           .hash = KeyHash(operation.key),
           .now_ms = now_ms,
           .scratch = MutableBytes(scratch.data(), std::min(scratch.size(), left)),
           .store = core.store(),
           .may_stream = false,
           .taken_bytes_max = std::min(slice.value_bytes_max, left),
           .functions = core.dispatcher().runner().functions(),
           .executor = &core.dispatcher().runner()},
          &reply);
    }
    const bool refused =
        reply.answer.code == StatusCode::kResourceExhausted && core.store().refused();
    if (core.store().blocked() || refused) {
      const StatusCode lost = core.store().TakeLost();
      if (lost == StatusCode::kOk) {  // CoreGroup::Run comes back.
        CountDeviceRead(core, **partition, &slice);
        break;
      }
      reply = Reply();
      Refuse(&reply, lost, "the record cannot be read from the device");
    }
    if (reply.answer.code == StatusCode::kResourceExhausted && core.store().TakeRefused() &&
        core.store().checkpoints() && reply.answer.value.empty()) {
      reply.answer.value = AsBytes(kMemoryAndDevicesFull);
    }
    changes = changes || wire::InfoOf(operation.opcode).mutates;
    slice.outcomes.push_back(Outcome(**partition, reply, slice.value_bytes_max, left));
    // A value that is left out is asked for again, by a call that counts.
    if (slice.is_users && IsUsers(operation) && !slice.outcomes.back().value_omitted) {
      (*partition)->CountReads(ReadsRecords(operation.opcode) ? 1 : 0);
      core.dispatcher().meter().CountLocal(**partition, operation);
    }
    if (wire::InfoOf(operation.opcode).mutates && reply.answer.code == StatusCode::kOk) {
      slice.outcomes.back().receipt = ReceiptOf(core.store(), **partition);
    }
    slice.done = slice.outcomes.size();
    answered_bytes += slice.outcomes.back().value.size();
    if (answered_bytes >= kSliceBytes) break;
  }
  core.dispatcher().NoteTaskWait(**partition);
  if (changes) core.dispatcher().waiting().Wake(slice.partition);
  if (!core.lease().ValidAt(Clock::Real().MonotonicNs())) {
    slice.status = Status(StatusCode::kUnknown, "this node's lease ran out meanwhile");
  }
}

// Copies the operations from `first` on for one task.
void Fill(const std::vector<wire::Operation>& operations, std::size_t first, Slice* slice) {
  std::size_t bytes = 0;
  std::size_t end = first;
  while (end < operations.size() && end - first < kSliceOperations &&
         (end == first || bytes + operations[end].value.size() <= kSliceBytes)) {
    bytes += operations[end++].value.size();
  }
  slice->operations.assign(operations.begin() + static_cast<std::ptrdiff_t>(first),
                           operations.begin() + static_cast<std::ptrdiff_t>(end));
  slice->storage.reserve(2 * slice->operations.size());  // Views must not move.
  for (wire::Operation& operation : slice->operations) {
    operation.key = AsBytes(slice->storage.emplace_back(AsText(operation.key)));
    operation.value = AsBytes(slice->storage.emplace_back(AsText(operation.value)));
  }
}

Status Run(CoreGroup& cores, CoreId core, const std::shared_ptr<Slice>& slice) {
  // Reads our own copies, because the task may still run after a failure.
  const bool changes =
      std::any_of(slice->operations.begin(), slice->operations.end(),
                  [](const auto& operation) { return wire::InfoOf(operation.opcode).mutates; });
  const Status status = cores.Run(
      core, [slice](Core& at) { RunSlice(at, *slice); }, slice->deadline);
  // Operations that have not run do not run after their deadline.
  if (WaitedForRoom(status) && slice->done == 0) return status;
  if (status.code() == StatusCode::kDeadlineExceeded && changes) {
    return Status(StatusCode::kUnknown,
                  "the owner core did not answer in time; the change may or may not have happened",
                  "read the key to find out");
  }
  if (status.code() == StatusCode::kUnknown && !changes) {
    return Status(StatusCode::kDeviceError,
                  "a device of the node has failed before what was read was durable",
                  "read it again: it is shown as it is in memory now");
  }
  TP_RETURN_IF_ERROR(status);
  return slice->status;
}

// A later slice failed: its operations end with that failure, and the operations behind it never
// ran.
void EndRest(const Status& why, std::size_t slice_operations, std::size_t operations,
             std::vector<OperationOutcome>* outcomes) {
  OperationOutcome failed;
  failed.code = why.code();
  if (outcomes->size() + slice_operations <= operations) {
    outcomes->resize(outcomes->size() + slice_operations, failed);
  }
  if (why.code() == StatusCode::kUnknown) failed.code = StatusCode::kDeadlineExceeded;
  outcomes->resize(operations, failed);
}

}  // namespace

bool IsUsers(const wire::Operation& operation) {
  return IsUsers(operation.opcode) &&
         convert::ParseStagedKey(AsText(operation.key)).role == convert::StagedRole::kPlain;
}

wire::Receipt ReceiptOf(storage::CoreStore& store, const storage::Partition& partition) {
  wire::Receipt receipt;
  receipt.level = LevelOf(partition.options().durability);
  if (store.checkpoints()) receipt.checkpoint = {store.LastNowMs(), store.last_durable_at_ms()};
  return receipt;
}

Result<std::vector<OperationOutcome>> ExecuteLocal(CoreGroup& cores, CoreId core,
                                                   PartitionId partition, Term term,
                                                   const std::vector<wire::Operation>& operations,
                                                   std::size_t value_bytes_max, Deadline deadline,
                                                   std::size_t answer_bytes_max, bool is_users) {
  std::vector<OperationOutcome> outcomes;
  std::size_t left = answer_bytes_max;
  while (outcomes.size() < operations.size()) {
    auto slice = std::make_shared<Slice>();
    slice->partition = partition;
    slice->term = term;
    slice->value_bytes_max = value_bytes_max;
    slice->answer_bytes_max = left;
    slice->deadline = deadline;
    slice->is_users = is_users;
    Fill(operations, outcomes.size(), slice.get());
    if (const Status status = Run(cores, core, slice); !status.ok()) {
      if (outcomes.empty()) return status;
      EndRest(status, slice->operations.size(), operations.size(), &outcomes);
      break;
    }
    for (OperationOutcome& outcome : slice->outcomes) {
      left -= outcome.value.size();
      outcomes.push_back(std::move(outcome));
    }
  }
  return outcomes;
}

}  // namespace tidepool::daemon
