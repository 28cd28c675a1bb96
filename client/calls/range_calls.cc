#include "client/calls/range_calls.h"

#include <string>
#include <utility>

namespace tidepool::internal {
namespace {

using wire::Argument;
using wire::Opcode;
using wire::RangeRest;

std::uint64_t OptionBits(const KeyRange& range) {
  return (range.after_begin ? wire::kRangeAfterBegin : 0) |
         (range.end.has_value() ? wire::kRangeHasEnd : 0);
}

KeyRange RangeOf(const Operation& operation) {
  const std::uint64_t bits = operation.Word(Argument::kOptions);
  KeyRange range;
  range.begin = AsText(operation.key_view());
  range.after_begin = (bits & wire::kRangeAfterBegin) != 0;
  if ((bits & wire::kRangeHasEnd) != 0) {
    range.end = std::string(AsText(Bytes(operation.value, operation.value_bytes)));
  }
  return range;
}

}  // namespace

CallRef StartRange(const Space& space, Opcode opcode, const KeyRange& range,
                   std::uint64_t option_bits, std::uint64_t limit, Mode mode,
                   std::chrono::milliseconds timeout) {
  const std::string_view end = range.end.has_value() ? *range.end : std::string_view();
  for (const std::string_view bound : {std::string_view(range.begin), end}) {
    const Status status = CheckSizes(bound, 0, true);
    if (!status.ok()) return FailedCall(space, status);
  }
  Call* call = Call::Make(1, range.begin.size() + end.size());
  Operation& operation = call->operations()[0];
  operation.queue = QueueOf(space.state(), range.begin);
  operation.opcode = opcode;
  operation.key = call->Copy(range.begin);
  operation.key_bytes = static_cast<std::uint32_t>(range.begin.size());
  operation.value = call->Copy(end);
  operation.value_bytes = static_cast<std::uint32_t>(end.size());
  if (opcode == Opcode::kScan) operation.AddArgument(Argument::kOperand, limit);
  operation.AddArgument(Argument::kOptions, option_bits | OptionBits(range));
  return StartCall(space, call, mode, timeout, 0);
}

Result<std::optional<KeyRange>> RestOf(const Operation& operation, Bytes rest_bytes,
                                       std::optional<std::string_view> last_listed) {
  const Status back(StatusCode::kInternal, "the daemon goes back in the range");
  const auto rest = wire::LoadRangeRest(rest_bytes);
  if (!rest.ok()) return rest.status();
  if (rest->kind == RangeRest::Kind::kDone) return std::optional<KeyRange>();
  KeyRange left = RangeOf(operation);
  std::string_view from = AsText(rest->key);
  if (rest->kind == RangeRest::Kind::kBehindListed) {
    // Nothing passed and more to come would be asked for again for ever.
    if (!last_listed.has_value()) return back;
    from = *last_listed;
  }
  // A piece never ends before it began, so the loop ends whatever the daemon answers.
  if ((operation.Word(Argument::kOptions) & wire::kScanReverse) != 0) {
    if (rest->kind == RangeRest::Kind::kFromKey || (left.end.has_value() && from >= *left.end)) {
      return back;
    }
    left.end = std::string(from);
    return std::optional(std::move(left));
  }
  const bool inclusive = rest->kind == RangeRest::Kind::kFromKey;
  if (from < left.begin || (from == left.begin && (inclusive || left.after_begin))) return back;
  left.begin = from;
  left.after_begin = !inclusive;
  return std::optional(std::move(left));
}

Result<std::uint64_t> SumOver(const Space& space, Opcode opcode, KeyRange range,
                              std::uint64_t option_bits, std::chrono::milliseconds timeout) {
  std::uint64_t sum = 0;
  for (;;) {
    const CallRef call = StartRange(space, opcode, range, option_bits, 0, Mode::kSync, timeout);
    const Operation& operation = Only(call);
    if (operation.code != StatusCode::kOk) return call.get()->StatusOf(operation);
    sum += operation.number;
    auto rest = RestOf(operation, AsBytes(operation.result), std::nullopt);
    if (!rest.ok()) return rest.status();
    if (!rest->has_value()) return sum;
    range = *std::move(*rest);
  }
}

CallRef StartStoredCount(const Space& space, Mode mode, std::chrono::milliseconds timeout) {
  const auto ranges = space.engine()->RangesOf(*space.state());
  std::size_t bytes = 0;
  for (const std::uint32_t index : ranges->order()) bytes += 2 * ranges->BeginOf(index).size();
  Call* call = Call::Make(ranges->size(), bytes);
  for (std::uint32_t i = 0; i < ranges->size(); ++i) {
    const std::string& begin = ranges->BeginOf(i);
    const std::string* end = ranges->EndOf(i);
    Operation& operation = call->operations()[i];
    operation.queue = QueueOf(space.state(), begin);
    operation.opcode = Opcode::kCountRange;
    operation.key = call->Copy(begin);
    operation.key_bytes = static_cast<std::uint32_t>(begin.size());
    if (end != nullptr) {
      operation.value = call->Copy(*end);
      operation.value_bytes = static_cast<std::uint32_t>(end->size());
    }
    operation.AddArgument(Argument::kOptions,
                          wire::kCountStored | (end != nullptr ? wire::kRangeHasEnd : 0));
  }
  return StartCall(space, call, mode, timeout, 0);
}

Result<std::uint64_t> TakeStoredCount(CallRef ref) {
  Call* call = ref.get();
  std::uint64_t sum = 0;
  for (const Operation& operation : call->operations()) {
    if (operation.code != StatusCode::kOk) return call->StatusOf(operation);
    sum += operation.number;
    auto rest = RestOf(operation, AsBytes(operation.result), std::nullopt);
    if (!rest.ok()) return rest.status();
    if (!rest->has_value()) continue;
    // The range has been split meanwhile.
    const auto engine = call->engine->Shared();
    if (engine == nullptr) return Status(StatusCode::kCancelled, "the client is closed");
    const auto more = SumOver(Space(engine, operation.queue->space), Opcode::kCountRange,
                              *std::move(*rest), wire::kCountStored, std::chrono::milliseconds(0));
    if (!more.ok()) return more.status();
    sum += *more;
  }
  return sum;
}

}  // namespace tidepool::internal
