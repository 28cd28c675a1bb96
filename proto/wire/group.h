// Body of a request frame: groups of operations, each group on a single partition.
//
// The group is the unit of refusal and of atomicity: its owner checks that it holds the partition
// under the group's term and otherwise refuses the whole group, final for that {partition, term}.
//
//   client/link/core_link --RequestWriter--> frame --DecodeRequest--> daemon/core/dispatcher
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "proto/base/bytes.h"
#include "proto/base/ids.h"
#include "proto/base/limits.h"
#include "proto/base/status.h"
#include "proto/wire/frame.h"
#include "proto/wire/opcode.h"

namespace tidepool::wire {

enum class PutCondition : std::uint8_t {
  kAlways = 0,
  kIfAbsent = 1,
  kIfPresent = 2,
  kIfVersion = 3
};

// Type of a value beside its bytes. Counters print as numbers and accept additions.
enum class ValueKind : std::uint8_t { kBytes = 0, kI64 = 1, kF64 = 2 };

// An operation, decoded or to be encoded. Key and value are views: of the frame for the receiver,
// of the caller's memory for the sender. Neither is owned.
struct Operation {
  Opcode opcode = Opcode::kNone;
  PutCondition condition = PutCondition::kAlways;
  ValueKind value_kind = ValueKind::kBytes;
  std::uint8_t arguments = 0;  // Mask of the words that are there.
  Bytes key;
  Bytes value;
  std::array<std::uint64_t, kArgumentCount> words{};

  bool has(Argument argument) const { return (arguments & MaskOf(argument)) != 0; }
  std::uint64_t get(Argument argument) const { return words[static_cast<std::size_t>(argument)]; }
  void set(Argument argument, std::uint64_t word) {
    arguments |= MaskOf(argument);
    words[static_cast<std::size_t>(argument)] = word;
  }
  // Returns the encoded size.
  std::size_t bytes() const {
    return limits::kOperationHeaderBytes +
           8 * static_cast<std::size_t>(__builtin_popcount(arguments)) + key.size() + value.size();
  }
};

// Header of an operation on the wire; the operations of a uniform group share one header.
// 8 bytes. An inline value is at most kFrameBytesMax, so 16 bits hold its size.
struct OperationHeader {
  std::uint8_t opcode = 0;
  std::uint8_t flags = 0;  // condition:2, value kind:2, zero:4
  std::uint8_t arguments = 0;
  std::uint8_t reserved = 0;
  std::uint16_t key_bytes = 0;
  std::uint16_t value_bytes = 0;

  // Returns the size of an operation with this header.
  std::size_t bytes() const {
    return sizeof(OperationHeader) + 8 * static_cast<std::size_t>(__builtin_popcount(arguments)) +
           key_bytes + value_bytes;
  }
};
static_assert(sizeof(OperationHeader) == limits::kOperationHeaderBytes);
OperationHeader HeaderOf(const Operation& operation);

// Quiet groups come from buffered handles: changes of single keys whose success is not reported
// singly, so a run of them is answered by a count. An insert whose key exists (kAlreadyExists)
// counts as success, too. A quiet group costs one operation of credit, whatever its size: the reply
// cache keeps no entry of successful operations.
//
// A forwarded group is a quiet group for another owner: the core gives it to its node's aggregator
// (aggregator.h), which combines it with groups of the node's other clients. Its term has no
// meaning, and each of its operations has at most one argument.
struct Group {
  PartitionId partition;
  Term term;
  bool atomic = false;
  bool quiet = false;
  bool uniform = false;               // Came with a common header; without further meaning.
  bool forwarded = false;             // For another core to run.
  std::uint32_t first_operation = 0;  // Index of its first operation in the frame.
  std::uint32_t operation_count = 0;
  Bytes body = {};  // Its operations as they came, as AddEncodedGroup takes them.

  // Operations of credit that it takes.
  std::uint32_t credit() const { return quiet ? 1 : operation_count; }
};

// A decoded request. Reuse one object: its vectors keep their capacity, so decoding allocates
// nothing once it is warm. The views are valid as long as the frame's bytes.
struct Request {
  FrameHeader header;
  std::vector<Group> groups;
  std::vector<Operation> operations;
};

// An operation as it lies in a group. Decoding moves its bytes out of `rest` and checks them as
// DecodeRequest does. REQUIRES for encoding: operation.bytes() at `to`.
Status DecodeOperation(Bytes* rest, Operation* operation);
void EncodeOperation(const Operation& operation, std::byte* to);

// Decodes a whole request frame (header included) and checks it completely: counts against bounds,
// lengths against the frame, opcodes and arguments against the table, key and value sizes.
// Returns: kOk, kInvalidArgument (*request unspecified).
Status DecodeRequest(Bytes frame, Request* request);

// Writes a request into memory of its caller. Usage: BeginGroup, Add..., BeginGroup, Add...,
// Finish.
class RequestWriter {
 public:
  // `frame` holds at most kFrameBytesMax bytes and outlives the writer.
  explicit RequestWriter(MutableBytes frame);

  // Starts a group; an empty group before it is dropped. False if it does not fit (nothing
  // changed).
  bool BeginGroup(PartitionId partition, Term term, bool atomic);
  // Appends to the group begun last. False if it does not fit (nothing changed).
  bool Add(const Operation& operation);
  // Adds a whole group that was encoded before (pack.h). `uniform`: `body` is an OperationHeader
  // and then, for each operation, its arguments, key and value. Otherwise it is operations. Only a
  // quiet group may be forwarded. False if it does not fit (no change, except that the group begun
  // last is closed).
  bool AddEncodedGroup(PartitionId partition, Term term, bool quiet, std::uint32_t operation_count,
                       bool uniform, Bytes body, bool forwarded = false);
  // Completes header (counts and bytes are filled in) and groups. Returns the frame's bytes.
  std::size_t Finish(FrameHeader header);

  std::uint32_t operation_count() const { return operation_count_; }
  std::uint32_t group_count() const { return group_count_; }
  std::size_t bytes() const { return used_; }

 private:
  void CloseGroup();

  MutableBytes frame_;
  std::size_t used_ = limits::kFrameHeaderBytes;
  std::size_t group_at_ = 0;  // 0: no group begun.
  std::uint32_t group_operations_ = 0;
  std::uint32_t group_count_ = 0;
  std::uint32_t operation_count_ = 0;
};

}  // namespace tidepool::wire
