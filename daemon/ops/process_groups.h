// Process groups: joining, barriers, broadcasts, reductions. A group lives on the core that owns
// its name; the calls of its members wait there for each other.
//
//   daemon/ops/process_group_ops -> [process_groups]; lost connections come from
//   daemon/core/dispatcher
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/functional/function_ref.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/base/bytes.h"
#include "proto/base/ids.h"
#include "proto/base/status.h"
#include "proto/wire/process_group_ops.h"

namespace tidepool::daemon {

// Owner core only. Each request may arrive any number of times: a join is identified by its
// member's number, a collective call by its step, and a repetition counts once. Requests are
// therefore repeated safely, also over broken connections, and only the last result must be kept
// for that.
//
// All members of a group see the same result or the same failure. A group breaks for good if a
// member leaves or loses its connection for kLostAfterNs, or if two members make different calls.
// Its members then join again, which makes a new group of the same name.
//
// Memory is outside the daemon's budget for records, and bounded: kContributedBytesMax,
// kInstancesMax groups, and kMembersMax members of all groups with some 300 bytes each, label
// included: 75 MiB.
//
// Work: a join, a call or a leave costs O(1), and O(members) when it completes or breaks the group.
// Naming the missing members costs O(members) once after each arrival or departure, however many
// callers ask.
class ProcessGroups {
 public:
  // A client that only lost its connection is back in milliseconds.
  static constexpr std::uint64_t kLostAfterNs = 2'000'000'000;
  static constexpr std::size_t kContributedBytesMax = 64ull << 20;
  static constexpr std::size_t kInstancesMax = 4'096;
  static constexpr std::size_t kMembersMax = 4 * wire::kProcessGroupSizeMax;

  // Origin and progress of a request.
  struct Place {
    PartitionId partition;
    std::string_view name;
    SessionId session;
    Term term;
    bool may_wait = false;
  };
  struct Outcome {
    bool waits = false;  // The call waits for other members; only `wakes` is set besides.
    bool wakes = false;  // Waiters for this group may proceed.
    StatusCode code = StatusCode::kOk;
    std::string text;  // Text of a failure.
    Bytes value;       // Valid until the next call.
  };

  // Adds a member. Errors: kInvalidArgument (a size that differs from the other members'),
  // kAlreadyExists (the rank is taken), kDeadlineExceeded (naming the missing members), kAborted
  // (broken), kResourceExhausted.
  Outcome Join(const Place& place, const wire::JoinRequest& join);
  // Makes a collective call. Errors: kInvalidArgument (members made different calls, or no such
  // rank), kDeadlineExceeded (naming the missing members), kAborted (broken or forgotten),
  // kResourceExhausted.
  Outcome Meet(const Place& place, const wire::MeetRequest& meet);
  Outcome Leave(const Place& place, const wire::LeaveRequest& leave);

  // Records that the session's connection is gone.
  void Suspect(SessionId session, std::uint64_t now_ns);
  // Breaks the groups of clients that did not come back. Returns the names whose waiters are to be
  // tried again.
  struct Name {
    PartitionId partition;
    std::uint64_t hash = 0;
  };
  std::vector<Name> CheckSuspects(std::uint64_t now_ns,
                                  absl::FunctionRef<bool(SessionId)> is_connected);

 private:
  struct Member {
    std::uint64_t id = 0;
    SessionId session;
    std::string label;
    std::int32_t rank = -1;  // Requested rank; after forming, its index in the list.
    bool arrived = false;    // Has made the collective call under way.
    bool left = false;
    std::vector<std::byte> contribution;
  };
  struct Instance {
    std::uint64_t id = 0;  // 0 while the group forms.
    std::uint32_t size = 0;
    std::uint64_t used = 0;  // Last use, by a count of all uses.
    // In order of arrival; after forming, in order of ranks. Members that left stay in the list;
    // while the group forms, only until they are as many as the others.
    std::vector<Member> members;
    std::uint32_t present = 0;                                // Members that have not left.
    absl::flat_hash_map<std::uint64_t, std::uint32_t> by_id;  // Index in `members`.
    // Requested ranks, while the group forms.
    absl::flat_hash_map<std::int32_t, std::uint64_t> id_of_rank;
    std::string missing;  // Text that names the missing members; empty: to be determined.
    // The collective call under way, once `arrived` > 0.
    std::uint32_t arrived = 0;
    std::uint32_t first_rank = 0;  // Rank that defined the call.
    wire::CollectiveCall call;
    // The last complete call.
    std::uint64_t step = 0;
    wire::CollectiveCall done;
    std::vector<std::byte> result;
    // Reason why the group is unusable; kOk: usable.
    StatusCode broken = StatusCode::kOk;
    std::string why;
  };
  using Instances = std::vector<std::unique_ptr<Instance>>;
  using Key = std::pair<std::uint32_t, std::string>;  // Partition and name.

  Instance* MakeInstance(const Place& place, std::uint32_t size);
  Outcome AddMember(Instance* forming, const Place& place, const wire::JoinRequest& join);
  void RemoveMember(Instance* instance, Member* member);
  static Member* FindMember(Instance* instance, std::uint64_t id);
  void DropOldest();
  void Form(Instance* instance, Term term);
  void Complete(Instance* instance);
  void Break(Instance* instance, StatusCode code, std::string why);
  void EraseInstance(const Key& key, const Instance* instance);
  bool LoseMembers(Instance* instance, absl::FunctionRef<bool(SessionId)> is_lost);
  static Outcome Failed(StatusCode code, std::string text);
  static Outcome Joined(const Instance& instance, const Member& member,
                        std::vector<std::byte>* room);
  Outcome BreakFor(Instance* instance, std::string why);
  Outcome Repeated(Instance* instance, const wire::MeetRequest& meet);
  static std::string NameOf(const Member& member);
  static const std::string& MissingAtJoin(Instance* instance);
  static const std::string& MissingAtCall(Instance* instance);

  absl::flat_hash_map<Key, Instances> names_;
  std::size_t instances_ = 0;
  std::size_t members_ = 0;
  std::size_t contributed_bytes_ = 0;
  std::uint64_t uses_ = 0;
  std::uint32_t formed_ = 0;
  std::vector<std::byte> join_reply_;
  struct Suspected {
    SessionId session;
    std::uint64_t since_ns = 0;
  };
  std::vector<Suspected> suspects_;
};

}  // namespace tidepool::daemon
