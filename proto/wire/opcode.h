// Table of the operations that a frame may carry: name, arguments, and whether it
// changes the store. Codec, dispatcher, client and tools read it. A new operation starts
// here.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <string_view>

#include "proto/base/kind.h"
#include "proto/base/limits.h"

namespace tidepool::wire {

// Numbers never change meaning. Each kind has a range of its own.
enum class Opcode : std::uint8_t {
  kNone = 0,
  // hash: 1..31. Ordered namespaces take all of them but Iterate too: they are scanned.
  kGet = 1,
  kPut = 2,
  kDelete = 3,
  kContains = 4,
  kTake = 5,
  kFetchAdd = 6,
  kFetchAnd = 7,
  kFetchOr = 8,
  kFetchXor = 9,
  kFetchMin = 10,
  kFetchMax = 11,
  kCompareAndSwap = 12,
  kAppend = 13,
  kExpire = 14,
  kTtl = 15,
  kIterate = 16,
  kLength = 17,  // Every kind: records, items.
  // As get, as soon as the key is there or, with kVersion, has another version than that (0: it is
  // absent); kDeadlineExceeded after kWaitMs.
  kWait = 18,
  kPrefilterDescribe = 19,  // Prefilter of a partition, see prefilter_ops.h.
  kPrefilterRead = 20,      // The bytes of an absent filter from an offset on.
  // kShow: place of a partition in its node's memory, for clients there: storage::DirectView.
  // kNotFound: not shown now. kChain: operations on keys of a partition, with atomic effect: see
  // chain.h. Its key is the key of a step.
  kShow = 22,
  kChain = 30,
  kApply = 21,  // A function of the daemon computes the new value.
  // ordered: 32..47. Key and value are the bounds of a range, see ordered_ops.h.
  kScan = 32,        // Records in the order of their keys.
  kCountRange = 33,  // Number of records in a range.
  kEraseRange = 34,  // Erases the range, some records per operation.
  // queue and priority: 48..63, see queue_ops.h.
  kPush = 48,         // kResourceExhausted: at capacity, or no memory.
  kPushMany = 49,     // As kPush, for as many as fit.
  kPop = 50,          // Some items: removed, or, with kTtlMs, leased. kNotFound: empty.
  kPeek = 51,         // As kPop, but the items stay.
  kAck = 52,          // Removes a leased item,
  kNack = 53,         // or makes it ready again. kFailedPrecondition: the lease has ended.
  kQueueLength = 54,  // Ready and leased items.
  // bloom: 64..79. The value is the key of its operation.
  kBloomInsert = 64,    // kOk: new; kAlreadyExists: present, or the filter errs.
  kBloomContains = 65,  // kOk, kNotFound.
  kBloomUnion = 66,     // Adds the bits of another namespace's partition, some per operation.
  kBloomDescribe = 67,  // Shape and contents of the filter: FilterSummary of bloom_ops.h.
  kBloomRead = 68,      // The filter's bytes from an offset on.
  // Process groups: 80..95. The key is the group's name, the value as in process_group_ops.h. They
  // change no record, and come again as often as they like.
  kGroupJoin = 80,  // Answered when all members have come,
  kGroupMeet = 81,  // have made the same collective call.
  kGroupLeave = 82,
};
inline constexpr int kOpcodeEnd = 96;  // No number is as large.

// 8-byte words that may follow an operation's header, in this order; the header says by a bit mask
// which are there.
enum class Argument : std::uint8_t {
  kVersion = 0,  // Put, Delete, Wait: the condition; an Lsn.
  kTtlMs = 1,    // Put, Expire, Push: time to live in ms; 0 is for ever. Absent: the namespace's
                 // default. Pop: length of the lease, above 0. Absent: the items are removed.
  kOperand = 2,  // FetchX: an i64 or f64; Iterate, Scan: maximum number of records, 0 is all;
                 // BloomUnion: the namespace whose bits are taken; PrefilterRead: the generation;
                 // Push: the priority; Pop, Peek: items at most, above 0; Ack, Nack: the item;
                 // Show: gets by RDMA since the client's last report.
  kExpectedBytes = 3,  // CompareAndSwap, Apply: size of the expected value or of the function's
                       // name, which precedes the value.
  kCursor = 4,         // Iterate, BloomUnion, BloomRead, ...: place to continue; 0 starts. Ack,
                       // Nack: the delivery that the lease belongs to.
  kUpload = 5,         // Put, Push: the value was streamed before and has this number.
  kOptions = 6,        // Iterate: kIterateKeysOnly or 0; ranges: bits of ordered_ops.h; Show: as
                       // kOperand, reads without a value.
  kWaitMs = 7,  // How long the operation may wait in the daemon; at most what its deadline leaves.
};
inline constexpr int kArgumentCount = 8;
inline constexpr std::uint64_t kIterateKeysOnly = 1;

constexpr std::uint8_t MaskOf(Argument argument) {
  return static_cast<std::uint8_t>(1u << static_cast<unsigned>(argument));
}

inline constexpr KindMask kRecordKinds = MaskOf(Kind::kHash) | MaskOf(Kind::kOrdered);
inline constexpr KindMask kItemKinds = MaskOf(Kind::kQueue) | MaskOf(Kind::kPriority);
inline constexpr KindMask kAllKinds = kRecordKinds | kItemKinds | MaskOf(Kind::kBloom);

struct OpcodeInfo {
  Opcode opcode = Opcode::kNone;
  std::string_view name;      // Name in messages and statistics.
  KindMask kinds = 0;         // Kinds of namespaces that accept it.
  bool keyed = false;         // Its key decides the partition.
  bool mutates = false;       // Its answer is kept until the client has it (exactly once).
  std::uint8_t required = 0;  // Mask of required arguments.
  std::uint8_t optional = 0;  // Mask of optional arguments.
  bool takes_value = false;
  bool ranged = false;  // Key and value are where a range of keys begins and ends.
};

inline constexpr auto kOpcodes = std::to_array<OpcodeInfo>({
    {Opcode::kGet, "get", kRecordKinds, true, false, 0, 0, false},
    {Opcode::kPut, "put", kRecordKinds, true, true, 0,
     MaskOf(Argument::kVersion) | MaskOf(Argument::kTtlMs) | MaskOf(Argument::kUpload), true},
    {Opcode::kDelete, "delete", kRecordKinds, true, true, 0, MaskOf(Argument::kVersion), false},
    {Opcode::kContains, "contains", kRecordKinds, true, false, 0, 0, false},
    {Opcode::kTake, "take", kRecordKinds, true, true, 0, 0, false},
    {Opcode::kFetchAdd, "fetch-add", kRecordKinds, true, true, MaskOf(Argument::kOperand), 0,
     false},
    {Opcode::kFetchAnd, "fetch-and", kRecordKinds, true, true, MaskOf(Argument::kOperand), 0,
     false},
    {Opcode::kFetchOr, "fetch-or", kRecordKinds, true, true, MaskOf(Argument::kOperand), 0, false},
    {Opcode::kFetchXor, "fetch-xor", kRecordKinds, true, true, MaskOf(Argument::kOperand), 0,
     false},
    {Opcode::kFetchMin, "fetch-min", kRecordKinds, true, true, MaskOf(Argument::kOperand), 0,
     false},
    {Opcode::kFetchMax, "fetch-max", kRecordKinds, true, true, MaskOf(Argument::kOperand), 0,
     false},
    {Opcode::kCompareAndSwap, "compare-and-swap", kRecordKinds, true, true,
     MaskOf(Argument::kExpectedBytes), 0, true},
    {Opcode::kAppend, "append", kRecordKinds, true, true, 0, 0, true},
    {Opcode::kExpire, "expire", kRecordKinds, true, true, MaskOf(Argument::kTtlMs), 0, false},
    {Opcode::kTtl, "ttl", kRecordKinds, true, false, 0, 0, false},
    {Opcode::kIterate, "iterate", MaskOf(Kind::kHash), false, false,
     MaskOf(Argument::kOperand) | MaskOf(Argument::kCursor) | MaskOf(Argument::kOptions), 0, false},
    {Opcode::kLength, "length", kAllKinds, false, false, 0, 0, false},
    {Opcode::kShow, "show", kRecordKinds | MaskOf(Kind::kBloom), false, false, 0,
     MaskOf(Argument::kOperand) | MaskOf(Argument::kCursor) | MaskOf(Argument::kOptions), false},
    {Opcode::kWait, "wait", kRecordKinds, true, false, MaskOf(Argument::kWaitMs),
     MaskOf(Argument::kVersion), false},
    {Opcode::kPrefilterDescribe, "prefilter-describe", kRecordKinds, false, false, 0, 0, false},
    {Opcode::kPrefilterRead, "prefilter-read", kRecordKinds, false, false,
     MaskOf(Argument::kOperand) | MaskOf(Argument::kCursor), 0, false},
    {Opcode::kChain, "chain", kRecordKinds, true, true, 0, 0, true},
    {Opcode::kApply, "apply", kRecordKinds, true, true, MaskOf(Argument::kExpectedBytes), 0, true},
    {Opcode::kScan, "scan", MaskOf(Kind::kOrdered), false, false,
     MaskOf(Argument::kOperand) | MaskOf(Argument::kOptions), 0, true, true},
    {Opcode::kCountRange, "count-range", MaskOf(Kind::kOrdered), false, false,
     MaskOf(Argument::kOptions), 0, true, true},
    {Opcode::kEraseRange, "erase-range", MaskOf(Kind::kOrdered), false, true,
     MaskOf(Argument::kOptions), 0, true, true},
    {Opcode::kPush, "push", kItemKinds, false, true, 0,
     MaskOf(Argument::kTtlMs) | MaskOf(Argument::kOperand) | MaskOf(Argument::kUpload) |
         MaskOf(Argument::kWaitMs),
     true},
    {Opcode::kPushMany, "push-many", kItemKinds, false, true, 0,
     MaskOf(Argument::kTtlMs) | MaskOf(Argument::kWaitMs), true},
    {Opcode::kPop, "pop", kItemKinds, false, true, MaskOf(Argument::kOperand),
     MaskOf(Argument::kTtlMs) | MaskOf(Argument::kWaitMs), false},
    {Opcode::kPeek, "peek", kItemKinds, false, false, MaskOf(Argument::kOperand), 0, false},
    {Opcode::kAck, "ack", kItemKinds, false, true,
     MaskOf(Argument::kOperand) | MaskOf(Argument::kCursor), 0, false},
    {Opcode::kNack, "nack", kItemKinds, false, true,
     MaskOf(Argument::kOperand) | MaskOf(Argument::kCursor), 0, false},
    {Opcode::kQueueLength, "queue-length", kItemKinds, false, false, 0, 0, false},
    {Opcode::kBloomInsert, "bloom-insert", MaskOf(Kind::kBloom), true, true, 0, 0, false},
    {Opcode::kBloomContains, "bloom-contains", MaskOf(Kind::kBloom), true, false, 0, 0, false},
    {Opcode::kBloomUnion, "bloom-union", MaskOf(Kind::kBloom), false, true,
     MaskOf(Argument::kOperand) | MaskOf(Argument::kCursor), 0, false},
    {Opcode::kBloomDescribe, "bloom-describe", MaskOf(Kind::kBloom), false, false, 0, 0, false},
    {Opcode::kGroupJoin, "group-join", MaskOf(Kind::kHash), true, false, MaskOf(Argument::kWaitMs),
     0, true},
    {Opcode::kGroupMeet, "group-meet", MaskOf(Kind::kHash), true, false, MaskOf(Argument::kWaitMs),
     0, true},
    {Opcode::kGroupLeave, "group-leave", MaskOf(Kind::kHash), true, false, 0, 0, true},
    {Opcode::kBloomRead, "bloom-read", MaskOf(Kind::kBloom), false, false,
     MaskOf(Argument::kCursor), 0, false},
});

// No operation takes more words than the proofs of limits.h assume. No operation has an argument as
// both required and optional.
static_assert(std::ranges::all_of(kOpcodes, [](const OpcodeInfo& info) {
  return std::popcount(static_cast<unsigned>(info.required | info.optional)) <=
             static_cast<int>(limits::kOperationArgumentsMax) &&
         (info.required & info.optional) == 0;
}));
static_assert(kArgumentCount <= 8, "the mask of arguments is one byte");

// Table by number. An unused number has no name.
inline constexpr auto kOpcodesByNumber = [] {
  std::array<OpcodeInfo, kOpcodeEnd> by_number{};
  for (const OpcodeInfo& info : kOpcodes) by_number[static_cast<std::size_t>(info.opcode)] = info;
  return by_number;
}();

// Returns null for a number that is no operation.
constexpr const OpcodeInfo* FindOpcode(std::uint8_t number) {
  if (number >= kOpcodeEnd || kOpcodesByNumber[number].name.empty()) return nullptr;
  return &kOpcodesByNumber[number];
}
constexpr const OpcodeInfo& InfoOf(Opcode opcode) {
  return kOpcodesByNumber[static_cast<std::size_t>(opcode)];
}

}  // namespace tidepool::wire
