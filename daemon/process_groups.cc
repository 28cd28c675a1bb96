#include "daemon/process_groups.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "proto/base/check.h"
#include "proto/base/key_hash.h"

namespace tidepool::daemon {
namespace {

// Names in a message; more are counted.
constexpr std::size_t kNamesMax = 8;

std::string Listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kNamesMax); ++i) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  if (names.size() > kNamesMax)
    text += " and " + std::to_string(names.size() - kNamesMax) + " more";
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

std::string ProcessGroups::MissingAtJoin(const Instance& instance) {
  std::string text = std::to_string(instance.members.size()) + " of " +
                     std::to_string(instance.size) + " members have come";
  const bool ranked = std::all_of(instance.members.begin(), instance.members.end(),
                                  [](const Member& member) { return member.rank >= 0; });
  std::vector<std::string> names;
  if (!ranked) {
    for (const Member& member : instance.members) names.push_back(NameOf(member));
    return text + ": " + Listed(names);
  }
  std::vector<bool> there(instance.size);
  for (const Member& member : instance.members) there[static_cast<std::size_t>(member.rank)] = true;
  for (std::size_t rank = 0; rank < there.size(); ++rank) {
    if (!there[rank]) names.push_back("rank " + std::to_string(rank));
  }
  return text + "; missing: " + Listed(names);
}

std::string ProcessGroups::MissingAtCall(const Instance& instance) {
  std::vector<std::string> names;
  for (const Member& member : instance.members) {
    if (!member.arrived) names.push_back(NameOf(member));
  }
  return "not come to the " + wire::Describe(instance.call) + ": " + Listed(names);
}

ProcessGroups::Instance* ProcessGroups::MakeInstance(const Place& place, std::uint32_t size) {
  if (instances_ >= kInstancesMax) DropOldest();
  Instances& list = names_[Key(place.partition.value(), place.name)];
  list.push_back(std::make_unique<Instance>());
  list.back()->size = size;
  ++instances_;
  return list.back().get();
}

// One whose members are gone without a word, most likely: nobody has met there for the longest
// time.
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
  std::erase_if(found->second, [&](const auto& each) { return each.get() == instance; });
  --instances_;
  if (found->second.empty()) names_.erase(found);
}

// Members that asked for no rank get those that are left, in the order of their coming.
void ProcessGroups::Form(Instance* instance, Term term) {
  std::vector<Member> by_rank(instance->size);
  std::vector<bool> taken(instance->size);
  for (Member& member : instance->members) {
    if (member.rank < 0) continue;
    taken[static_cast<std::size_t>(member.rank)] = true;
    by_rank[static_cast<std::size_t>(member.rank)] = std::move(member);
  }
  std::size_t free = 0;
  for (Member& member : instance->members) {
    if (member.id == 0 || member.rank >= 0) continue;
    while (taken[free]) ++free;
    member.rank = static_cast<std::int32_t>(free);
    taken[free] = true;
    by_rank[free] = std::move(member);
  }
  instance->members = std::move(by_rank);
  // The term grows with each start of the daemon, so no number comes again.
  instance->id = (std::uint64_t{term.value()} << 32) | ++formed_;
}

ProcessGroups::Outcome ProcessGroups::Joined(Instance* instance, std::uint64_t member,
                                             std::vector<std::byte>* room) {
  if (instance->broken != StatusCode::kOk) return Failed(instance->broken, instance->why);
  const auto found = std::find_if(instance->members.begin(), instance->members.end(),
                                  [&](const Member& each) { return each.id == member; });
  room->resize(wire::kJoinReplyBytes);
  wire::StoreJoinReply({instance->id, static_cast<std::uint32_t>(found->rank), instance->size},
                       room->data());
  Outcome outcome;
  outcome.value = *room;
  return outcome;
}

