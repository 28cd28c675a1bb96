// From the arguments of a public function to a Call, and from a finished Call to its result.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string_view>

#include "client/calls/call.h"
#include "client/engine/space.h"
#include "proto/base/check.h"
#include "proto/base/key_hash.h"
#include "proto/base/result.h"
#include "proto/placement/owner.h"
#include "tidepool/access.h"
#include "tidepool/future.h"
#include "tidepool/namespace.h"
#include "tidepool/receipt.h"

namespace tidepool {
struct CallOptions;  // bytes_map.h
}  // namespace tidepool

namespace tidepool::internal {

// kSync: the caller waits, so keys and values stay in place. kAsync: the caller goes on.
enum class Mode : std::uint8_t { kSync, kAsync };

// An operation on a key, in the terms of the public functions.
struct OperationSpec {
  wire::Opcode opcode = wire::Opcode::kNone;
  std::string_view key;
  std::string_view value;
  std::string_view value_tail;  // CompareAndSwap: the desired value, after the expected value.
  wire::PutCondition condition = wire::PutCondition::kAlways;
  wire::ValueKind value_kind = wire::ValueKind::kBytes;
  // Arguments in their order on the wire.
  struct Word {
    wire::Argument argument;
    std::uint64_t word;
  };
  Word words[kOperationWordsMax] = {};
  std::uint32_t word_count = 0;
  std::chrono::milliseconds timeout{0};
  // The operation waits in the daemon until its time is up.
  bool waits = false;
  Promise promise = Promise::kNone;  // Promise of this call, in addition to the handle's.
  Receipt* receipt = nullptr;        // See CallOptions::receipt.
  std::uint32_t lane = 0;            // Lane of operations on queues, which have no key.

  void Add(wire::Argument argument, std::uint64_t word) { words[word_count++] = {argument, word}; }
};

// kOk, or kInvalidArgument naming the bound. `unstreamed`: the value must travel with the
// operation.
Status CheckSizes(std::string_view key, std::size_t value_bytes, bool unstreamed);

// The queue of the partition that `key` belongs to; of an ordered namespace any of its queues,
// since only the engine knows the ranges of this moment.
inline PartitionQueue* QueueOf(SpaceState* state, std::string_view key) {
  if (state->kind == placement::Kind::kOrdered) return &state->queues[0];
  TP_DCHECK(state->kind != placement::Kind::kQueue || state->queues.size() == 1);
  return &state->queues[placement::PartitionIndexOf(AsBytes(key), state->queues.size())];
}

// The queue of an operation on a queue with or without lanes.
inline PartitionQueue* QueueOfLane(SpaceState* state, std::uint32_t lane) {
  return &state->queues[lane];
}
// Convert between an item's number in its lane and its id. Numbers of a lane are below 2^58, so the
// ids of 64 lanes differ. With one lane, number and id are equal.
inline std::uint64_t ItemIdOf(const Operation& operation, std::uint64_t number) {
  return number * operation.queue->space->queues.size() + operation.queue->id.index();
}
inline std::uint32_t LaneOfItem(const SpaceState& state, std::uint64_t id) {
  return static_cast<std::uint32_t>(id % state.queues.size());
}
inline std::uint64_t NumberOfItem(const SpaceState& state, std::uint64_t id) {
  return id / state.queues.size();
}

// Notifies the caches of the namespace's handle (copy of a prefilter, reads of a round) of a key
// that an operation may write. Notifies before the operation starts, and again when this object
// ends.
class WriteNotice {
 public:
  WriteNotice(const Space& space, wire::Opcode opcode, std::string_view key,
              std::size_t value_bytes);
  WriteNotice(const WriteNotice&) = delete;
  WriteNotice& operator=(const WriteNotice&) = delete;
  ~WriteNotice();

 private:
  void Note() const;

  const Space* const space_;  // Null: nothing is written.
  const std::string_view key_;
  const bool streamed_;
};

// Notifies likewise of items that an operation may bring, or bring back.
class PushNotice {
 public:
  explicit PushNotice(const Namespace& space) : PushNotice(*space.space()) {}
  explicit PushNotice(const Space& space) : space_(space) { space_.NotePush(); }
  PushNotice(const PushNotice&) = delete;
  PushNotice& operator=(const PushNotice&) = delete;
  ~PushNotice() { space_.NotePush(); }

 private:
  const Space& space_;
};

// Starts a call of one operation; kSync also waits for its end. A call that waits may end up to
// kWaitGrace after its timeout if its daemon is silent. This holds for changes and for process
// groups: only then is the outcome, or the absent member, unknown.
CallRef StartOne(const Space& space, const OperationSpec& spec, Mode mode);
inline constexpr std::chrono::milliseconds kWaitGrace{1'000};
// Number of keys to prefetch. Keys of a batch are often scattered over memory, and hashing waits
// for them. With random gets of 64 out of 1 M keys, prefetching cut hashing from 12 % to 9 % of the
// client's CPU time.
inline constexpr std::size_t kPrefetchAhead = 8;
// Returns false for a key that is too long. Only its operation is refused.
bool SetKey(const Space& space, Call* call, Operation* operation, std::string_view key, Mode mode);
// Starts a call with one operation per key, without further arguments.
CallRef StartKeys(const Space& space, wire::Opcode opcode, std::span<const std::string_view> keys,
                  Mode mode, const CallOptions& options);
// Remembers the reads of an ended call, if that was promised. REQUIRES: its keys are still in
// place.
void RememberReads(Call* call);
// Hands a call with filled operations to the engine. `bytes`: the bytes that it moves. `packed_by`:
// see Engine::Submit.
CallRef StartCall(const Space& space, Call* call, Mode mode, std::chrono::milliseconds timeout,
                  std::size_t bytes, const placement::Ranges* packed_by = nullptr);
// Returns a call of one operation that failed before its start.
CallRef FailedCall(const Space& space, const Status& why);

// Returns the only operation of a call.
inline const Operation& Only(const CallRef& call) { return call.get()->operations()[0]; }

}  // namespace tidepool::internal
