// Requests and answers of process groups: joining, meeting in a collective call, leaving. Their key
// is the process group's name, which selects the core of the group.
//
//   client/api/group => JoinRequest, MeetRequest, LeaveRequest => daemon/ops/process_group_ops
#pragma once

#include <cstdint>
#include <string_view>

#include "proto/base/bytes.h"
#include "proto/base/result.h"

namespace tidepool::wire {

inline constexpr std::uint32_t kProcessGroupSizeMax = 65'536;
inline constexpr std::size_t kMemberLabelBytesMax = 128;
inline constexpr std::size_t kContributionBytesMax = 16 * 1024;

// {member:8, size:4, rank:4, label}
struct JoinRequest {
  std::uint64_t member = 0;  // A random number of the member's own, not 0; the same each time.
  std::uint32_t size = 0;
  std::int32_t rank = -1;  // -1: any free rank.
  std::string_view label;  // Name of the member in messages.
};
inline constexpr std::size_t kJoinHeaderBytes = 16;

// {instance:8, rank:4, size:4}
struct JoinReply {
  std::uint64_t instance = 0;  // Unique among all groups of this name, also of earlier programs.
  std::uint32_t rank = 0;
  std::uint32_t size = 0;
};
inline constexpr std::size_t kJoinReplyBytes = 16;

enum class Collective : std::uint8_t { kBarrier = 0, kBroadcast = 1, kReduce = 2, kAllReduce = 3 };
enum class Reduction : std::uint8_t { kSum = 0, kMin = 1, kMax = 2 };
enum class ElementType : std::uint8_t { kI64 = 0, kU64 = 1, kF64 = 2 };
inline constexpr std::size_t kElementBytes = 8;

// Parameters that must be equal at all members.
struct CollectiveCall {
  Collective collective = Collective::kBarrier;
  Reduction reduction = Reduction::kSum;
  ElementType type = ElementType::kI64;
  std::uint32_t root = 0;   // Broadcast and reduce.
  std::uint32_t bytes = 0;  // Size of each contribution to a reduction, otherwise 0.

  friend bool operator==(const CollectiveCall&, const CollectiveCall&) = default;
};

// {instance:8, step:8, rank:4, root:4, collective:1, reduction:1, type:1, zero:5, contribution}
struct MeetRequest {
  std::uint64_t instance = 0;
  std::uint64_t step = 0;  // Counts the group's collective calls from 1.
  std::uint32_t rank = 0;
  CollectiveCall call;
  Bytes contribution;
};
inline constexpr std::size_t kMeetHeaderBytes = 32;

// {instance:8, member:8}
struct LeaveRequest {
  std::uint64_t instance = 0;  // 0: a group that has not formed.
  std::uint64_t member = 0;
};
inline constexpr std::size_t kLeaveBytes = 16;

// `to` holds the sizes above; label and contribution follow it on the wire.
void StoreJoinHeader(const JoinRequest& from, std::byte* to);
void StoreJoinReply(const JoinReply& from, std::byte* to);
void StoreMeetHeader(const MeetRequest& from, std::byte* to);
void StoreLeave(const LeaveRequest& from, std::byte* to);

// Views of `from`. Any bytes give a checked value or kInvalidArgument.
Result<JoinRequest> LoadJoin(Bytes from);
Result<JoinReply> LoadJoinReply(Bytes from);
Result<MeetRequest> LoadMeet(Bytes from);
Result<LeaveRequest> LoadLeave(Bytes from);

// Describes a call for messages: "barrier", "reduce (sum of 2 x f64 at rank 0)".
std::string Describe(const CollectiveCall& call);

}  // namespace tidepool::wire
