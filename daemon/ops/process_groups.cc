#include "daemon/ops/process_groups.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "proto/base/check.h"
#include "proto/base/key_hash.h"

namespace tidepool::daemon {
namespace {

// Names in a message; more are counted.
constexpr std::size_t kNamesMax = 8;

// The first `kNamesMax` of `count` names. `name` gives that of the i-th, or nothing where the i-th
// is not among them.
template <typename Name>
std::string Listed(std::size_t candidates, std::size_t count, Name name) {
  std::string text;
  std::size_t listed = 0;
  for (std::size_t i = 0; i < candidates && listed < std::min(count, kNamesMax); ++i) {
    const std::string each = name(i);
    if (each.empty()) continue;
    text += (listed++ == 0 ? "" : ", ") + each;
  }
  if (count > listed) text += " and " + std::to_string(count - listed) + " more";
  return text;
}

template <typename T>
T Combine(wire::Reduction reduction, T a, T b) {
  switch (reduction) {
    case wire::Reduction::kSum:
      if constexpr (std::is_integral_v<T>) {
        // Wraps around, also where that is undefined for the type itself.
        return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
      } else {
        return a + b;
      }
    case wire::Reduction::kMin:
      return std::min(a, b);
    case wire::Reduction::kMax:
      return std::max(a, b);
  }
  return a;
}

template <typename T>
void Fold(wire::Reduction reduction, Bytes from, std::vector<std::byte>* into) {
  for (std::size_t at = 0; at < from.size(); at += sizeof(T)) {
    const T sum =
        Combine(reduction, LoadUnaligned<T>(into->data() + at), LoadUnaligned<T>(from.data() + at));
    StoreUnaligned(into->data() + at, sum);
  }
}

void Fold(const wire::CollectiveCall& call, Bytes from, std::vector<std::byte>* into) {
  switch (call.type) {
    case wire::ElementType::kI64:
      return Fold<std::int64_t>(call.reduction, from, into);
    case wire::ElementType::kU64:
      return Fold<std::uint64_t>(call.reduction, from, into);
    case wire::ElementType::kF64:
      return Fold<double>(call.reduction, from, into);
  }
}

}  // namespace

ProcessGroups::Outcome ProcessGroups::Failed(StatusCode code, std::string text) {
  Outcome outcome;
  outcome.code = code;
  outcome.text = std::move(text);
  return outcome;
}

std::string ProcessGroups::NameOf(const Member& member) {
  const std::string rank = member.rank < 0 ? "a member" : "rank " + std::to_string(member.rank);
  return member.label.empty() ? rank : rank + " (" + member.label + ")";
}

const std::string& ProcessGroups::MissingAtJoin(Instance* instance) {
  std::string& text = instance->missing;
  if (!text.empty()) return text;
  text = std::to_string(instance->present) + " of " + std::to_string(instance->size) +
         " members have come";
  if (instance->id_of_rank.size() < instance->present) {
    text += ": " + Listed(instance->members.size(), instance->present, [&](std::size_t i) {
              const Member& member = instance->members[i];
              return member.left ? std::string() : NameOf(member);
            });
  } else {
    text += "; missing: " +
            Listed(instance->size, instance->size - instance->present, [&](std::size_t rank) {
              return instance->id_of_rank.contains(static_cast<std::int32_t>(rank))
                         ? std::string()
                         : "rank " + std::to_string(rank);
            });
  }
  return text;
}

const std::string& ProcessGroups::MissingAtCall(Instance* instance) {
  std::string& text = instance->missing;
  if (!text.empty()) return text;
  text = "not come to the " + wire::Describe(instance->call) + ": " +
         Listed(instance->members.size(), instance->size - instance->arrived, [&](std::size_t i) {
           const Member& member = instance->members[i];
           return member.arrived ? std::string() : NameOf(member);
         });
  return text;
}

ProcessGroups::Instance* ProcessGroups::MakeInstance(const Place& place, std::uint32_t size) {
  if (instances_ >= kInstancesMax) DropOldest();
  Instances& list = names_[Key(place.partition.value(), place.name)];
  list.push_back(std::make_unique<Instance>());
  list.back()->size = size;
  ++instances_;
  return list.back().get();
}

// Drops the group that was not used for the longest time; most likely its members died.
void ProcessGroups::DropOldest() {
  const Key* oldest_key = nullptr;
  const Instance* oldest = nullptr;
  for (const auto& [key, list] : names_) {
    for (const auto& instance : list) {
      if (oldest != nullptr && oldest->used <= instance->used) continue;
      oldest = instance.get();
      oldest_key = &key;
    }
  }
  if (oldest != nullptr) EraseInstance(Key(*oldest_key), oldest);
}

void ProcessGroups::EraseInstance(const Key& key, const Instance* instance) {
  const auto found = names_.find(key);
  TP_CHECK(found != names_.end());
  for (const Member& member : instance->members) contributed_bytes_ -= member.contribution.size();
  members_ -= instance->members.size();
  std::erase_if(found->second, [&](const auto& each) { return each.get() == instance; });
  --instances_;
  if (found->second.empty()) names_.erase(found);
}

// Members that asked for no rank get the free ranks in order of arrival.
void ProcessGroups::Form(Instance* instance, Term term) {
  std::vector<Member> by_rank(instance->size);
  std::vector<bool> taken(instance->size);
  const auto place = [&](Member& member) {
    const auto rank = static_cast<std::uint32_t>(member.rank);
    taken[rank] = true;
    instance->by_id[member.id] = rank;
    by_rank[rank] = std::move(member);
  };
  std::vector<Member*> unranked;
  for (Member& member : instance->members) {
    if (member.left) continue;
    if (member.rank >= 0) {
      place(member);
    } else {
      unranked.push_back(&member);
    }
  }
  std::int32_t free = 0;
  for (Member* member : unranked) {
    while (taken[static_cast<std::size_t>(free)]) ++free;
    member->rank = free;
    place(*member);
  }
  members_ -= instance->members.size() - by_rank.size();
  instance->members = std::move(by_rank);
  instance->id_of_rank = {};
  instance->missing.clear();
  // The term grows with each start of the daemon, so each number is unique.
  instance->id = (std::uint64_t{term.value()} << 32) | ++formed_;
}

ProcessGroups::Member* ProcessGroups::FindMember(Instance* instance, std::uint64_t id) {
  const auto found = instance->by_id.find(id);
  return found == instance->by_id.end() ? nullptr : &instance->members[found->second];
}

ProcessGroups::Outcome ProcessGroups::Joined(const Instance& instance, const Member& member,
                                             std::vector<std::byte>* room) {
  if (instance.broken != StatusCode::kOk) return Failed(instance.broken, instance.why);
  room->resize(wire::kJoinReplyBytes);
  wire::StoreJoinReply({instance.id, static_cast<std::uint32_t>(member.rank), instance.size},
                       room->data());
  Outcome outcome;
  outcome.value = *room;
  return outcome;
}

ProcessGroups::Outcome ProcessGroups::Join(const Place& place, const wire::JoinRequest& join) {
  Instance* forming = nullptr;
  if (const auto found = names_.find(Key(place.partition.value(), place.name));
      found != names_.end()) {
    for (const auto& instance : found->second) {
      if (instance->id == 0) {
        forming = instance.get();
      } else if (const Member* member = FindMember(instance.get(), join.member)) {
        return Joined(*instance, *member, &join_reply_);
      }
    }
  }
  if (members_ >= kMembersMax &&
      (forming == nullptr || FindMember(forming, join.member) == nullptr)) {
    return Failed(StatusCode::kResourceExhausted,
                  std::to_string(members_) +
                      " members are in groups of this core; leave groups that are over");
  }
  if (forming == nullptr) forming = MakeInstance(place, join.size);
  forming->used = ++uses_;
  if (join.size != forming->size) {
    return Failed(StatusCode::kInvalidArgument, "the others join a group of " +
                                                    std::to_string(forming->size) +
                                                    ", this one of " + std::to_string(join.size));
  }
  if (Member* known = FindMember(forming, join.member)) {
    known->session = place.session;
  } else if (Outcome refused = AddMember(forming, place, join); refused.code != StatusCode::kOk) {
    return refused;
  } else if (forming->present == forming->size) {
    Form(forming, place.term);
    Outcome outcome = Joined(*forming, *FindMember(forming, join.member), &join_reply_);
    outcome.wakes = true;
    return outcome;
  }
  if (!place.may_wait) return Failed(StatusCode::kDeadlineExceeded, MissingAtJoin(forming));
  Outcome outcome;
  outcome.waits = true;
  return outcome;
}

// Returns kOk, or why the caller cannot be a member.
ProcessGroups::Outcome ProcessGroups::AddMember(Instance* forming, const Place& place,
                                                const wire::JoinRequest& join) {
  if (const auto taken = forming->id_of_rank.find(join.rank); taken != forming->id_of_rank.end()) {
    return Failed(StatusCode::kAlreadyExists,
                  NameOf(*FindMember(forming, taken->second)) + " is there already");
  }
  std::vector<Member>& members = forming->members;
  if (members.size() >= 2 * std::size_t{forming->present} + 16) {
    members_ -= std::erase_if(members, std::mem_fn(&Member::left));
    for (std::uint32_t i = 0; i < members.size(); ++i) forming->by_id[members[i].id] = i;
  }
  forming->by_id[join.member] = static_cast<std::uint32_t>(members.size());
  if (join.rank >= 0) forming->id_of_rank[join.rank] = join.member;
  members.push_back({join.member, place.session, std::string(join.label), join.rank});
  ++members_;
  ++forming->present;
  forming->missing.clear();
  return {};
}

// The member has not left before.
void ProcessGroups::RemoveMember(Instance* instance, Member* member) {
  member->left = true;
  --instance->present;
  if (instance->id != 0) return;
  instance->by_id.erase(member->id);
  if (member->rank >= 0) instance->id_of_rank.erase(member->rank);
  instance->missing.clear();
}

void ProcessGroups::Break(Instance* instance, StatusCode code, std::string why) {
  if (instance->broken != StatusCode::kOk) return;
  instance->broken = code;
  instance->why = std::move(why);
  for (Member& member : instance->members) {
    contributed_bytes_ -= member.contribution.size();
    member.contribution = {};
  }
}

// Combines contributions in the order of ranks, so that floating-point sums are equal in each run.
void ProcessGroups::Complete(Instance* instance) {
  const wire::CollectiveCall& call = instance->call;
  std::vector<std::byte>& result = instance->result;
  result.clear();
  if (call.collective == wire::Collective::kBroadcast) {
    result = instance->members[call.root].contribution;
  }
  for (Member& member : instance->members) {
    if (call.bytes > 0) {
      if (&member == &instance->members.front()) {
        result = member.contribution;
      } else {
        Fold(call, member.contribution, &result);
      }
    }
    contributed_bytes_ -= member.contribution.size();
    member.contribution = {};
    member.arrived = false;
  }
  instance->done = call;
  instance->arrived = 0;
  instance->missing.clear();
  ++instance->step;
}

// Breaks the group: answers the caller, and marks its waiters to be answered.
ProcessGroups::Outcome ProcessGroups::BreakFor(Instance* instance, std::string why) {
  Break(instance, StatusCode::kInvalidArgument, std::move(why));
  Outcome outcome = Failed(instance->broken, instance->why);
  outcome.wakes = true;
  return outcome;
}

// A repeated call: its answer was lost, or its time was up before the other members came. In the
// second case the member may have gone on to another call, which needs another result.
ProcessGroups::Outcome ProcessGroups::Repeated(Instance* instance, const wire::MeetRequest& meet) {
  if (meet.call != instance->done) {
    return BreakFor(instance, NameOf(instance->members[meet.rank]) + " calls " +
                                  wire::Describe(meet.call) + " where the others have called " +
                                  wire::Describe(instance->done));
  }
  Outcome outcome;
  const bool gets_result =
      instance->done.collective != wire::Collective::kReduce || meet.rank == instance->done.root;
  if (gets_result) outcome.value = instance->result;
  return outcome;
}

ProcessGroups::Outcome ProcessGroups::Meet(const Place& place, const wire::MeetRequest& meet) {
  Instance* instance = nullptr;
  if (const auto found = names_.find(Key(place.partition.value(), place.name));
      found != names_.end()) {
    for (const auto& each : found->second) {
      if (each->id == meet.instance && meet.instance != 0) instance = each.get();
    }
  }
  if (instance == nullptr) {
    return Failed(StatusCode::kAborted,
                  "the group is not known any more: all have left, or its node was restarted");
  }
  instance->used = ++uses_;
  if (meet.rank >= instance->size || meet.call.root >= instance->size) {
    return Failed(StatusCode::kInvalidArgument,
                  "the group has ranks 0 to " + std::to_string(instance->size - 1));
  }
  if (meet.step == instance->step && meet.step != 0) return Repeated(instance, meet);
  if (instance->broken != StatusCode::kOk) return Failed(instance->broken, instance->why);
  if (meet.step != instance->step + 1) {
    return Failed(StatusCode::kInvalidArgument, "collective calls of a group are not numbered so");
  }
  Member& member = instance->members[meet.rank];
  member.session = place.session;
  // Also of a member that has come to it: its time was up, and it has gone on to another.
  if (instance->arrived > 0 && meet.call != instance->call) {
    const Member& first = instance->members[member.arrived ? meet.rank : instance->first_rank];
    return BreakFor(instance, NameOf(member) + " calls " + wire::Describe(meet.call) + " where " +
                                  (member.arrived ? "it" : NameOf(first)) + " calls " +
                                  wire::Describe(instance->call));
  }
  if (!member.arrived) {
    if (contributed_bytes_ + meet.contribution.size() > kContributedBytesMax) {
      return Failed(StatusCode::kResourceExhausted,
                    "more than 64 MiB wait in collective calls on this core; try again");
    }
    if (instance->arrived++ == 0) {
      instance->call = meet.call;
      instance->first_rank = meet.rank;
    }
    member.arrived = true;
    instance->missing.clear();
    member.contribution.assign(meet.contribution.begin(), meet.contribution.end());
    contributed_bytes_ += meet.contribution.size();
    if (instance->arrived == instance->size) {
      Complete(instance);
      Outcome outcome = Repeated(instance, meet);  // Now it is the last that is complete.
      outcome.wakes = true;
      return outcome;
    }
  }
  if (!place.may_wait) return Failed(StatusCode::kDeadlineExceeded, MissingAtCall(instance));
  Outcome outcome;
  outcome.waits = true;
  return outcome;
}

ProcessGroups::Outcome ProcessGroups::Leave(const Place& place, const wire::LeaveRequest& leave) {
  Outcome outcome;
  const Key key(place.partition.value(), place.name);
  const auto found = names_.find(key);
  if (found == names_.end()) return outcome;
  for (const auto& instance : found->second) {
    // A client that gave up joining does not know whether the group has formed meanwhile.
    if (leave.instance != 0 && instance->id != leave.instance) continue;
    Member* member = FindMember(instance.get(), leave.member);
    if (member == nullptr || member->left) continue;
    RemoveMember(instance.get(), member);
    if (instance->id != 0) {
      Break(instance.get(), StatusCode::kAborted, NameOf(*member) + " has left the group");
      outcome.wakes = true;
    }
    if (instance->present == 0) EraseInstance(key, instance.get());
    return outcome;
  }
  return outcome;
}

void ProcessGroups::Suspect(SessionId session, std::uint64_t now_ns) {
  if (instances_ > 0) suspects_.push_back({session, now_ns});
}

// Returns true if waiters must be answered.
bool ProcessGroups::LoseMembers(Instance* instance, absl::FunctionRef<bool(SessionId)> is_lost) {
  bool lost = false;
  for (Member& member : instance->members) {
    if (member.left || !is_lost(member.session)) continue;
    RemoveMember(instance, &member);
    if (instance->id == 0) continue;
    lost = true;
    Break(instance, StatusCode::kAborted, NameOf(member) + " has lost its connection");
  }
  return lost;
}

std::vector<ProcessGroups::Name> ProcessGroups::CheckSuspects(
    std::uint64_t now_ns, absl::FunctionRef<bool(SessionId)> is_connected) {
  std::vector<Name> woken;
  if (suspects_.empty() || now_ns < suspects_.front().since_ns + kLostAfterNs) return woken;
  absl::flat_hash_map<std::uint64_t, bool> lost;
  std::erase_if(suspects_, [&](const Suspected& suspect) {
    if (now_ns < suspect.since_ns + kLostAfterNs) return false;
    if (!is_connected(suspect.session)) lost[suspect.session.value()] = true;
    return true;
  });
  if (lost.empty()) return woken;
  const auto is_lost = [&](SessionId session) { return lost.contains(session.value()); };
  std::vector<std::pair<Key, const Instance*>> over;
  for (auto& [key, list] : names_) {
    bool told = false;
    for (const auto& instance : list) {
      told = LoseMembers(instance.get(), is_lost) || told;
      if (instance->present == 0) over.emplace_back(key, instance.get());
    }
    if (told) woken.push_back({PartitionId(key.first), KeyHash(AsBytes(key.second))});
  }
  for (const auto& [key, instance] : over) EraseInstance(key, instance);
  return woken;
}

}  // namespace tidepool::daemon
