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

// Whether the caller waits, so that keys and values may stay where they are, or goes on.
enum class Mode : std::uint8_t { kSync, kAsync };

// One operation on one key, as the public functions describe it.
struct OperationSpec {
  wire::Opcode opcode = wire::Opcode::kNone;
  std::string_view key;
  std::string_view value;
  std::string_view value_tail;  // CompareAndSwap: the desired value, behind the expected one.
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
  // Whether it waits in the daemon for what it asks, until its time is up.
  bool waits = false;
  Promise promise = Promise::kNone;  // Of this call, beside those of the handle.
  Receipt* receipt = nullptr;        // As CallOptions::receipt.
  std::uint32_t lane = 0;            // Of operations on queues, which have no key.

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
// What an item is called beyond its lane, and the reverse. Numbers of a lane are below 2^58, so
// those of 64 lanes are different ones; with one lane they are the same.
inline std::uint64_t ItemIdOf(const Operation& operation, std::uint64_t number) {
  return number * operation.queue->space->queues.size() + operation.queue->id.index();
}
inline std::uint32_t LaneOfItem(const SpaceState& state, std::uint64_t id) {
  return static_cast<std::uint32_t>(id % state.queues.size());
}
inline std::uint64_t NumberOfItem(const SpaceState& state, std::uint64_t id) {
  return id / state.queues.size();
}

// Tells what the namespace's handle keeps of it in this process (a copy of a prefilter, what was
// read in a round) of a key that an operation may write: before the operation is started and, at
// the end of its life, after that.
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

// The same of items that an operation may bring, or bring back.
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

// Starts a call of one operation; kSync: and waits until it has ended. One that waits, and
// changes something or belongs to a process group, ends up to kWaitGrace later than its timeout
// says, where its daemon does not answer: only then it is unknown what became of it, or who was
// missing.
CallRef StartOne(const Space& space, const OperationSpec& spec, Mode mode);
inline constexpr std::chrono::milliseconds kWaitGrace{1'000};
// Keys of a batch are often scattered over memory, and hashing one waits for it. With random gets
// of 64 out of 1 M keys, hashing fell from 12 % to 9 % of the client's CPU time by asking a few
// ahead.
inline constexpr std::size_t kPrefetchAhead = 8;
// False for a key that is too long: that operation is refused alone, and the others go on.
bool SetKey(const Space& space, Call* call, Operation* operation, std::string_view key, Mode mode);
// Starts a call with one operation for each key, which takes nothing else.
CallRef StartKeys(const Space& space, wire::Opcode opcode, std::span<const std::string_view> keys,
                  Mode mode, const CallOptions& options);
// Of a look-up that has ended, if that was promised: its keys still are where they were.
void RememberReads(Call* call);
// Hands a call, whose operations are filled in, to the engine. `bytes`: what it moves; `packed_by`:
// as Engine::Submit.
CallRef StartCall(const Space& space, Call* call, Mode mode, std::chrono::milliseconds timeout,
                  std::size_t bytes, const placement::Ranges* packed_by = nullptr);
// A call of one operation that failed before it was started.
CallRef FailedCall(const Space& space, const Status& why);

// The operation of a call that has one.
inline const Operation& Only(const CallRef& call) { return call.get()->operations()[0]; }

}  // namespace tidepool::internal
