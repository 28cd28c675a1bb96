// Operations that gRPC threads ask for: run on the owner core through the same checks and handlers
// as those that come by frame.
//
//   daemon/services/data_service -> core_group -> [local_operations] -> daemon/ops/hash_ops ->
//   storage
#pragma once

#include <vector>

#include "daemon/core/core_group.h"
#include "storage/core_store.h"
#include "storage/partition.h"

namespace tidepool::daemon {

// CoreGroup::Execute; see there. Copies keys and values, since a task may outlive its caller.
Result<std::vector<OperationOutcome>> ExecuteLocal(CoreGroup& cores, CoreId core,
                                                   PartitionId partition, Term term,
                                                   const std::vector<wire::Operation>& operations,
                                                   std::size_t value_bytes_max, Deadline deadline,
                                                   std::size_t answer_bytes_max, bool is_users);

// Whether an operation that did not come by frame is a user's. Staging keeps records of its own
// beside the files; a status looks at them, too.
bool IsUsers(const wire::Operation& operation);

// Of a change of `partition` that has just succeeded: what is true when its answer may be told.
wire::Receipt ReceiptOf(storage::CoreStore& store, const storage::Partition& partition);

}  // namespace tidepool::daemon
