// Requests and answers of operations on ranges of keys, with the place to continue.
//
//   client/api/bytes_ordered_map => Scan, CountRange, EraseRange => daemon/ops/ordered_ops
//
// A range begins at the operation's key and ends before its value; the option bits say which bounds
// hold. It goes to the partition that has its first keys (a reverse scan: its last keys). Keys
// beyond that partition's own range are left to other partitions. An answer is bounded, by its room
// and by the work of an operation, and ends with the rest of the range: empty at the end, otherwise
// the begin of the next operation.
//   Scan                     value: {record list}{rest}; number: bytes of the rest
//   CountRange, EraseRange   value: {rest}; number: records counted or erased
#pragma once

#include <cstdint>

#include "proto/base/bytes.h"
#include "proto/base/limits.h"
#include "proto/base/result.h"
#include "proto/base/short_copy.h"

namespace tidepool::wire {

// Bits of Argument::kOptions.
inline constexpr std::uint64_t kScanKeysOnly = 1;     // Reads no value; a record is its key.
inline constexpr std::uint64_t kScanReverse = 2;      // From the end downwards.
inline constexpr std::uint64_t kRangeAfterBegin = 4;  // Excludes the key at the begin.
inline constexpr std::uint64_t kRangeHasEnd = 8;      // Otherwise the value is empty.
// CountRange: counts the stored records of a partition's whole range. Includes expired records that
// were not yet removed: no key is read.
inline constexpr std::uint64_t kCountStored = 16;
inline constexpr std::uint64_t kRangeOptionsErase = kRangeAfterBegin | kRangeHasEnd;
inline constexpr std::uint64_t kRangeOptionsCount = kRangeOptionsErase | kCountStored;
inline constexpr std::uint64_t kRangeOptionsScan =
    kRangeOptionsErase | kScanKeysOnly | kScanReverse;

struct RangeRest {
  enum class Kind : std::uint8_t {
    kDone = 0,          // No byte.
    kBehindListed = 1,  // Scan: go on behind the last record of the list.
    kBehindKey = 2,     // Behind `key`: the records passed last had expired or are not listed; in
                        // reverse also below it, where another partition's range ends.
    kFromKey = 3,       // From `key` on, with which another partition's range begins.
  };
  Kind kind = Kind::kDone;
  Bytes key;

  std::size_t bytes() const { return kind == Kind::kDone ? 0 : 1 + key.size(); }
};
inline constexpr std::size_t kRangeRestBytesMax = 1 + limits::kKeyBytesMax;

// Writes rest.bytes() at `to`. Returns the end.
inline std::byte* StoreRangeRest(const RangeRest& rest, std::byte* to) {
  if (rest.kind == RangeRest::Kind::kDone) return to;
  *to++ = static_cast<std::byte>(rest.kind);
  CopyShort(to, rest.key.data(), rest.key.size());
  return to + rest.key.size();
}

// `from` is all of the rest; its key becomes a view of it. Returns: kInvalidArgument.
inline Result<RangeRest> LoadRangeRest(Bytes from) {
  RangeRest rest;
  if (from.empty()) return rest;
  rest.kind = static_cast<RangeRest::Kind>(from.front());
  rest.key = from.subspan(1);
  const bool behind_listed = rest.kind == RangeRest::Kind::kBehindListed && rest.key.empty();
  const bool has_key = (rest.kind == RangeRest::Kind::kBehindKey ||
                        (rest.kind == RangeRest::Kind::kFromKey && !rest.key.empty())) &&
                       rest.key.size() <= limits::kKeyBytesMax;
  if (behind_listed || has_key) return rest;
  return Status(StatusCode::kInvalidArgument, "malformed rest of a range");
}

}  // namespace tidepool::wire
