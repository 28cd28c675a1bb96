// A call of the public interface: its operations, the memory of its requests and results, and its
// waiting thread.
//
//   bytes_map -> [Call of Operations] -> engine -> partition queue -> core link => daemon
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "client/calls/waiter.h"
#include "proto/base/bytes.h"
#include "proto/base/ids.h"
#include "proto/base/status.h"
#include "proto/wire/answer.h"
#include "proto/wire/group.h"
#include "proto/wire/receipt.h"
#include "tidepool/future.h"
#include "tidepool/receipt.h"

namespace tidepool::wire {
class Pack;
}  // namespace tidepool::wire

namespace tidepool::internal {

class Call;
class Engine;
struct PackPiece;
struct PackPieces;
struct PartitionQueue;
struct Round;
struct SentFrame;

// Bound on the arguments of an operation. Push has the most: ttl, priority, upload and wait.
inline constexpr std::size_t kOperationWordsMax = limits::kOperationArgumentsMax;
// Longest wait that a frame asks of a daemon. An operation that waits longer is sent again. Frames
// thus finish soon, the window of unfinished frames moves on, and the session is never silent.
inline constexpr std::uint64_t kWaitSliceMs = 1'000;
// Longest wait of a frame whose value is uploaded ahead. Each slice uploads the value again.
inline constexpr std::uint64_t kUploadWaitSliceMs = 10'000;

// An operation, from the caller to its outcome. Operations lie behind their Call in one block, so a
// batch allocates once. Guarded by the client's lock while the call is under way.
struct Operation {
  // kSpread: the pieces of the pack travel on their own.
  enum class State : std::uint8_t { kQueued, kSent, kSpread, kEnded };

  Operation();
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  ~Operation();

  Call* call = nullptr;
  PartitionQueue* queue = nullptr;

  // The request. Views of the call's memory (asynchronous) or of the caller's (synchronous: the
  // caller does not return before the operation has ended or was given up).
  const std::byte* key = nullptr;
  const std::byte* value = nullptr;
  std::uint32_t key_bytes = 0;
  std::uint32_t value_bytes = 0;
  std::uint64_t words[kOperationWordsMax];  // The arguments that are there, in Argument's order.
  wire::Opcode opcode = wire::Opcode::kNone;
  wire::PutCondition condition = wire::PutCondition::kAlways;
  wire::ValueKind value_kind = wire::ValueKind::kBytes;
  std::uint8_t arguments = 0;
  bool pack_uniform = false;
  std::uint16_t pack_count = 0;        // Operations in the pack; 0: not a pack.
  std::uint16_t pack_left = 0;         // kSent: of these, not answered.
  PackPiece* piece_of = nullptr;       // The piece of a pack that this operation is.
  std::unique_ptr<PackPieces> pieces;  // kSpread.

  // Where it is.
  State state = State::kQueued;
  bool streamed = false;       // The value goes ahead as an upload.
  bool upload_ready = false;   // It has arrived: the Put may go.
  bool room_awaited = false;   // The daemon has said that the upload waits for room.
  std::uint16_t index = 0;     // kSent: in its frame.
  SentFrame* frame = nullptr;  // kSent.
  std::uint64_t sequence = 0;  // Order of calling, over the whole client.
  Operation* next = nullptr;   // kQueued: neighbours in the partition's queue.
  Operation* previous = nullptr;

  // The outcome.
  StatusCode code = StatusCode::kOk;
  wire::ValueKind result_kind = wire::ValueKind::kBytes;
  Lsn version;
  std::uint64_t number = 0;
  std::string_view result;  // Into the call's memory.
  // Memory of a streamed value; `result` is then a view of it.
  std::unique_ptr<std::string> large_result;

  Bytes key_view() const { return {key, key_bytes}; }
  // A pack stands for many operations that were encoded before (proto/wire/pack.h): a quiet group.
  // `value` is their bytes. It is queued, refused and given up as a whole.
  bool is_pack() const { return pack_count > 0; }
  std::uint32_t count() const { return is_pack() ? pack_count : 1; }
  // Makes the operation stand for the content of `pack`. The pack's bytes lie at `bytes` until the
  // operation has ended.
  void FillPack(PartitionQueue* to, const wire::Pack& pack, const std::byte* bytes);
  // True for packs and chains: the keys of a pack, or of a chain's later steps, are not known here.
  bool may_have_any_key() const { return is_pack() || opcode == wire::Opcode::kChain; }
  bool mutates() const { return wire::InfoOf(opcode).mutates; }
  bool waits() const { return (arguments & wire::MaskOf(wire::Argument::kWaitMs)) != 0; }
  // Before it is sent: how long the daemon may let it wait this time. The last of its arguments.
  void SetWaitSlice(std::uint64_t now_ns);

  // Adds an argument; they must come in Argument's order.
  void AddArgument(wire::Argument argument, std::uint64_t word);
  // REQUIRES: it is there.
  std::uint64_t Word(wire::Argument argument) const { return words[WordsBefore(argument)]; }
  // Only the time to wait may be behind it.
  void AddUploadArgument(std::uint64_t upload);
  void RemoveUploadArgument();
  // Returns the number of arguments before this argument.
  std::size_t WordsBefore(wire::Argument argument) const {
    return static_cast<std::size_t>(__builtin_popcount(arguments & (wire::MaskOf(argument) - 1u)));
  }
  // Fills `out` for the wire. `out` may be reused: only the words of present arguments are written.
  void ToWire(wire::Operation* out) const;
  // Encoded size, header included.
  std::size_t WireBytes() const {
    if (is_pack()) return limits::kGroupHeaderBytes + value_bytes;
    // A streamed Put counts with the number of its upload, which it gets on the way.
    const unsigned mask = streamed ? arguments | wire::MaskOf(wire::Argument::kUpload) : arguments;
    return limits::kOperationHeaderBytes + 8 * static_cast<std::size_t>(__builtin_popcount(mask)) +
           key_bytes + (streamed ? 0 : value_bytes);
  }
};

// How a look-up says that there is nothing.
Status NoSuchKey(std::string_view space_name);

// Reference-counted. The handle (CallRef) has a reference, and the engine has another while the
// call is under way. Fields are guarded by the client's lock until done(), and belong to the handle
// afterwards.
class Call {
 public:
  // Returns a call with a single reference, the handle's. `copy_bytes`: room for Copy().
  static Call* Make(std::size_t operation_count, std::size_t copy_bytes);

