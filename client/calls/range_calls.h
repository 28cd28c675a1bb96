// Calls on ranges of keys, which may reach over several partitions: each operation goes to the one
// that has the range's first keys, and its answer says where the next begins.
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

// `option_bits`: of proto/wire/ordered_ops.h, beside those that the range itself says. `limit`: of
// Scan. Bounds are copied also for those that wait: the page is made from them when the answer is
// there.
CallRef StartRange(const Space& space, wire::Opcode opcode, const KeyRange& range,
                   std::uint64_t option_bits, std::uint64_t limit, Mode mode,
                   std::chrono::milliseconds timeout);

// What is left of the range that `operation` asked for; `last_listed`: the last key of its answer.
// None: it is through. Returns: kInternal (the daemon goes back in the range).
Result<std::optional<KeyRange>> RestOf(const Operation& operation, Bytes rest,
                                       std::optional<std::string_view> last_listed);

// Counts or erases piece by piece.
Result<std::uint64_t> SumOver(const Space& space, wire::Opcode opcode, KeyRange range,
                              std::uint64_t option_bits, std::chrono::milliseconds timeout);

// How many records an ordered namespace has: starts to ask all its ranges; and takes the sum.
CallRef StartStoredCount(const Space& space, Mode mode, std::chrono::milliseconds timeout);
Result<std::uint64_t> TakeStoredCount(CallRef call);

}  // namespace tidepool::internal
