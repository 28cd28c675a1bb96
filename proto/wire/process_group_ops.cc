#include "proto/wire/process_group_ops.h"

#include <array>
#include <string>

namespace tidepool::wire {
namespace {

constexpr std::array<std::string_view, 4> kCollectives = {"barrier", "broadcast", "reduce",
                                                          "allreduce"};
constexpr std::array<std::string_view, 3> kReductions = {"sum", "min", "max"};
constexpr std::array<std::string_view, 3> kTypes = {"i64", "u64", "f64"};

Status MalformedMember(std::string_view what) {
  return Status(StatusCode::kInvalidArgument, "malformed " + std::string(what) + " of a group");
}

// Returns whether the contribution behind the header has the size that the call requires.
bool HasRightBytes(const CollectiveCall& call, std::uint32_t rank, std::size_t bytes) {
  switch (call.collective) {
    case Collective::kBarrier:
      return bytes == 0;
    case Collective::kBroadcast:
      return rank == call.root || bytes == 0;
    case Collective::kReduce:
    case Collective::kAllReduce:
      return bytes > 0 && bytes % kElementBytes == 0;
  }
  return false;
}

bool Reduces(Collective collective) {
  return collective == Collective::kReduce || collective == Collective::kAllReduce;
}

}  // namespace

void StoreJoinHeader(const JoinRequest& from, std::byte* to) {
  StoreUnaligned(to, from.member);
  StoreUnaligned(to + 8, from.size);
  StoreUnaligned(to + 12, from.rank);
}

void StoreJoinReply(const JoinReply& from, std::byte* to) {
  StoreUnaligned(to, from.instance);
  StoreUnaligned(to + 8, from.rank);
  StoreUnaligned(to + 12, from.size);
}

void StoreMeetHeader(const MeetRequest& from, std::byte* to) {
  StoreUnaligned(to, from.instance);
  StoreUnaligned(to + 8, from.step);
  StoreUnaligned(to + 16, from.rank);
  StoreUnaligned(to + 20, from.call.root);
  StoreUnaligned(to + 24, std::uint64_t{0});
  to[24] = static_cast<std::byte>(from.call.collective);
  to[25] = static_cast<std::byte>(from.call.reduction);
  to[26] = static_cast<std::byte>(from.call.type);
}

void StoreLeave(const LeaveRequest& from, std::byte* to) {
  StoreUnaligned(to, from.instance);
  StoreUnaligned(to + 8, from.member);
}

Result<JoinRequest> LoadJoin(Bytes from) {
  if (from.size() < kJoinHeaderBytes) return MalformedMember("join");
  JoinRequest join;
  join.member = LoadUnaligned<std::uint64_t>(from.data());
  join.size = LoadUnaligned<std::uint32_t>(from.data() + 8);
  join.rank = LoadUnaligned<std::int32_t>(from.data() + 12);
  join.label = AsText(from.subspan(kJoinHeaderBytes));
  if (join.member == 0 || join.size == 0 || join.size > kProcessGroupSizeMax || join.rank < -1 ||
      join.rank >= static_cast<std::int32_t>(join.size) ||
      join.label.size() > kMemberLabelBytesMax) {
    return MalformedMember("join");
  }
  return join;
}

Result<JoinReply> LoadJoinReply(Bytes from) {
  if (from.size() != kJoinReplyBytes) return MalformedMember("answer to a join");
  JoinReply reply;
  reply.instance = LoadUnaligned<std::uint64_t>(from.data());
  reply.rank = LoadUnaligned<std::uint32_t>(from.data() + 8);
  reply.size = LoadUnaligned<std::uint32_t>(from.data() + 12);
  if (reply.rank >= reply.size) return MalformedMember("answer to a join");
  return reply;
}

Result<MeetRequest> LoadMeet(Bytes from) {
  if (from.size() < kMeetHeaderBytes) return MalformedMember("collective call");
  MeetRequest meet;
  meet.instance = LoadUnaligned<std::uint64_t>(from.data());
  meet.step = LoadUnaligned<std::uint64_t>(from.data() + 8);
  meet.rank = LoadUnaligned<std::uint32_t>(from.data() + 16);
  meet.call.root = LoadUnaligned<std::uint32_t>(from.data() + 20);
  const auto collective = static_cast<std::size_t>(from[24]);
  const auto reduction = static_cast<std::size_t>(from[25]);
  const auto type = static_cast<std::size_t>(from[26]);
  meet.contribution = from.subspan(kMeetHeaderBytes);
  if (collective >= kCollectives.size() || reduction >= kReductions.size() ||
      type >= kTypes.size() || meet.contribution.size() > kContributionBytesMax) {
    return MalformedMember("collective call");
  }
  meet.call.collective = static_cast<Collective>(collective);
  meet.call.reduction = static_cast<Reduction>(reduction);
  meet.call.type = static_cast<ElementType>(type);
  if (!HasRightBytes(meet.call, meet.rank, meet.contribution.size())) {
    return MalformedMember("collective call");
  }
  if (Reduces(meet.call.collective)) {
    meet.call.bytes = static_cast<std::uint32_t>(meet.contribution.size());
  }
  return meet;
}

Result<LeaveRequest> LoadLeave(Bytes from) {
  if (from.size() != kLeaveBytes) return MalformedMember("leave");
  LeaveRequest leave;
  leave.instance = LoadUnaligned<std::uint64_t>(from.data());
  leave.member = LoadUnaligned<std::uint64_t>(from.data() + 8);
  return leave;
}

std::string Describe(const CollectiveCall& call) {
  std::string text(kCollectives[static_cast<std::size_t>(call.collective)]);
  std::string details;
  if (Reduces(call.collective)) {
    details = std::string(kReductions[static_cast<std::size_t>(call.reduction)]) + " of " +
              std::to_string(call.bytes / kElementBytes) + " x " +
              std::string(kTypes[static_cast<std::size_t>(call.type)]);
  }
  if (call.collective == Collective::kBroadcast || call.collective == Collective::kReduce) {
    details += (details.empty() ? "rank " : " at rank ") + std::to_string(call.root);
  }
  return details.empty() ? text : text + " (" + details + ")";
}

}  // namespace tidepool::wire
