// One call of the public interface: its operations, the memory that their requests and results lie
// in, and who waits for it.
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

// Arguments of one operation at most: Push has ttl, priority, upload and wait.
inline constexpr std::size_t kOperationWordsMax = limits::kOperationArgumentsMax;
// What one frame asks a daemon to wait at most. An operation that waits longer is sent again: so a
// frame is finished soon, the window of unfinished ones moves on, and the session is never silent.
inline constexpr std::uint64_t kWaitSliceMs = 1'000;
// The same where the value goes ahead as an upload: it is uploaded again for each.
inline constexpr std::uint64_t kUploadWaitSliceMs = 10'000;

// One operation, from the caller to its outcome. A few of them lie behind their Call in one block,
// so a batch allocates once. Guarded by the client's lock while the call is under way.
struct Operation {
  // kSpread: a pack whose pieces are on their own ways.
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
  std::uint16_t pack_count = 0;        // Operations in the pack; 0: it is none.
  std::uint16_t pack_left = 0;         // kSent: of these, not answered.
  PackPiece* piece_of = nullptr;       // Of a piece of a pack.
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
  std::string_view result;                    // Into the call's memory.
  std::unique_ptr<std::string> large_result;  // Of a streamed value; then `result` is a view of it.

  Bytes key_view() const { return {key, key_bytes}; }
  // A pack stands for many operations that were encoded before (proto/wire/pack.h): a quiet group.
  // `value` is their bytes. It is queued, refused and given up as a whole.
  bool is_pack() const { return pack_count > 0; }
  std::uint32_t count() const { return is_pack() ? pack_count : 1; }
  // Makes it stand for what `pack` holds, whose bytes lie at `bytes` until it has ended.
  void FillPack(PartitionQueue* to, const wire::Pack& pack, const std::byte* bytes);
  // Its keys are not known here: a pack's, or those of a chain's later steps.
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
  // How many arguments come before this one.
  std::size_t WordsBefore(wire::Argument argument) const {
    return static_cast<std::size_t>(__builtin_popcount(arguments & (wire::MaskOf(argument) - 1u)));
  }
  // As it travels. Reuse `out`: of its words only those that are there are written.
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

// Reference-counted: one reference of the handle (CallRef), one of the engine while it is under
// way. Fields are guarded by the client's lock until done(), and belong to the handle afterwards.
class Call {
 public:
  // One reference, the handle's. `copy_bytes`: room for what Copy() takes.
  static Call* Make(std::size_t operation_count, std::size_t copy_bytes);

  void AddReference() { references_.fetch_add(1, std::memory_order_relaxed); }
  void Release();

  std::span<Operation> operations() { return {operations_, operation_count_}; }
  // Copies into this call's own memory; the sum is at most `copy_bytes`.
  const std::byte* Copy(std::string_view bytes);
  // The same for bytes that the caller then writes.
  std::byte* Reserve(std::size_t bytes);

  // Any thread.
  bool done() const { return done_.load(std::memory_order_acquire); }
  void MarkDone() { done_.store(true, std::memory_order_release); }

  // Keeps what `bytes` are: in `operation.result`.
  void SetResult(Operation& operation, Bytes bytes);
  // The Status of an operation that ended with more to say than its code. Of a pack: of those of
  // its operations that were noted as unanswered, or of all if none was.
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
  // In the order of packs and of what is in them, for who looks them up. REQUIRES: done().
  void SortPackFailures();
  // Of a batch whose records travel in packs: where record i is. Empty: operation i is record i.
  struct Item {
    std::uint32_t operation = 0;
    std::uint16_t at = 0;  // In the pack.
  };
  std::vector<Item> items;
  // Before the call is started: one of its operations will not be.
  void Refuse(Operation* operation, Status why);
  // The same: it is known here how it ends.
  void EndHere(Operation* operation, StatusCode code) { EndUnstarted(operation, code); }
  // kOk, the Status given, or one made of the code.
  Status StatusOf(const Operation& operation) const;
  std::size_t IndexOf(const Operation& operation) const {
    return static_cast<std::size_t>(&operation - operations_);
  }

  // Where the program wants to be told how safe its changes are; null: nowhere.
  void set_receipt(Receipt* to) { receipt_to_ = to; }
  bool wants_receipt() const { return receipt_to_ != nullptr; }
  // A change of this call has succeeded; the answer's frame had `checkpoint`.
  void RecordReceipt(const Operation& operation, const wire::CheckpointStamp& checkpoint);
  // In the program's own thread, once the call is done.
  void TellReceipt() const;

  // Null after the handle is gone; keeps the engine alive as long as somebody may wait.
  std::shared_ptr<Engine> keeps_engine;
  Engine* engine = nullptr;
  std::uint64_t deadline_ns = 0;
  std::uint64_t sequence = 0;  // Of its first operation.
  bool urgent = false;         // Is sent at once.
  // Until when its operations may wait in the daemon, in slices of kWaitSliceMs each.
  std::uint64_t wait_until_ns = 0;
  // What it waits for is for others to do: WaitForAll does not wait for it.
  bool waits_for_others = false;
  bool deadline_extends = false;  // It is the default one: large values that come back move it.
  std::uint32_t left = 0;         // Operations that have not ended.
  std::uint32_t refused = 0;      // Of its operations: ended before the call was started.
  Waiter* waiter = nullptr;
  std::function<void(CallRef)> then;
  // The engine's list of calls under way.
  Call* next = nullptr;
  Call* previous = nullptr;
  std::string_view space_name;  // Of the engine's memory: for messages.
  // Where what it reads is remembered, if nobody has written since; null: nowhere.
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
  std::string single_;  // The result of a call of one operation: moved out, not copied again.
  std::vector<Chunk> chunks_;
  std::unordered_map<std::size_t, Status> failures_;  // By index; rare.
  std::vector<PackFailure> pack_failures_;
  Receipt* receipt_to_ = nullptr;
  wire::Receipt receipt_;

 public:
  // The value of the one operation, moved out. REQUIRES: done(), one operation.
  std::string TakeSingleResult();
  void SetSingleResult(std::string value);
};

}  // namespace tidepool::internal
