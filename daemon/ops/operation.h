// The interface of operation handlers, and their table.
//
//   daemon/core/dispatcher -> [daemon/ops/operation] -> daemon/ops/hash_ops, ... -> storage
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "proto/base/bytes.h"
#include "proto/base/limits.h"
#include "proto/wire/answer.h"
#include "proto/wire/group.h"
#include "storage/core_store.h"
#include "storage/partition.h"
#include "storage/value_io.h"

namespace tidepool::transport {
class MemoryExporter;
}

namespace tidepool::daemon {

class Functions;
class ProcessGroups;
struct OperationContext;
struct Reply;

// Reads that a client made itself: of values, and of presence alone.
struct DirectReads {
  std::uint64_t gets = 0;
  std::uint64_t looks = 0;
};

class Executor {
 public:
  virtual ~Executor() = default;
  // Runs one operation as if it had arrived alone; for operations with several steps.
  virtual void Execute(const OperationContext& context, Reply* reply) = 0;
  // Counts direct reads that the client of a session reports.
  virtual void OnDirectReads(SessionId session, const storage::Partition& partition,
                             const DirectReads& reads) = 0;
};

// The wait condition of a handler that cannot answer yet.
enum class WaitFor : std::uint8_t {
  kNothing = 0,
  kItem = 1,    // An item to pop from a queue.
  kRoom = 2,    // Room in a bounded queue.
  kChange = 3,  // A change of the operation's key.
  kGroup = 4,   // The other members of the process group that the key names.
  // ---- Set outside of handlers: the operation met missing data and has changed nothing.
  kDevice = 5,     // A record that must be read from a device.
  kMemory = 6,     // Memory that will become available.
  kPartition = 7,  // Its partition, which is not served for the moment.
};

// Input of a handler. Views only; valid during the call.
struct OperationContext {
  storage::Partition& partition;  // Its kind supports the operation.
  const wire::Operation& operation;
  std::uint64_t hash = 0;    // KeyHash of the key.
  std::uint64_t now_ms = 0;  // CoreStore::NowMs.
  // The complete upload that a streamed Put names; otherwise null.
  storage::ValueWriter* upload = nullptr;
  // Buffer for an answer that lists records or items; its size bounds the answer.
  MutableBytes scratch;
  storage::CoreStore& store;  // Store of the partition.
  // The handler may return a wait condition instead of an answer.
  bool may_wait = false;
  // A value too large for the answer may be left in Reply::stored, and is streamed from there.
  bool may_stream = true;
  // Maximum of Reply::stored for an operation that removes the value. A larger value must stay,
  // because the caller would not get it.
  std::uint64_t taken_bytes_max = limits::kValueBytesMax;
  // For operations by frame: their session, and the process groups of this core.
  SessionId session;
  ProcessGroups* groups = nullptr;
  const Functions* functions = nullptr;  // Functions for Apply; null: Apply is refused.
  Executor* executor = nullptr;
  transport::MemoryExporter* exporter = nullptr;  // Null: no memory is shown to other nodes.
};

// Output of a handler. `stored` views the value in the store. It is pinned and streamed if the
// value is too large for the answer, or if the answer's value has another use. Its views end with
// the next change of the store.
struct Reply {
  wire::Answer answer;
  storage::StoredValue stored;
  // Other than kNothing: no answer yet and no change; the handler is called again.
  WaitFor wait_for = WaitFor::kNothing;
  // Waiters for the same process group may proceed.
  bool wakes = false;
};

// Refuses an operation. `text` must outlive the answer: pass a literal.
inline void Refuse(Reply* reply, StatusCode code, std::string_view text) {
  reply->answer.code = code;
  reply->answer.value = AsBytes(text);
}

// A handler never fails: a failure is the answer's code, with a text in its value if the code alone
// is not clear.
using Handler = void (*)(const OperationContext&, Reply*);

struct HandlerEntry {
  wire::Opcode opcode;
  Handler handler;
};

// Text for an operation that the namespace's kind does not support.
inline constexpr std::string_view kWrongKind =
    "this operation is not one of the namespace's kind; see: kvctl namespace list";

// Returns true if the operation reads records' content and so may wait for a device; hit rates
// count these. Includes only those changes that return the removed value.
constexpr bool ReadsRecords(wire::Opcode opcode) {
  switch (opcode) {
    case wire::Opcode::kGet:
    case wire::Opcode::kContains:
    case wire::Opcode::kTake:
    case wire::Opcode::kTtl:
    case wire::Opcode::kIterate:
    case wire::Opcode::kWait:
    case wire::Opcode::kScan:
    case wire::Opcode::kCountRange:
    case wire::Opcode::kPop:
    case wire::Opcode::kPeek:
      return true;
    default:
      return false;
  }
}

// Returns false for requests that the client library or a description makes by itself: status and
// metrics omit them.
constexpr bool IsUsers(wire::Opcode opcode) {
  switch (opcode) {
    case wire::Opcode::kShow:
    case wire::Opcode::kPrefilterDescribe:
    case wire::Opcode::kPrefilterRead:
    case wire::Opcode::kBloomDescribe:
      return false;
    default:
      return true;
  }
}

// Returns null if this daemon has no handler for the operation.
Handler FindHandler(wire::Opcode opcode);

}  // namespace tidepool::daemon
