// The operations that a frame may carry, as one table: what each is called, what it takes, whether
// it changes the store. Codec, dispatcher, client and tools all read it; adding an operation starts
// here.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <string_view>

#include "proto/base/limits.h"

namespace tidepool::wire {

// Numbers never change meaning. Each kind has a range of its own.
enum class Opcode : std::uint8_t {
  kNone = 0,
  // hash: 1..31
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
  kLength = 17,
};
inline constexpr int kOpcodeCount = 18;

// 8-byte words that may follow an operation's header, in this order; the header says by a bit mask
// which are there.
enum class Argument : std::uint8_t {
  kVersion = 0,  // Put, Delete: the condition; an Lsn.
  kTtlMs = 1,    // Put, Expire: time to live in ms; 0 is for ever. Absent: the namespace's default.
  kOperand = 2,  // FetchX: an i64 or f64; Iterate: the number of records at most.
  kExpectedBytes = 3,  // CompareAndSwap: how much of the value is the expected one; it comes first.
  kCursor = 4,         // Iterate: where to go on; 0 starts.
  kUpload = 5,         // Put: the value was streamed before and has this number.
  kOptions = 6,        // Iterate: kIterateKeysOnly or 0.
};
inline constexpr int kArgumentCount = 7;
inline constexpr std::uint64_t kIterateKeysOnly = 1;

constexpr std::uint8_t MaskOf(Argument argument) {
  return static_cast<std::uint8_t>(1u << static_cast<unsigned>(argument));
}

struct OpcodeInfo {
  std::string_view name;      // As in messages and statistics.
  bool keyed = false;         // Its key decides the partition.
  bool mutates = false;       // Its answer is kept until the client has it (exactly once).
  std::uint8_t required = 0;  // Mask of arguments that must be there.
  std::uint8_t optional = 0;  // Mask of arguments that may be there.
  bool takes_value = false;
};

inline constexpr std::array<OpcodeInfo, kOpcodeCount> kOpcodes = {{
    {"none"},
    {"get", true, false, 0, 0, false},
    {"put", true, true, 0,
     MaskOf(Argument::kVersion) | MaskOf(Argument::kTtlMs) | MaskOf(Argument::kUpload), true},
    {"delete", true, true, 0, MaskOf(Argument::kVersion), false},
    {"contains", true, false, 0, 0, false},
    {"take", true, true, 0, 0, false},
    {"fetch-add", true, true, MaskOf(Argument::kOperand), 0, false},
    {"fetch-and", true, true, MaskOf(Argument::kOperand), 0, false},
    {"fetch-or", true, true, MaskOf(Argument::kOperand), 0, false},
    {"fetch-xor", true, true, MaskOf(Argument::kOperand), 0, false},
    {"fetch-min", true, true, MaskOf(Argument::kOperand), 0, false},
    {"fetch-max", true, true, MaskOf(Argument::kOperand), 0, false},
    {"compare-and-swap", true, true, MaskOf(Argument::kExpectedBytes), 0, true},
    {"append", true, true, 0, 0, true},
    {"expire", true, true, MaskOf(Argument::kTtlMs), 0, false},
    {"ttl", true, false, 0, 0, false},
    {"iterate", false, false,
     MaskOf(Argument::kOperand) | MaskOf(Argument::kCursor) | MaskOf(Argument::kOptions), 0, false},
    {"length", false, false, 0, 0, false},
}};

// No operation takes more words than the proofs of limits.h count with, and none takes an argument
// both ways.
static_assert(std::ranges::all_of(kOpcodes, [](const OpcodeInfo& info) {
  return std::popcount(static_cast<unsigned>(info.required | info.optional)) <=
             static_cast<int>(limits::kOperationArgumentsMax) &&
         (info.required & info.optional) == 0;
}));
static_assert(kArgumentCount <= 8, "the mask of arguments is one byte");

// Null for a number that is no operation.
constexpr const OpcodeInfo* FindOpcode(std::uint8_t number) {
  return number == 0 || number >= kOpcodeCount ? nullptr : &kOpcodes[number];
}
constexpr const OpcodeInfo& InfoOf(Opcode opcode) {
  return kOpcodes[static_cast<std::size_t>(opcode)];
}

}  // namespace tidepool::wire
