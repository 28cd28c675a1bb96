#include "client/buffers/quiet_puts.h"

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "client/calls/durations.h"
#include "proto/base/limits.h"
#include "proto/wire/pack.h"

namespace tidepool::internal {
namespace {

using wire::Argument;
using wire::OperationHeader;

// A pack fits a frame, each operation counted with its header.
constexpr std::size_t kPackBytesMax =
    limits::kFrameBytesMax - limits::kFrameHeaderBytes - limits::kGroupHeaderBytes;

OperationHeader HeaderOf(const PutOptions& options) {
  OperationHeader header;
  header.opcode = static_cast<std::uint8_t>(wire::Opcode::kPut);
  header.flags = static_cast<std::uint8_t>(static_cast<unsigned>(wire::PutCondition::kAlways) |
                                           static_cast<unsigned>(options.kind) << 2);
  header.arguments = options.ttl.has_value() ? wire::MaskOf(Argument::kTtlMs) : std::uint8_t{0};
  return header;
}

// A planned operation: a pack, or a record that travels alone.
struct Planned {
  PartitionQueue* queue = nullptr;
  wire::Pack pack;
  std::size_t pack_bytes = 0;  // Counts each operation with a header.
  const KeyValue* alone = nullptr;
  Status refused;
};

class Plan {
 public:
  Plan(const Space& space, const PutOptions& options)
      : space_(space),
        header_(HeaderOf(options)),
        ttl_ms_(ToTtlMs(options.ttl.value_or(kForEver))) {
    if (space.state()->kind == placement::Kind::kOrdered) {
      ranges_ = space.engine()->RangesOf(*space.state());
    }
  }

  Call::Item Add(const KeyValue& record) {
    const std::size_t value_bytes = record.value.size();
    if (Status status = CheckSizes(record.key, value_bytes, false); !status.ok()) {
      operations_.emplace_back().refused = std::move(status);
      return {Last(), 0};
    }
    PartitionQueue* queue = ranges_ == nullptr
                                ? QueueOf(space_.state(), record.key)
                                : &space_.state()->queues[ranges_->IndexOf(AsBytes(record.key))];
    if (value_bytes > limits::kUnstreamedValueBytesMax) {
      open_.erase(queue);  // Later records of this partition go behind this record.
      operations_.emplace_back().alone = &record;
      operations_.back().queue = queue;
      bytes_ += record.key.size() + value_bytes;
      return {Last(), 0};
    }
    OperationHeader header = header_;
    header.key_bytes = static_cast<std::uint16_t>(record.key.size());
    header.value_bytes = static_cast<std::uint16_t>(value_bytes);
    const auto [open, is_new] = open_.try_emplace(queue, operations_.size());
    if (is_new || !HasRoom(operations_[open->second], header.bytes())) {
      open->second = operations_.size();
      operations_.emplace_back().queue = queue;
    }
    Planned& planned = operations_[open->second];
    const auto at = static_cast<std::uint16_t>(planned.pack.count());
    const std::size_t before = planned.pack.bytes().size();
    planned.pack.Add(header, ttl_ms_, AsBytes(record.key), AsBytes(record.value));
    planned.pack_bytes += header.bytes();
    bytes_ += planned.pack.bytes().size() - before;
    return {static_cast<std::uint32_t>(open->second), at};
  }

  CallRef Start(Mode mode, const PutOptions& options, std::vector<Call::Item> items) {
    // A synchronous call sends memory of this object and of the caller. Both outlast the call.
    const bool copies = mode == Mode::kAsync;
    Call* call = Call::Make(operations_.size(), copies ? bytes_ : 0);
    call->set_receipt(options.receipt);
    call->items = std::move(items);
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      const Planned& planned = operations_[i];
      Operation& operation = call->operations()[i];
      operation.queue = planned.queue;
      operation.opcode = wire::Opcode::kPut;
      if (!planned.refused.ok()) {
        call->Refuse(&operation, planned.refused);
        continue;
      }
      const auto keep = [&](std::string_view bytes) {
        return copies ? call->Copy(bytes) : AsBytes(bytes).data();
      };
      if (planned.alone != nullptr) {
        operation.value = keep(planned.alone->value);
        operation.value_bytes = static_cast<std::uint32_t>(planned.alone->value.size());
        operation.key = keep(planned.alone->key);
        operation.key_bytes = static_cast<std::uint32_t>(planned.alone->key.size());
        operation.value_kind = static_cast<wire::ValueKind>(options.kind);
        operation.streamed = true;
        if (options.ttl.has_value()) operation.AddArgument(Argument::kTtlMs, ttl_ms_);
      } else {
        operation.FillPack(operation.queue, planned.pack, keep(AsText(planned.pack.bytes())));
      }
    }
    return StartCall(space_, call, mode, options.timeout, bytes_, ranges_.get());
  }

 private:
  static bool HasRoom(const Planned& planned, std::size_t bytes) {
    return planned.alone == nullptr && planned.pack.count() < limits::kFrameOperationsMax &&
           planned.pack_bytes + bytes <= kPackBytesMax;
  }
  std::uint32_t Last() const { return static_cast<std::uint32_t>(operations_.size() - 1); }

  const Space& space_;
  const OperationHeader header_;
  const std::uint64_t ttl_ms_;
  // Ranges of an ordered namespace at this moment.
  std::shared_ptr<const placement::Ranges> ranges_;
  std::vector<Planned> operations_;  // In the order of calling, for each partition.
  std::unordered_map<PartitionQueue*, std::size_t> open_;  // The last pack of a partition.
  std::size_t bytes_ = 0;
};

}  // namespace

CallRef StartQuietPuts(const Space& space, std::span<const KeyValue> records, Mode mode,
                       const PutOptions& options) {
  Plan plan(space, options);
  std::vector<Call::Item> items;
  items.reserve(records.size());
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (i + kPrefetchAhead < records.size()) {
      __builtin_prefetch(records[i + kPrefetchAhead].key.data());
    }
    items.push_back(plan.Add(records[i]));
  }
  return plan.Start(mode, options, std::move(items));
}

}  // namespace tidepool::internal
