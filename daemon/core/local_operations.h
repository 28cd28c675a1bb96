// Operations of gRPC threads: run on the owner core through the same checks and handlers as
// operations that come by frame.
//
//   daemon/services/data_service -> core_group -> [local_operations] -> daemon/ops/hash_ops ->
//   storage
#pragma once

#include <vector>

#include "daemon/core/core_group.h"
#include "storage/core_store.h"
#include "storage/partition.h"

namespace tidepool::daemon {

// Implements CoreGroup::Execute. Copies keys and values, because a task may outlive its caller.
Result<std::vector<OperationOutcome>> ExecuteLocal(CoreGroup& cores, CoreId core,
                                                   PartitionId partition, Term term,
                                                   const std::vector<wire::Operation>& operations,
                                                   std::size_t value_bytes_max, Deadline deadline,
                                                   std::size_t answer_bytes_max, bool is_users);

// Returns true if an operation without a frame counts as a user's. False for the records that
// staging keeps beside the files, which status displays read too.
bool IsUsers(const wire::Operation& operation);

// Returns the receipt of a change of `partition` that has just succeeded, valid once its answer may
// be sent.
wire::Receipt ReceiptOf(storage::CoreStore& store, const storage::Partition& partition);

}  // namespace tidepool::daemon
