// Merges the groups that clients gave to this node's daemon into packs. Each owner core gets a
// frame, and each client gets the outcomes of its own operations.
//
//   node_aggregator -> [pack merger] -> engine -> partition queue -> core link => owners
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "client/calls/call.h"
#include "client/engine/engine.h"
#include "proto/wire/aggregator.h"
#include "proto/wire/pack.h"

namespace tidepool::internal {

// A frame of a client's that has no outcome yet.
struct ForwardedRequest {
  CoreId core;
  std::uint64_t ticket = 0;
  std::uint64_t deadline_ns = 0;
  std::size_t groups_left = 0;
  std::vector<wire::ForwardedFailure> failures;
};

// Thread-safety: used by the thread that moves the engine on. That thread calls `done`, in a method
// of this class or of the engine.
//
// Invariants: a group waits for room at its destination, lies in the pack of its partition, or
// travels in a call. The groups of a partition keep the order of Add. Each destination has at most
// kFlyingMax calls under way.
class PackMerger {
 public:
  using Done = std::function<void(std::unique_ptr<ForwardedRequest>)>;
  PackMerger(std::shared_ptr<Engine> engine, Done done)
      : engine_(std::move(engine)), done_(std::move(done)) {}
  PackMerger(const PackMerger&) = delete;
  PackMerger& operator=(const PackMerger&) = delete;

  void Add(const wire::ForwardedFrame& frame);
  // Sends all packs that are not empty. Packs of a busy destination go when it is free.
  void Send();
  bool empty() const { return filled_.empty(); }
  // Frames that have no outcome yet.
  std::size_t requests() const { return requests_.size(); }

 private:
  // A group's place in a pack, after all earlier groups.
  struct Segment {
    ForwardedRequest* request = nullptr;
    std::uint16_t first = 0;  // First operation, in its frame.
    std::uint16_t count = 0;
  };
  struct Partition {
    wire::Pack pack;
    std::vector<Segment> segments;
  };
  struct Held {
    ForwardedRequest* request;
    wire::ForwardedGroup group;
    std::shared_ptr<const std::vector<std::byte>> bytes;
  };
  struct Space;
  // A core that owns partitions of a namespace.
  struct Destination {
    const void* identity = nullptr;
    Space* space = nullptr;
    std::vector<std::uint32_t> filled;  // Partitions with packs that are not empty.
    std::uint32_t operations = 0;
    std::size_t bytes = 0;  // Counts each operation with a header.
    std::deque<Held> held;
    std::uint32_t flying = 0;
    bool listed = false;  // In filled_.
    bool due = false;     // To be sent as soon as it may.
  };
  struct Space {
    SpaceState* state = nullptr;
    std::uint64_t epoch = 0;  // Epoch of the map behind the destinations.
    std::vector<Partition> partitions;
    std::vector<std::shared_ptr<Destination>> destination_of;  // Index = partition.
  };
  // Content of a call: the segments of each of its packs.
  struct Cargo {
    std::shared_ptr<Destination> destination;
    std::vector<std::vector<Segment>> packs;
  };

  Result<Space*> FindSpace(NamespaceId id, Epoch epoch);
  void LearnCores(Space* space);
  static bool IsIdle(const Space& space);
  void AddGroup(const Held& held);
  void Put(const std::shared_ptr<Destination>& destination, const Held& held, std::size_t bytes);
  void Send(const std::shared_ptr<Destination>& destination);
  void OnEnded(const CallRef& call, Cargo* cargo);
  void Refill(const std::shared_ptr<Destination>& destination);
  void Fail(ForwardedRequest* request, std::uint32_t first, std::uint32_t count, const Status& why);
  void GroupEnded(ForwardedRequest* request);

  const std::shared_ptr<Engine> engine_;
  const Done done_;
  std::unordered_map<NamespaceId, std::unique_ptr<Space>> spaces_;
  std::vector<std::shared_ptr<Destination>> filled_;
  std::unordered_map<ForwardedRequest*, std::unique_ptr<ForwardedRequest>> requests_;
  std::uint64_t next_refresh_ns_ = 0;
};

}  // namespace tidepool::internal
