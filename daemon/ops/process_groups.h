// Groups of processes that meet: joining, barriers, broadcasts, reductions. A group lives on the
// core that owns its name; its members' calls wait there for each other.
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

// Owner core only. Each request may come any number of times: a join is known by its member's
// number, a collective call by its step, and what has been counted is not counted again. So
// requests are repeated safely, over broken connections too, and nothing needs to be kept for that
// but the last result.
//
// A group's members see one result or one failure. The failures: a member left or lost its
// connection for kLostAfterNs, or two members called different things. Then the group is broken for
// good, and its members join anew, which makes another group under the same name.
//
// Memory is outside the daemon's budget for records, and bounded: kContributedBytesMax,
// kInstancesMax groups, and kMembersMax members of all groups with some 300 bytes each, label
// included: 75 MiB.
//
// Work: a join, a call or a leave costs O(1), and O(members) where it completes or breaks the
// group. Naming who is missing costs O(members) once after each that has come or gone, however many
// ask.
class ProcessGroups {
 public:
  // A client that only lost a connection is back in milliseconds.
  static constexpr std::uint64_t kLostAfterNs = 2'000'000'000;
  static constexpr std::size_t kContributedBytesMax = 64ull << 20;
  static constexpr std::size_t kInstancesMax = 4'096;
  static constexpr std::size_t kMembersMax = 4 * wire::kProcessGroupSizeMax;

  // Where a request came from and how far it got.
  struct Place {
    PartitionId partition;
    std::string_view name;
    SessionId session;
    Term term;
    bool may_wait = false;
  };
  struct Outcome {
    bool waits = false;  // For others; nothing else is set but `wakes`.
    bool wakes = false;  // Those who wait for this group have something to gain.
    StatusCode code = StatusCode::kOk;
    std::string text;  // Of a failure.
    Bytes value;       // Valid until the next call.
  };

  // Errors: kInvalidArgument (another size than the others say), kAlreadyExists (the rank is
  // taken), kDeadlineExceeded (naming who is missing), kAborted (broken), kResourceExhausted.
  Outcome Join(const Place& place, const wire::JoinRequest& join);
  // Errors: kInvalidArgument (members called different things, or no such rank), kDeadlineExceeded
  // (naming who is missing), kAborted (broken, or not known any more), kResourceExhausted.
  Outcome Meet(const Place& place, const wire::MeetRequest& meet);
  Outcome Leave(const Place& place, const wire::LeaveRequest& leave);

  // The session's connection is gone.
  void Suspect(SessionId session, std::uint64_t now_ns);
  // Breaks the groups of those who did not come back. Returns the names whose waiters are to be
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
    std::int32_t rank = -1;  // Asked for; once formed its place in the list.
    bool arrived = false;    // At the collective call under way.
    bool left = false;
    std::vector<std::byte> contribution;
  };
  struct Instance {
    std::uint64_t id = 0;  // 0 while it forms.
    std::uint32_t size = 0;
    std::uint64_t used = 0;  // When, by the count of all uses.
    // In the order of their coming; once formed, of their ranks. Those that have left stay: while
    // it forms until they are as many as the others.
    std::vector<Member> members;
    std::uint32_t present = 0;                                // Members that have not left.
    absl::flat_hash_map<std::uint64_t, std::uint32_t> by_id;  // Where in `members` they stand.
    // Of those who asked for a rank, while it forms.
    absl::flat_hash_map<std::int32_t, std::uint64_t> id_of_rank;
    std::string missing;  // Who is; empty: to be looked up.
    // The collective call under way, once `arrived` > 0.
    std::uint32_t arrived = 0;
    std::uint32_t first_rank = 0;  // Who said what it is.
    wire::CollectiveCall call;
    // The last that is complete.
    std::uint64_t step = 0;
    wire::CollectiveCall done;
    std::vector<std::byte> result;
    // Why it is of no use any more; kOk: it is.
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