  void AddReference() { references_.fetch_add(1, std::memory_order_relaxed); }
  void Release();

  std::span<Operation> operations() { return {operations_, operation_count_}; }
  // Copies into this call's own memory; the sum is at most `copy_bytes`.
  const std::byte* Copy(std::string_view bytes);
  // Returns room for bytes that the caller then writes.
  std::byte* Reserve(std::size_t bytes);

  // Any thread.
  bool done() const { return done_.load(std::memory_order_acquire); }
  void MarkDone() { done_.store(true, std::memory_order_release); }

  // Copies `bytes` into `operation.result`.
  void SetResult(Operation& operation, Bytes bytes);
  // Sets the Status of an operation that ended with more than a code. A pack takes it for the
  // operations noted as unanswered, or for all operations if the note is empty.
  void SetFailure(const Operation& operation, Status status);
  bool HasFailure(const Operation& operation) const {
    return failures_.contains(IndexOf(operation));
  }
  // Some operations of a pack ended with `why`.
  struct PackFailure {
    std::uint32_t pack = 0;   // Which of operations(),
    std::uint16_t first = 0;  // and which of its own.
    std::uint16_t count = 0;
    Status why;
  };
  // With a `why` of kOk: SetFailure, which follows, has it.
  void AddPackFailure(const Operation& pack, std::uint32_t first, std::uint32_t count, Status why);
  const std::vector<PackFailure>& pack_failures() const { return pack_failures_; }
  // Sorts by pack and by place in the pack, for look-ups. REQUIRES: done().
  void SortPackFailures();
  // Place of record i of a batch in packs. Empty: operation i is record i.
  struct Item {
    std::uint32_t operation = 0;
    std::uint16_t at = 0;  // In the pack.
  };
  std::vector<Item> items;
  // Ends an operation with an error before the call is started.
  void Refuse(Operation* operation, Status why);
  // Ends an operation before the call is started, because its outcome is known here.
  void EndHere(Operation* operation, StatusCode code) { EndUnstarted(operation, code); }
  // Returns kOk, the Status given, or a Status made of the code.
  Status StatusOf(const Operation& operation) const;
  std::size_t IndexOf(const Operation& operation) const {
    return static_cast<std::size_t>(&operation - operations_);
  }

  // Sets the receipt for the durability of the changes; null: no receipt.
  void set_receipt(Receipt* to) { receipt_to_ = to; }
  bool wants_receipt() const { return receipt_to_ != nullptr; }
  // A change of this call has succeeded; the answer's frame had `checkpoint`.
  void RecordReceipt(const Operation& operation, const wire::CheckpointStamp& checkpoint);
  // In the program's own thread, once the call is done.
  void TellReceipt() const;

  // Keeps the engine alive as long as a thread may wait. Null after the handle is gone.
  std::shared_ptr<Engine> keeps_engine;
  Engine* engine = nullptr;
  std::uint64_t deadline_ns = 0;
  std::uint64_t sequence = 0;  // Sequence of the first operation.
  bool urgent = false;         // Is sent at once.
  // Until when its operations may wait in the daemon, in slices of kWaitSliceMs each.
  std::uint64_t wait_until_ns = 0;
  // Other processes must act to end the wait, so WaitForAll does not wait for the call.
  bool waits_for_others = false;
  // The deadline is the default deadline, and large received values move it.
  bool deadline_extends = false;
  std::uint32_t left = 0;     // Operations that have not ended.
  std::uint32_t refused = 0;  // Operations that ended before the call was started.
  Waiter* waiter = nullptr;
  std::function<void(CallRef)> then;
  // The engine's list of calls under way.
  Call* next = nullptr;
  Call* previous = nullptr;
  std::string_view space_name;  // Name for messages, in the engine's memory.
  // The round that remembers the reads, if no write came since; null: no round.
  std::shared_ptr<Round> round;
  std::uint64_t writes_before = 0;

 private:
  struct Chunk {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t size = 0;
    std::size_t used = 0;
  };

  Call() = default;
  ~Call();
  void EndUnstarted(Operation* operation, StatusCode code);

  std::atomic<std::uint32_t> references_{1};
  std::atomic<bool> done_{false};
  Operation* operations_ = nullptr;
  std::size_t operation_count_ = 0;
  std::byte* copy_at_ = nullptr;
  std::byte* copy_end_ = nullptr;
  std::string single_;  // Result of a call of one operation. It is moved out, not copied again.
  std::vector<Chunk> chunks_;
  std::unordered_map<std::size_t, Status> failures_;  // By index; rare.
  std::vector<PackFailure> pack_failures_;
  Receipt* receipt_to_ = nullptr;
  wire::Receipt receipt_;

 public:
  // Moves the value of the only operation out. REQUIRES: done(), one operation.
  std::string TakeSingleResult();
  void SetSingleResult(std::string value);
};

}  // namespace tidepool::internal
