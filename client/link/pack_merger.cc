#include "client/link/pack_merger.h"

#include <algorithm>
#include <string>
#include <utility>

#include "proto/base/check.h"
#include "proto/base/limits.h"

namespace tidepool::internal {
namespace {

// Bound on calls per destination. Like a buffered handle: a call travels while the next call fills.
constexpr std::uint32_t kFlyingMax = 4;
constexpr std::size_t kBytesMax = 56 * 1024;
// A namespace that is absent from the map is new. The merger waits for the newer map that the
// client has, and all else stands still meanwhile. 250 ms were too short on a machine with a load
// of 30. After a wait in vain the merger does not wait again for some time.
constexpr std::uint64_t kRefreshTimeoutMs = 2'000;
constexpr std::uint64_t kRefreshPauseNs = 2'000'000'000;

// Returns the bytes of a group if each of its operations has a header.
std::size_t BytesOf(const wire::ForwardedGroup& group) {
  return group.body.size() + (group.uniform ? group.count * limits::kOperationHeaderBytes : 0);
}

}  // namespace

void PackMerger::Add(const wire::ForwardedFrame& frame) {
  auto owned = std::make_unique<ForwardedRequest>();
  ForwardedRequest* request = owned.get();
  request->core = frame.core;
  request->ticket = frame.ticket;
  // The request ends before its client's own deadline: an outcome that arrives before that says
  // more than the deadline.
  const std::uint64_t now_ns = engine_->Now();
  const std::uint64_t left_ns = frame.deadline_ns > now_ns ? frame.deadline_ns - now_ns : 0;
  request->deadline_ns = now_ns + left_ns / 16 * 15;
  request->groups_left = frame.groups.size() + 1;
  requests_.emplace(request, std::move(owned));
  for (const wire::ForwardedGroup& group : frame.groups) {
    const Result<Space*> space = FindSpace(group.partition.space(), frame.epoch);
    Status why = space.status();
    if (space.ok() && group.partition.index() >= (*space)->partitions.size()) {
      why = Status(StatusCode::kInvalidArgument, "no such partition in this namespace");
    } else if (BytesOf(group) > kBytesMax) {
      why = Status(StatusCode::kInvalidArgument, "a group larger than a buffer");
    }
    if (why.ok()) {
      AddGroup({request, group, frame.bytes});
    } else {
      Fail(request, group.first, group.count, why);
      GroupEnded(request);
    }
  }
  GroupEnded(request);  // Removes the reference that was held until here.
}

Result<PackMerger::Space*> PackMerger::FindSpace(NamespaceId id, Epoch epoch) {
  auto found = spaces_.find(id);
  if (found != spaces_.end() &&
      (found->second->epoch == engine_->epoch_hint() || !IsIdle(*found->second))) {
    return found->second.get();
  }
  const auto known = [&] {
    const placement::PlacementMapPtr map = engine_->map();
    return map != nullptr && map->Find(id) != nullptr;
  };
  if (!known() && engine_->epoch_hint() < epoch.value() && engine_->Now() >= next_refresh_ns_) {
    const Status fresh = engine_->RefreshMap(epoch, Deadline::AfterMs(kRefreshTimeoutMs));
    if (!fresh.ok()) next_refresh_ns_ = engine_->Now() + kRefreshPauseNs;
  }
  SpaceState* state = known() ? engine_->FindSpace(id) : nullptr;
  if (state == nullptr) {
    spaces_.erase(id);
    // This node cannot decide that, because its map is older than the client's.
    if (engine_->epoch_hint() < epoch.value()) {
      return Status(StatusCode::kUnavailable,
                    "the daemon of this machine does not know the namespace yet",
                    "try again in a moment");
    }
    return Status(StatusCode::kNotFound, "the namespace was dropped");
  }
  auto& space = spaces_[id];
  if (space == nullptr) space = std::make_unique<Space>();
  space->state = state;
  LearnCores(space.get());
  return space.get();
}

// REQUIRES: all packs are empty. Destinations with calls under way live until the calls have ended.
void PackMerger::LearnCores(Space* space) {
  space->epoch = engine_->epoch_hint();
  std::vector<const void*> identities = engine_->CoresOf(*space->state);
  // The engine maps keys to ranges, and divides packs that cover several ranges.
  if (space->state->kind == placement::Kind::kOrdered) identities.assign(1, space);
  space->partitions.resize(identities.size());
  space->destination_of.resize(identities.size());
  std::vector<std::shared_ptr<Destination>> destinations;
  for (std::size_t i = 0; i < identities.size(); ++i) {
    auto found = std::find_if(destinations.begin(), destinations.end(),
                              [&](const auto& one) { return one->identity == identities[i]; });
    if (found == destinations.end()) {
      destinations.push_back(std::make_shared<Destination>());
      found = destinations.end() - 1;
      (*found)->identity = identities[i];
      (*found)->space = space;
    }
    space->destination_of[i] = *found;
  }
}

bool PackMerger::IsIdle(const Space& space) {
  return std::all_of(space.destination_of.begin(), space.destination_of.end(), [](const auto& one) {
    return one->operations == 0 && one->held.empty() && one->flying == 0;
  });
}

void PackMerger::AddGroup(const Held& held) {
  const Space& space = *spaces_.at(held.group.partition.space());
  const std::shared_ptr<Destination>& destination =
      space.destination_of[held.group.partition.index()];
  const std::size_t bytes = BytesOf(held.group);
  const auto fits = [&] {
    return destination->operations + held.group.count <= limits::kFrameOperationsMax &&
           destination->bytes + bytes <= kBytesMax;
  };
  if (!destination->held.empty() || (!fits() && destination->flying >= kFlyingMax)) {
    destination->held.push_back(held);
    return;
  }
  if (!fits()) Send(destination);
  Put(destination, held, bytes);
}

void PackMerger::Put(const std::shared_ptr<Destination>& destination, const Held& held,
                     std::size_t bytes) {
  const std::uint32_t index = held.group.partition.index();
  Partition& partition = destination->space->partitions[index];
  if (partition.pack.count() == 0) destination->filled.push_back(index);
  partition.pack.AddEncoded(held.group.body, held.group.uniform, held.group.count);
  partition.segments.push_back({held.request, held.group.first, held.group.count});
  destination->operations += held.group.count;
  destination->bytes += bytes;
  if (destination->listed) return;
  destination->listed = true;
  filled_.push_back(destination);
}

void PackMerger::Send() {
  for (const auto& destination : std::exchange(filled_, {})) {
    destination->listed = false;
    if (destination->operations == 0) continue;
    if (destination->flying < kFlyingMax) {
      Send(destination);
    } else {
      destination->due = true;
    }
  }
}

void PackMerger::Send(const std::shared_ptr<Destination>& destination) {
  std::vector<Partition>& partitions = destination->space->partitions;
  std::size_t bytes = 0;
  for (const std::uint32_t index : destination->filled) {
    bytes += partitions[index].pack.bytes().size();
  }
  auto cargo = std::make_shared<Cargo>();
  cargo->destination = destination;
  SpaceState* state = destination->space->state;
  Call* call = Call::Make(destination->filled.size(), bytes);
  call->space_name = state->name;
  call->urgent = true;
  std::size_t i = 0;
  for (const std::uint32_t index : destination->filled) {
    Partition& partition = partitions[index];
    for (const Segment& segment : partition.segments) {
      call->deadline_ns = std::max(call->deadline_ns, segment.request->deadline_ns);
    }
    call->operations()[i++].FillPack(&state->queues[index], partition.pack,
                                     call->Copy(AsText(partition.pack.bytes())));
    partition.pack.Clear();
    cargo->packs.push_back(std::exchange(partition.segments, {}));
  }
  destination->filled.clear();
  destination->operations = 0;
  destination->bytes = 0;
  destination->due = false;
  ++destination->flying;
  engine_->Submit(call, false);
  engine_->Then(call, [this, cargo](const CallRef& ended) { OnEnded(ended, cargo.get()); });
}

void PackMerger::OnEnded(const CallRef& ref, Cargo* cargo) {
  Call* call = ref.get();
  for (const Call::PackFailure& failure : call->pack_failures()) {
    std::uint32_t at = 0;  // Number of the pack's operations before this segment.
    for (const Segment& segment : cargo->packs[failure.pack]) {
      const std::uint32_t begin = std::max<std::uint32_t>(at, failure.first);
      const std::uint32_t end =
          std::min<std::uint32_t>(at + segment.count, failure.first + failure.count);
      if (begin < end) Fail(segment.request, segment.first + begin - at, end - begin, failure.why);
      at += segment.count;
    }
  }
  for (const auto& segments : cargo->packs) {
    for (const Segment& segment : segments) GroupEnded(segment.request);
  }
  --cargo->destination->flying;
  Refill(cargo->destination);
}

// Continues the groups that waited for an ended call.
void PackMerger::Refill(const std::shared_ptr<Destination>& destination) {
  const bool busy = destination->due || !destination->held.empty();
  for (auto held = std::exchange(destination->held, {}); !held.empty(); held.pop_front()) {
    AddGroup(held.front());
  }
  if (busy && destination->operations > 0 && destination->flying < kFlyingMax) Send(destination);
}

void PackMerger::Fail(ForwardedRequest* request, std::uint32_t first, std::uint32_t count,
                      const Status& why) {
  request->failures.push_back({static_cast<std::uint16_t>(first), static_cast<std::uint16_t>(count),
                               why.code(), std::string(why.what())});
}

void PackMerger::GroupEnded(ForwardedRequest* request) {
  if (--request->groups_left > 0) return;
  auto found = requests_.extract(request);
  std::sort(request->failures.begin(), request->failures.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  done_(std::move(found.mapped()));
}

}  // namespace tidepool::internal
