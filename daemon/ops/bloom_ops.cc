#include "daemon/ops/bloom_ops.h"

#include <string_view>

#include "daemon/ops/filter_piece.h"
#include "proto/base/limits.h"
#include "proto/wire/bloom_ops.h"
#include "storage/core_store.h"

namespace tidepool::daemon {
namespace {

using storage::BloomStore;
using wire::Argument;

// Blocks of one union operation: about 100 us, which bounds the wait of the core's other clients.
constexpr std::uint64_t kUnionBlocksMax = 8;

void HandleBloomInsert(const OperationContext& context, Reply* reply) {
  if (!context.partition.bloom().InsertAndTell(context.hash)) {
    reply->answer.code = StatusCode::kAlreadyExists;
  }
}

void HandleBloomContains(const OperationContext& context, Reply* reply) {
  if (!context.partition.bloom().Contains(context.hash)) {
    reply->answer.code = StatusCode::kNotFound;
  }
}

void HandleUnion(const OperationContext& context, Reply* reply) {
  const std::uint64_t space = context.operation.get(Argument::kOperand);
  if (space > limits::kNamespacesMax) {
    return Refuse(reply, StatusCode::kInvalidArgument, "no such namespace to unite with");
  }
  storage::Partition* const from = context.store.Find(
      PartitionId(NamespaceId(static_cast<std::uint32_t>(space)), context.partition.id().index()));
  if (from == nullptr) {
    return Refuse(reply, StatusCode::kFailedPrecondition,
                  "the other namespace's partition is not on the same core; only namespaces that "
                  "were created while the same nodes were up can be united");
  }
  // Another node may serve it already, with values that are not here.
  if (from->frozen()) {
    return Refuse(reply, StatusCode::kFailedPrecondition,
                  "the other namespace's partition is being moved; try again");
  }
  BloomStore& store = context.partition.bloom();
  if (from->kind() != Kind::kBloom ||
      from->options().partition_count != context.partition.options().partition_count ||
      from->bloom().filter().shape() != store.filter().shape()) {
    return Refuse(reply, StatusCode::kFailedPrecondition,
                  "the other namespace is no filter of the same shape; both need the same "
                  "expected items, rate and partitions");
  }
  std::uint64_t block = context.operation.get(Argument::kCursor);
  const bool more = store.UnionSlice(from->bloom(), &block, kUnionBlocksMax);
  reply->answer.has_number = true;
  reply->answer.number = more ? block : 0;
}

void HandleBloomDescribe(const OperationContext& context, Reply* reply) {
  if (context.scratch.size() < wire::kFilterSummaryBytes) {
    return Refuse(reply, StatusCode::kInvalidArgument, "no room for the answer");
  }
  const storage::BlockFilter& filter = context.partition.bloom().filter();
  wire::StoreFilterSummary({filter.shape(), filter.bits_set()}, context.scratch.data());
  reply->answer.value = context.scratch.first(wire::kFilterSummaryBytes);
}

void HandleBloomRead(const OperationContext& context, Reply* reply) {
  AnswerFilterPiece(context.partition.bloom().filter(), context.operation.get(Argument::kCursor),
                    context, reply);
}

constexpr HandlerEntry kBloomHandlers[] = {
    {wire::Opcode::kBloomInsert, HandleBloomInsert},
    {wire::Opcode::kBloomContains, HandleBloomContains},
    {wire::Opcode::kBloomUnion, HandleUnion},
    {wire::Opcode::kBloomDescribe, HandleBloomDescribe},
    {wire::Opcode::kBloomRead, HandleBloomRead},
};

}  // namespace

std::span<const HandlerEntry> BloomHandlers() { return kBloomHandlers; }

}  // namespace tidepool::daemon
