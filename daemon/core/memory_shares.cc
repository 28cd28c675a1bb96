#include "daemon/core/memory_shares.h"

#include <algorithm>

#include "proto/wire/queue_ops.h"

namespace tidepool::daemon {
namespace {

using wire::Argument;
using wire::Opcode;

std::uint64_t BytesOf(const storage::Store& store) {
  return store.payload_bytes() + store.size() * kRecordOverheadBytes;
}

// Upper bound: keys of a queue by arrival have half of this.
constexpr std::uint64_t kItemKeyBytes = 16;

std::uint64_t GrowthOfPushed(Bytes list) {
  std::uint64_t bytes = 0;
  wire::PushedItem item;
  // The handler refuses malformed items.
  while (!list.empty() && wire::TakePushedItem(&list, &item).ok()) {
    bytes += item.value.size() + kItemKeyBytes + kRecordOverheadBytes;
  }
  return bytes;
}

// How much an operation may add, whatever is there now. 0: it stores no more than before.
std::uint64_t GrowthAtMost(const OperationContext& context) {
  const wire::Operation& operation = context.operation;
  std::uint64_t value_bytes = operation.value.size();
  switch (operation.opcode) {
    case Opcode::kPut:
      if (context.upload != nullptr) value_bytes = context.upload->value_bytes();
      break;
    case Opcode::kFetchAdd:
    case Opcode::kFetchAnd:
    case Opcode::kFetchOr:
    case Opcode::kFetchXor:
    case Opcode::kFetchMin:
    case Opcode::kFetchMax:
      value_bytes = sizeof(std::uint64_t);
      break;
    case Opcode::kCompareAndSwap:
      value_bytes -= operation.get(Argument::kExpectedBytes);
      break;
    case Opcode::kAppend:
      break;
    case Opcode::kApply:
      // The size of the result is known only afterwards.
      value_bytes = limits::kFunctionValueBytesMax;
      break;
    case Opcode::kPush:
      if (context.upload != nullptr) value_bytes = context.upload->value_bytes();
      return value_bytes + kItemKeyBytes + kRecordOverheadBytes;
    case Opcode::kPushMany:
      return GrowthOfPushed(operation.value);
    default:
      return 0;
  }
  return operation.key.size() + value_bytes + kRecordOverheadBytes;
}

// Returns by how much the operation exceeds the present record.
std::uint64_t Growth(const OperationContext& context, std::uint64_t at_most) {
  const wire::Operation& operation = context.operation;
  if (!context.partition.IsOneOf(storage::kRecordKinds)) return at_most;
  const storage::HashOutcome present =
      context.partition.hash().Contains(operation.key, context.hash, context.now_ms);
  if (present.code != StatusCode::kOk) {
    const bool needs_one = operation.opcode == Opcode::kCompareAndSwap ||
                           operation.condition == wire::PutCondition::kIfPresent ||
                           operation.condition == wire::PutCondition::kIfVersion;
    return needs_one ? 0 : at_most;
  }
  if (operation.opcode == Opcode::kPut && operation.condition == wire::PutCondition::kIfAbsent) {
    return 0;
  }
  const std::uint64_t after = at_most - operation.key.size() - kRecordOverheadBytes;
  if (operation.opcode == Opcode::kAppend) return after;
  return after - std::min(after, present.value_bytes);
}

}  // namespace

void MemoryShares::Install(const placement::PlacementMap& map, NodeId self, CoreId core) {
  shares_.clear();
  for (const auto& [id, space] : map.namespaces) {
    const std::uint32_t percent = space->options.memory_share_percent;
    if (percent == 0) continue;
    Share share;
    std::uint64_t on_node = 0;
    for (std::uint32_t i = 0; i < space->partitions.size(); ++i) {
      if (space->partitions[i].node != self) continue;
      ++on_node;
      if (space->partitions[i].core == core) share.partitions.emplace_back(id, i);
    }
    if (share.partitions.empty()) continue;
    const std::uint64_t node_bytes = store_.usage().limit_bytes / 100 * percent;
    share.bytes_max = node_bytes / on_node * share.partitions.size();
    share.refusal = "namespace '" + space->name + "' has used up its memory share of " +
                    std::to_string(percent) + " % of this node (" +
                    std::to_string(node_bytes / 1024) +
                    " KiB); delete something, or use a namespace with a larger share";
    Count(&share);
    shares_.emplace(id.value(), std::move(share));
  }
}

void MemoryShares::Count(Share* share) const {
  share->bytes = 0;
  for (const PartitionId id : share->partitions) {
    if (const storage::Partition* held = store_.Find(id); held != nullptr) {
      share->bytes += BytesOf(held->store());
    }
  }
}

const std::string* MemoryShares::Refusal(PartitionId partition, std::uint64_t growth_bytes) {
  const auto found = shares_.find(partition.space().value());
  if (found == shares_.end()) return nullptr;
  Share& share = found->second;
  Count(&share);
  return share.bytes + growth_bytes > share.bytes_max ? &share.refusal : nullptr;
}

MemoryShares::Admission MemoryShares::AdmitLimited(const OperationContext& context, Reply* reply) {
  const std::uint32_t space = context.partition.id().space().value();
  const auto found = shares_.find(space);
  if (found == shares_.end()) return {};
  // The steps of a chain are admitted one by one.
  if (context.operation.opcode == Opcode::kChain) return {};
  Share& share = found->second;
  const std::uint64_t at_most = GrowthAtMost(context);
  if (at_most > 0 && share.bytes + at_most > share.bytes_max) {
    Count(&share);
    const std::uint64_t growth = Growth(context, at_most);
    if (growth > 0 && share.bytes + growth > share.bytes_max) {
      reply->answer.code = StatusCode::kResourceExhausted;
      reply->answer.value = AsBytes(share.refusal);
      return {.refused = true};
    }
  }
  return {.share = space, .bytes_before = BytesOf(context.partition.store())};
}

void MemoryShares::SettleLimited(const OperationContext& context, const Admission& admission) {
  const auto found = shares_.find(admission.share);
  TP_CHECK(found != shares_.end());  // No handler installs a map.
  // Modulo 2^64: a change may shrink the store.
  found->second.bytes += BytesOf(context.partition.store()) - admission.bytes_before;
}

}  // namespace tidepool::daemon