ProcessGroups::Outcome ProcessGroups::Join(const Place& place, const wire::JoinRequest& join) {
  Instance* forming = nullptr;
  Member* known = nullptr;
  if (const auto found = names_.find(Key(place.partition.value(), place.name));
      found != names_.end()) {
    for (const auto& instance : found->second) {
      if (instance->id == 0) forming = instance.get();
      for (Member& member : instance->members) {
        if (member.id != join.member) continue;
        if (instance->id != 0) return Joined(instance.get(), join.member, &join_reply_);
        known = &member;
      }
    }
  }
  if (forming == nullptr) forming = MakeInstance(place, join.size);
  forming->used = ++uses_;
  if (join.size != forming->size) {
    return Failed(StatusCode::kInvalidArgument, "the others join a group of " +
                                                    std::to_string(forming->size) +
                                                    ", this one of " + std::to_string(join.size));
  }
  if (known == nullptr) {
    for (const Member& member : forming->members) {
      if (join.rank < 0 || member.rank != join.rank) continue;
      return Failed(StatusCode::kAlreadyExists, NameOf(member) + " is there already");
    }
    forming->members.push_back({join.member, place.session, std::string(join.label), join.rank});
    if (forming->members.size() == forming->size) {
      Form(forming, place.term);
      Outcome outcome = Joined(forming, join.member, &join_reply_);
      outcome.wakes = true;
      return outcome;
    }
  } else {
    known->session = place.session;
  }
  if (!place.may_wait) return Failed(StatusCode::kDeadlineExceeded, MissingAtJoin(*forming));
  Outcome outcome;
  outcome.waits = true;
  return outcome;
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

// Contributions are combined in the order of ranks, so that sums of floating-point numbers are the
// same in each run.
void ProcessGroups::Complete(Instance* instance) {
  const wire::CollectiveCall& call = instance->call;
  std::vector<std::byte>& result = instance->result;
  result.clear();
  if (call.collective == wire::Collective::kBroadcast) {
    result = instance->members[call.root].contribution;
  }
  for (Member& member : instance->members) {
    if (call.bytes > 0) {
      if (member.rank == 0) {
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
  ++instance->step;
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
  Outcome outcome;
  if (meet.step == instance->step) {  // Its answer was lost.
    const bool gets_result =
        instance->done.collective != wire::Collective::kReduce || meet.rank == instance->done.root;
    if (gets_result) outcome.value = instance->result;
    return outcome;
  }
  if (instance->broken != StatusCode::kOk) return Failed(instance->broken, instance->why);
  if (meet.step != instance->step + 1) {
    return Failed(StatusCode::kInvalidArgument, "collective calls of a group are not numbered so");
  }
  Member& member = instance->members[meet.rank];
  member.session = place.session;
  if (!member.arrived) {
    if (instance->arrived > 0 && meet.call != instance->call) {
      Break(instance, StatusCode::kInvalidArgument,
            NameOf(member) + " calls " + wire::Describe(meet.call) + " where " +
                NameOf(instance->members[instance->first_rank]) + " calls " +
                wire::Describe(instance->call));
      outcome = Failed(instance->broken, instance->why);
      outcome.wakes = true;
      return outcome;
    }
    if (contributed_bytes_ + meet.contribution.size() > kContributedBytesMax) {
      return Failed(StatusCode::kResourceExhausted,
                    "more than 64 MiB wait in collective calls on this core; try again");
    }
    if (instance->arrived++ == 0) {
      instance->call = meet.call;
      instance->first_rank = meet.rank;
    }
    member.arrived = true;
    member.contribution.assign(meet.contribution.begin(), meet.contribution.end());
    contributed_bytes_ += meet.contribution.size();
    if (instance->arrived == instance->size) {
      Complete(instance);
      outcome = Meet(place, meet);  // Now it is the last that is complete.
      outcome.wakes = true;
      return outcome;
    }
  }
  if (!place.may_wait) return Failed(StatusCode::kDeadlineExceeded, MissingAtCall(*instance));
  outcome.waits = true;
  return outcome;
}

ProcessGroups::Outcome ProcessGroups::Leave(const Place& place, const wire::LeaveRequest& leave) {
  Outcome outcome;
  const Key key(place.partition.value(), place.name);
  const auto found = names_.find(key);
  if (found == names_.end()) return outcome;
  for (const auto& instance : found->second) {
    if (instance->id != leave.instance) continue;
    const auto member = std::find_if(instance->members.begin(), instance->members.end(),
                                     [&](const Member& each) { return each.id == leave.member; });
    if (member == instance->members.end()) continue;
    if (instance->id == 0) {
      instance->members.erase(member);
    } else {
      member->left = true;
      Break(instance.get(), StatusCode::kAborted, NameOf(*member) + " has left the group");
      outcome.wakes = true;
    }
    const bool empty =
        std::all_of(instance->members.begin(), instance->members.end(), std::mem_fn(&Member::left));
    if (empty) EraseInstance(key, instance.get());
    return outcome;
  }
  return outcome;
}

void ProcessGroups::Suspect(SessionId session, std::uint64_t now_ns) {
  if (instances_ > 0) suspects_.push_back({session, now_ns});
}

// True if somebody who waits is to be told.
bool ProcessGroups::LoseMembers(Instance* instance, absl::FunctionRef<bool(SessionId)> is_lost) {
  if (instance->id == 0) {
    std::erase_if(instance->members, [&](const Member& each) { return is_lost(each.session); });
    return false;
  }
  bool lost = false;
  for (Member& member : instance->members) {
    if (member.left || !is_lost(member.session)) continue;
    member.left = lost = true;
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
      if (std::all_of(instance->members.begin(), instance->members.end(),
                      std::mem_fn(&Member::left))) {
        over.emplace_back(key, instance.get());
      }
    }
    if (told) woken.push_back({PartitionId(key.first), KeyHash(AsBytes(key.second))});
  }
  for (const auto& [key, instance] : over) EraseInstance(key, instance);
  return woken;
}

}  // namespace tidepool::daemon
