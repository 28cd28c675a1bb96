#include "daemon/ops/process_group_ops.h"

#include <algorithm>
#include <cstring>

#include "daemon/ops/process_groups.h"
#include "proto/wire/process_group_ops.h"

namespace tidepool::daemon {
namespace {

ProcessGroups::Place PlaceOf(const OperationContext& context) {
  return {context.partition.id(), AsText(context.operation.key), context.session,
          context.partition.term(), context.may_wait};
}

// Copies the outcome's bytes, because the next change of the groups overwrites them.
void Conclude(const ProcessGroups::Outcome& outcome, const OperationContext& context,
              Reply* reply) {
  reply->wakes = outcome.wakes;
  if (outcome.waits) {
    reply->wait_for = WaitFor::kGroup;
    return;
  }
  Bytes value = outcome.code == StatusCode::kOk ? outcome.value : AsBytes(outcome.text);
  reply->answer.code = outcome.code;
  if (value.size() > context.scratch.size()) {
    if (outcome.code == StatusCode::kOk) {
      reply->answer.code = StatusCode::kResourceExhausted;
      value = AsBytes("the client leaves no room for the result");
    }
    value = value.first(std::min(value.size(), context.scratch.size()));
  }
  std::copy(value.begin(), value.end(), context.scratch.begin());
  reply->answer.value = context.scratch.first(value.size());
}

// Decodes the operation's value and hands it to the groups.
template <typename Request>
void Handle(const OperationContext& context, Result<Request> (*load)(Bytes),
            ProcessGroups::Outcome (ProcessGroups::*step)(const ProcessGroups::Place&,
                                                          const Request&),
            Reply* reply) {
  if (context.groups == nullptr) {
    reply->answer.code = StatusCode::kUnimplemented;
    reply->answer.value = AsBytes("groups are joined over the data path, by the SDK");
    return;
  }
  const Result<Request> request = load(context.operation.value);
  if (!request.ok()) {
    reply->answer.code = request.code();
    reply->answer.value = AsBytes("malformed request to a group");
    return;
  }
  Conclude((context.groups->*step)(PlaceOf(context), *request), context, reply);
}

void HandleGroupJoin(const OperationContext& context, Reply* reply) {
  Handle<wire::JoinRequest>(context, wire::LoadJoin, &ProcessGroups::Join, reply);
}

void HandleGroupMeet(const OperationContext& context, Reply* reply) {
  Handle<wire::MeetRequest>(context, wire::LoadMeet, &ProcessGroups::Meet, reply);
}

void HandleGroupLeave(const OperationContext& context, Reply* reply) {
  Handle<wire::LeaveRequest>(context, wire::LoadLeave, &ProcessGroups::Leave, reply);
}

constexpr HandlerEntry kProcessGroupHandlers[] = {
    {wire::Opcode::kGroupJoin, HandleGroupJoin},
    {wire::Opcode::kGroupMeet, HandleGroupMeet},
    {wire::Opcode::kGroupLeave, HandleGroupLeave},
};

}  // namespace

std::span<const HandlerEntry> ProcessGroupHandlers() { return kProcessGroupHandlers; }

}  // namespace tidepool::daemon
