// Calls on ranges of keys that may cover several partitions. Each operation goes to the partition
// of the range's first keys. Its answer says where the next operation begins.
//
//   bytes_ordered_map, bytes_map (Length, Iterate) -> [range_calls] -> engine
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "client/calls/calls.h"
#include "proto/base/result.h"
#include "proto/wire/ordered_ops.h"
#include "tidepool/bytes_ordered_map.h"

namespace tidepool::internal {

// `option_bits`: bits of proto/wire/ordered_ops.h, in addition to the range's own. `limit`: limit
// of the scan. Bounds are always copied, because the page is made from them after the answer.
CallRef StartRange(const Space& space, wire::Opcode opcode, const KeyRange& range,
                   std::uint64_t option_bits, std::uint64_t limit, Mode mode,
                   std::chrono::milliseconds timeout);

// Returns the rest of the range that `operation` asked for. `last_listed`: the last key of its
// answer. No value: the range is complete. Returns kInternal if the daemon goes back in the range.
Result<std::optional<KeyRange>> RestOf(const Operation& operation, Bytes rest,
                                       std::optional<std::string_view> last_listed);

// Counts or erases piece by piece.
Result<std::uint64_t> SumOver(const Space& space, wire::Opcode opcode, KeyRange range,
                              std::uint64_t option_bits, std::chrono::milliseconds timeout);

// How many records an ordered namespace has: starts to ask all its ranges; and takes the sum.
CallRef StartStoredCount(const Space& space, Mode mode, std::chrono::milliseconds timeout);
Result<std::uint64_t> TakeStoredCount(CallRef call);

}  // namespace tidepool::internal
