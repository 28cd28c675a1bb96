// The operations on hash namespaces: decoded request in, answer out, the store between.
//
//   client/hash_ops => daemon/dispatcher -> [daemon/hash_ops] -> storage/hash_store
#pragma once

#include <cstdint>

#include "proto/base/bytes.h"
#include "proto/wire/answer.h"
#include "proto/wire/group.h"
#include "storage/hash_store.h"
#include "storage/partition.h"

namespace tidepool::daemon {

// What a handler needs to know. Views only; valid during the call.
struct OperationContext {
  storage::Partition& partition;
  const wire::Operation& operation;
  std::uint64_t hash = 0;    // KeyHash of the key.
  std::uint64_t now_ms = 0;  // CoreStore::NowMs.
  // The complete upload that a streamed Put names, else null.
  storage::ValueWriter* upload = nullptr;
  // Where Iterate lists its records; as large as the answer may be.
  MutableBytes scratch;
};

// `stored` is what a value too large for the answer is pinned from; its views end with the next
// change of the store.
struct Reply {
  wire::Answer answer;
  storage::HashOutcome stored;
};

// A handler never fails: what goes wrong is the answer's code, with a text in its value where the
// code alone does not say it.
using Handler = void (*)(const OperationContext&, Reply*);

// Null if this daemon has no handler for the operation.
Handler FindHandler(wire::Opcode opcode);

}  // namespace tidepool::daemon
