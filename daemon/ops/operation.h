// What every handler of an operation takes and gives, and the table of them.
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

// Reads that a client has made by itself: of values, and of presence alone.
struct DirectReads {
  std::uint64_t gets = 0;
  std::uint64_t looks = 0;
};

class Executor {
 public:
  virtual ~Executor() = default;
  // Runs one operation as if it had come by itself: for what consists of several.
  virtual void Execute(const OperationContext& context, Reply* reply) = 0;
  // Counts direct reads that the client of a session reports.
  virtual void OnDirectReads(SessionId session, const storage::Partition& partition,
                             const DirectReads& reads) = 0;
};

// What a handler that cannot answer yet waits for.
enum class WaitFor : std::uint8_t {
  kNothing = 0,
  kItem = 1,    // In a queue: one to pop.
  kRoom = 2,    // In a bounded queue: for one more.
  kChange = 3,  // Of the operation's key.
  kGroup = 4,   // The other members of the process group that is its key.
  // ---- No handler says these: it has met what is not there, and has changed nothing.
  kDevice = 5,     // A record that must be read.
  kMemory = 6,     // Room for one, which will come.
  kPartition = 7,  // Its partition, which is not served for the moment.
};

// What a handler needs to know. Views only; valid during the call.
struct OperationContext {
  storage::Partition& partition;  // Of a kind that takes the operation.
  const wire::Operation& operation;
  std::uint64_t hash = 0;    // KeyHash of the key.
  std::uint64_t now_ms = 0;  // CoreStore::NowMs.
  // The complete upload that a streamed Put names, else null.
  storage::ValueWriter* upload = nullptr;
  // Where an answer that lists records or items is written; as large as the answer may be.
  MutableBytes scratch;
  storage::CoreStore& store;  // That holds the partition.
  // The caller may be answered later: the handler may say what it waits for instead.
  bool may_wait = false;
  // A value that is too large for the answer may be left to Reply::stored, from where it is
  // streamed.
  bool may_stream = true;
  // What Reply::stored may have at most if the operation takes it away: a larger value must be left
  // where it is, since the caller would not get it.
  std::uint64_t taken_bytes_max = limits::kValueBytesMax;
  // Of operations that came by frame: their session, and the process groups of this core.
  SessionId session;
  ProcessGroups* groups = nullptr;
  const Functions* functions = nullptr;  // That Apply may name; null: Apply is not taken here.
  Executor* executor = nullptr;
  transport::MemoryExporter* exporter = nullptr;  // Null: nothing is shown to other nodes.
};

// `stored` is what the value is taken from, and, if it is too large for the answer or the answer's
// value says something else already, what is pinned to be streamed; its views end with the next
// change of the store.
struct Reply {
  wire::Answer answer;
  storage::StoredValue stored;
  // Other than kNothing: no answer yet, nothing has changed, and the handler is to be called again.
  WaitFor wait_for = WaitFor::kNothing;
  // Those who wait for the same process group have something to gain.
  bool wakes = false;
};

// `text` must outlive the answer: a literal.
inline void Refuse(Reply* reply, StatusCode code, std::string_view text) {
  reply->answer.code = code;
  reply->answer.value = AsBytes(text);
}

// A handler never fails: what goes wrong is the answer's code, with a text in its value where the
// code alone does not say it.
using Handler = void (*)(const OperationContext&, Reply*);

struct HandlerEntry {
  wire::Opcode opcode;
  Handler handler;
};

// The text of an operation on a namespace whose kind does not take it, for those who did not look
// at the kind before.
inline constexpr std::string_view kWrongKind =
    "this operation is not one of the namespace's kind; see: kvctl namespace list";

// Whether it answers what records hold, so that it may have to wait for a device: what hit rates
// are of. Of changes only those that give away what they remove.
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

// Returns false for questions that the client library or a description asks by itself: status and
// metrics leave them out.
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

// Null if this daemon has no handler for the operation.
Handler FindHandler(wire::Opcode opcode);

}  // namespace tidepool::daemon
