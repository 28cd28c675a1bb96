#include "daemon/ops/prefilter_ops.h"

#include <cmath>
#include <string_view>

#include "daemon/ops/filter_piece.h"
#include "proto/wire/prefilter_ops.h"
#include "storage/prefilter.h"

namespace tidepool::daemon {
namespace {

using storage::AbsentFilter;
using storage::PrefilterKind;
using wire::Argument;

// After a restart the partition counts from 0 again, under a greater term.
std::uint64_t GenerationOf(const storage::Partition& partition, std::uint64_t generation) {
  return Lsn(partition.term(), generation).value();
}

void HandlePrefilterDescribe(const OperationContext& context, Reply* reply) {
  if (context.scratch.size() < wire::kPrefilterSummaryBytes) {
    return Refuse(reply, StatusCode::kInvalidArgument, "no room for the answer");
  }
  storage::HashStore& store = context.partition.hash();
  storage::PrefilterUsage usage;
  wire::PrefilterSummary summary;
  if (const AbsentFilter* absent = store.absent_filter(); absent != nullptr) {
    usage = absent->usage();
    summary.shape = absent->filter().shape();
  } else if (store.admission_filter() != nullptr) {
    usage = store.admission_filter()->usage();
  }
  summary.generation = GenerationOf(context.partition, usage.generation);
  summary.bytes = usage.bytes;
  summary.bits_set = usage.bits_set;
  summary.keys = static_cast<std::uint64_t>(std::llround(usage.keys));
  summary.false_positive_rate = usage.false_positive_rate;
  wire::StorePrefilterSummary(summary, context.scratch.data());
  reply->answer.value = context.scratch.first(wire::kPrefilterSummaryBytes);
}

void HandlePrefilterRead(const OperationContext& context, Reply* reply) {
  const AbsentFilter* absent = context.partition.hash().absent_filter();
  if (absent == nullptr) {
    return Refuse(reply, StatusCode::kFailedPrecondition,
                  "the namespace was made without prefilter 'absent'");
  }
  if (context.operation.get(Argument::kOperand) !=
      GenerationOf(context.partition, absent->generation())) {
    return Refuse(reply, StatusCode::kAborted, "the filter was made anew; begin again");
  }
  AnswerFilterPiece(absent->filter(), context.operation.get(Argument::kCursor), context, reply);
}

constexpr HandlerEntry kPrefilterHandlers[] = {
    {wire::Opcode::kPrefilterDescribe, HandlePrefilterDescribe},
    {wire::Opcode::kPrefilterRead, HandlePrefilterRead},
};

}  // namespace

std::span<const HandlerEntry> PrefilterHandlers() { return kPrefilterHandlers; }

}  // namespace tidepool::daemon
