// Runs one operation: the common checks, its memory share, its handler, and the completion of its
// reply.
//
//   daemon/core/dispatcher -> [operation_runner] -> daemon/ops/operation -> storage
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "daemon/copies/copies.h"
#include "daemon/core/ownership.h"
#include "daemon/core/reception.h"
#include "daemon/core/responder.h"
#include "daemon/core/sessions.h"
#include "daemon/core/streams.h"
#include "daemon/ops/operation.h"
#include "daemon/ops/process_groups.h"
#include "proto/transport/remote_memory.h"
#include "storage/core_store.h"

namespace tidepool::daemon {

// Owner core only. The caller has checked the lease and the partition's term.
//
// Invariant: an operation that has to wait has changed nothing, and is run again as a whole.
class OperationRunner final : public Executor {
 public:
  // All must outlive the runner.
  OperationRunner(storage::CoreStore& store, Ownership& ownership, Responder& responder,
                  OperationMeter& meter, const Copies& copies);
  OperationRunner(const OperationRunner&) = delete;
  OperationRunner& operator=(const OperationRunner&) = delete;
  // Functions that Apply finds; before the first frame. Must outlive the runner.
  void set_functions(const Functions* functions) { functions_ = functions; }
  const Functions* functions() const { return functions_; }
  // Shows memory to other nodes; before the first frame. Must outlive the runner. May be null.
  void set_exporter(transport::MemoryExporter* exporter) { exporter_ = exporter; }
  // Before the first frame. The arguments must stay valid until Stop.
  void Start(Streams* streams, Sessions* sessions);
  void Stop();

  // Answers the operation, or returns its wait condition. `reserved_bytes`: bytes of the answers
  // behind this answer.
  WaitFor Run(const Planned& planned, std::size_t reserved_bytes, std::uint64_t now_ms,
              bool may_wait, Reception& to);

  // Executor
  void Execute(const OperationContext& context, Reply* reply) override;
  void OnDirectReads(SessionId session, const storage::Partition& partition,
                     const DirectReads& reads) override;

  // Returns and clears the refusal of the operation whose Run has just returned WaitFor::kMemory.
  storage::Refusal TakeRefusal() { return std::exchange(refusal_, {}); }
  ProcessGroups& groups() { return groups_; }
  // Process groups whose waiters may proceed. The caller empties the list.
  std::vector<ProcessGroups::Name>& groups_to_wake() { return groups_to_wake_; }

 private:
  WaitFor WaitsOnStore(Reply* reply);
  // Refuses operations that durable partitions do not support.
  bool RefusesDurable(const OperationContext& context, Reply* reply) const;

  storage::CoreStore& store_;
  Ownership& ownership_;
  Responder& responder_;
  OperationMeter& meter_;
  const Copies& copies_;
  Streams* streams_ = nullptr;
  Sessions* sessions_ = nullptr;
  const Functions* functions_ = nullptr;
  transport::MemoryExporter* exporter_ = nullptr;
  ProcessGroups groups_;
  std::vector<ProcessGroups::Name> groups_to_wake_;
  storage::Refusal refusal_;
  std::vector<std::byte> scratch_;  // For answers that list records or items.
};

}  // namespace tidepool::daemon
