// Room that the answer of an operation may need beside its fixed entry, whatever it finds. The
// client sets it aside, and the daemon keeps it free of the values of earlier operations in the
// same frame.
//
//   client/link/core_link [ReplyRoomOf] => daemon/core/dispatcher
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "proto/base/limits.h"
#include "proto/wire/bloom_ops.h"
#include "proto/wire/opcode.h"
#include "proto/wire/ordered_ops.h"
#include "proto/wire/prefilter_ops.h"
#include "proto/wire/process_group_ops.h"
#include "proto/wire/queue_ops.h"
#include "proto/wire/show_ops.h"

namespace tidepool::wire {

// Bytes of an answer beside its value: entry header, version and number.
inline constexpr std::uint32_t kReplyEntryBytes =
    limits::kAnswerHeaderBytes + 8 * limits::kAnswerArgumentsMax;
// A page of records: the largest answer frame that there is.
inline constexpr std::uint32_t kReplyPageBytes =
    limits::kFrameBytesMax - limits::kFrameHeaderBytes - 2 * kReplyEntryBytes;

namespace internal {

constexpr std::array<std::uint32_t, static_cast<std::size_t>(kOpcodeEnd)> MakeReplyRooms() {
  std::array<std::uint32_t, static_cast<std::size_t>(kOpcodeEnd)> rooms{};
  const auto set = [&rooms](Opcode opcode, std::size_t bytes) {
    rooms[static_cast<std::size_t>(opcode)] = static_cast<std::uint32_t>(bytes);
  };
  set(Opcode::kIterate, kReplyPageBytes);
  set(Opcode::kShow, kShownBytesMax);
  set(Opcode::kScan, kReplyPageBytes);
  set(Opcode::kCountRange, kRangeRestBytesMax);
  set(Opcode::kEraseRange, kRangeRestBytesMax);
  set(Opcode::kPushMany, kPushManyRestBytes);
  set(Opcode::kPop, kDeliveredItemHeaderBytes);  // An item, whose value is streamed.
  set(Opcode::kPeek, kDeliveredItemHeaderBytes);
  set(Opcode::kQueueLength, kQueueLengthsBytes);
  set(Opcode::kGroupJoin, kContributionBytesMax);  // Missing members.
  set(Opcode::kGroupMeet, kContributionBytesMax);  // The result, or the missing members.
  set(Opcode::kChain, limits::kUnstreamedValueBytesMax);
  set(Opcode::kApply, limits::kFunctionResultBytesMax);
  set(Opcode::kBloomDescribe, kFilterSummaryBytes);
  set(Opcode::kBloomRead, limits::kUnstreamedValueBytesMax);
  set(Opcode::kPrefilterDescribe, kPrefilterSummaryBytes);
  set(Opcode::kPrefilterRead, limits::kUnstreamedValueBytesMax);
  return rooms;
}
inline constexpr auto kReplyRooms = MakeReplyRooms();

}  // namespace internal

// Returns 0 for operations that return numbers, and where a value without room is streamed.
constexpr std::uint32_t ReplyRoomOf(Opcode opcode) {
  return internal::kReplyRooms[static_cast<std::size_t>(opcode)];
}

}  // namespace tidepool::wire
