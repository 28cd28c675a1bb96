// Converts operations and their outcomes to gRPC messages and back.
#pragma once

#include "daemon/core/core_group.h"
#include "proto/base/result.h"
#include "proto/wire/group.h"
#include "tidepool/v1/bulk.pb.h"
#include "tidepool/v1/data.pb.h"

namespace tidepool::daemon {

// Returns an operation with views of `from`, which must outlive the result. Checks sizes, kind and
// arguments. Errors: kInvalidArgument.
Result<wire::Operation> FromProto(const v1::Operation& from);
void ToProto(const wire::Operation& from, v1::Operation* to);

// Fills `to`; `opcode` gives the meaning of the outcome's number.
void ToProto(const OperationOutcome& from, wire::Opcode opcode, v1::OperationResult* to);
OperationOutcome FromProto(const v1::OperationResult& from, wire::Opcode opcode);

void ToProto(const wire::Receipt& from, v1::Receipt* to);
wire::Receipt FromProto(const v1::Receipt& from);

// Returns a put of a record for Bulk.Load. Errors: kInvalidArgument.
Result<wire::Operation> PutOf(const v1::Record& from);

// Returns the Status of an operation with namespace and key for people.
Status StatusOf(const OperationOutcome& outcome, std::string_view space, std::string_view key);

}  // namespace tidepool::daemon
