#include "daemon/core/local_values.h"

#include <algorithm>
#include <utility>

#include "daemon/core/core.h"
#include "daemon/core/local_operations.h"
#include "daemon/core/owned_by_core.h"
#include "daemon/core/room_waiters.h"
#include "daemon/ops/hash_ops.h"
#include "proto/base/key_hash.h"

namespace tidepool::daemon {
namespace {

// The partition, if this core serves it under `term` now and it is of these kinds.
Result<storage::Partition*> Serving(Core& core, PartitionId partition, Term term, KindMask kinds) {
  if (!core.lease().ValidAt(Clock::Real().MonotonicNs())) {
    return Status(StatusCode::kUnavailable, "this node's lease has run out");
  }
  const Verdict verdict = core.dispatcher().ownership().Check(partition, term);
  if (verdict.kind == Verdict::Kind::kRun) {
    if (verdict.partition->IsOneOf(kinds)) return verdict.partition;
    return Status(StatusCode::kInvalidArgument, std::string(kWrongKind));
  }
  return Status(
      verdict.kind == Verdict::Kind::kWait ? StatusCode::kWrongEpoch : verdict.code,
      "partition " + std::to_string(partition.index()) + " is not served here under this term");
}

// The start of one LocalValueWriter. Its task may outlive the caller's deadline.
struct Beginning {
  Status status;
  std::shared_ptr<storage::ValueWriter> writer;  // Its deleter runs on the core.
  bool given_up = false;
};

// Runs on the core, and again when the awaited memory has come or will not come (CoreGroup::Run).
void BeginOn(Core& at, CoreGroup& cores, std::uint64_t value_bytes, Beginning* made) {
  if (made->given_up) return;
  if (made->writer == nullptr) {
    auto writer = storage::ValueWriter::Begin(at.store(), value_bytes);
    made->status = writer.status();
    if (!writer.ok()) return;
    writer->set_revocable();
    made->writer = OwnedByCore(cores, at.id(), *std::move(writer));
  }
  // Writes nothing, but lets the store note what the writer waits for.
  if (made->writer->waits()) (void)made->writer->Write(0, {});
  if (made->writer->refused()) {
    made->status = Status(StatusCode::kResourceExhausted, std::string(kMemoryAndDevicesFull));
  }
}

// Asks the memory share, then calls the handler.
void RunWithinShare(Core& at, storage::Partition& partition, const wire::Operation& operation,
                    storage::ValueWriter* upload, Reply* reply) {
  const OperationContext context = {.partition = partition,
                                    .operation = operation,
                                    .hash = KeyHash(operation.key),
                                    .now_ms = at.store().NowMs(),
                                    .upload = upload,
                                    .store = at.store()};
  MemoryShares& shares = at.dispatcher().ownership().shares();
  const MemoryShares::Admission admission = shares.Admit(context, reply);
  if (admission.refused) return;
  FindHandler(operation.opcode)(context, reply);
  shares.Settle(context, admission);
}

}  // namespace

Result<LocalValueWriter> LocalValueWriter::Begin(CoreGroup& cores, CoreId core,
                                                 std::uint64_t value_bytes, Deadline deadline) {
  auto made = std::make_shared<Beginning>();
  const Status ran = cores.Run(
      core, [made, &cores, value_bytes](Core& at) { BeginOn(at, cores, value_bytes, made.get()); },
      deadline);
  if (!ran.ok()) {
    // Frees its place in the line for other waiters.
    (void)cores.Post(core, [made](Core&) {
      made->given_up = true;
      made->writer.reset();
    });
    if (!WaitedForRoom(ran)) return ran;
    return Status(ran.code(), std::string(ran.what()),
                  "write fewer values at a time, or allow more time");
  }
  TP_RETURN_IF_ERROR(made->status);
  LocalValueWriter writer;
  writer.cores_ = &cores;
  writer.core_ = core;
  writer.writer_ = std::move(made->writer);
  return writer;
}

Status LocalValueWriter::Write(std::string part, Deadline deadline) {
  auto code = std::make_shared<StatusCode>(StatusCode::kOk);
  const std::size_t bytes = part.size();
  TP_RETURN_IF_ERROR(cores_->Run(
      core_,
      [code, writer = writer_, at = written_bytes_, part = std::move(part)](Core&) {
        *code = writer->Write(at, AsBytes(part));
      },
      deadline));
  if (*code == StatusCode::kOutOfRange) {
    return Status(*code, "more data than was announced");
  }
  if (*code == StatusCode::kAborted) {
    return Status(*code,
                  "nothing of the value came for 10 s while others waited for the memory that it "
                  "had; nothing was written",
                  "send it again");
  }
  if (*code != StatusCode::kOk) {
    return Status(*code, "no memory for the value",
                  "delete something, or start the daemons with more --memory");
  }
  written_bytes_ += bytes;
  return OkStatus();
}

Result<OperationOutcome> LocalValueWriter::Put(PartitionId partition, Term term,
                                               const wire::Operation& put, Deadline deadline) {
  struct Done {
    Status status;
    OperationOutcome outcome;
    std::string key;
    bool counted = false;  // The task may run again.
  };
  auto done = std::make_shared<Done>();
  done->key.assign(AsText(put.key));
  wire::Operation operation = put;
  operation.key = AsBytes(done->key);
  operation.set(wire::Argument::kUpload, 0);
  const Status status = cores_->Run(
      core_,
      [done, operation, partition, term, writer = writer_](Core& at) {
        auto held = Serving(at, partition, term, wire::InfoOf(operation.opcode).kinds);
        if (!held.ok()) {
          done->status = held.status();
          return;
        }
        if ((*held)->options().durability != storage::Durability::kVolatile &&
            at.store().commit_failed() != StatusCode::kOk) {
          done->status = Status(StatusCode::kDeviceError,
                                "a device of the node has failed: nothing durable can be changed");
          return;
        }
        Reply reply;
        RunWithinShare(at, **held, operation, writer.get(), &reply);
        done->outcome.code = reply.answer.code;
        done->outcome.version = reply.answer.version;
        done->outcome.receipt = ReceiptOf(at.store(), **held);
        done->outcome.value.assign(AsText(reply.answer.value));
        if (IsUsers(operation) && !std::exchange(done->counted, true)) {
          at.dispatcher().meter().CountLocal(**held, operation);
        }
        if (done->outcome.code == StatusCode::kResourceExhausted && at.store().checkpoints() &&
            done->outcome.value.empty()) {
          done->outcome.value = kMemoryAndDevicesFull;
        }
        at.dispatcher().NoteTaskWait(**held);
      },
      deadline);
  if (status.code() == StatusCode::kDeadlineExceeded) {
    return Status(StatusCode::kUnknown,
                  "the owner core did not answer in time; the value may or may not be there",
                  "read the key to find out");
  }
  TP_RETURN_IF_ERROR(status);
  TP_RETURN_IF_ERROR(done->status);
  return std::move(done->outcome);
}

Result<LocalValueReader> LocalValueReader::Open(CoreGroup& cores, CoreId core,
                                                PartitionId partition, Term term, std::string key,
                                                Deadline deadline) {
  struct Opened {
    Status status;
    OperationOutcome outcome;
    std::shared_ptr<storage::ValueReader> reader;
    bool counted = false;  // The task may run again.
  };
  auto opened = std::make_shared<Opened>();
  TP_RETURN_IF_ERROR(cores.Run(
      core,
      [opened, &cores, core, partition, term, key = std::move(key)](Core& at) {
        auto held = Serving(at, partition, term, wire::kRecordKinds);
        if (!held.ok()) {
          opened->status = held.status();
          return;
        }
        wire::Operation get;
        get.opcode = wire::Opcode::kGet;
        get.key = AsBytes(key);
        Reply reply;
        FindHandler(get.opcode)({.partition = **held,
                                 .operation = get,
                                 .hash = KeyHash(get.key),
                                 .now_ms = at.store().NowMs(),
                                 .store = at.store()},
                                &reply);
        if (at.store().blocked()) return;  // CoreGroup::Run comes back.
        if (IsUsers(get) && !std::exchange(opened->counted, true)) {
          (*held)->CountReads(1);
          at.dispatcher().meter().CountLocal(**held, get);
        }
        at.dispatcher().NoteTaskWait(**held);
        opened->outcome.code = reply.answer.code;
        opened->outcome.version = reply.answer.version;
        opened->outcome.value_kind = reply.answer.value_kind;
        if (reply.answer.code != StatusCode::kOk) return;
        opened->outcome.number = reply.stored.value_bytes;
        opened->reader =
            OwnedByCore(cores, core, storage::ValueReader::Pin((*held)->store(), reply.stored));
      },
      deadline));
  TP_RETURN_IF_ERROR(opened->status);
  LocalValueReader reader;
  reader.cores_ = &cores;
  reader.core_ = core;
  reader.outcome_ = std::move(opened->outcome);
  reader.reader_ = std::move(opened->reader);
  return reader;
}

Result<std::string> LocalValueReader::Read(std::uint64_t offset, std::size_t bytes_max,
                                           Deadline deadline) {
  auto bytes = std::make_shared<std::string>();
  TP_RETURN_IF_ERROR(cores_->Run(
      core_,
      [bytes, reader = reader_, offset, bytes_max](Core&) {
        const std::uint64_t left = reader->value_bytes() - std::min(offset, reader->value_bytes());
        const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(bytes_max, left));
        bytes->reserve(wanted);
        while (bytes->size() < wanted) {
          bytes->append(AsText(reader->Part(offset + bytes->size(), wanted - bytes->size())));
        }
      },
      deadline));
  return std::move(*bytes);
}

}  // namespace tidepool::daemon
