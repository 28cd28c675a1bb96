// Begins of the ranges of an ordered namespace, which give the partition of a key.
//
//   placement map -> [Ranges] -> client's routing, owner's check, tools
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/base/bytes.h"
#include "proto/base/result.h"

namespace tidepool::placement {

// Adjacent ranges that together hold all keys, compared as unsigned bytes. Each range ends where
// the next begins; the first begins with the empty key. A partition keeps its number for life. A
// split gives the upper part of its range to a partition with the next free number, so numbers are
// not in the order of keys. Immutable; any thread.
class Ranges {
 public:
  // `begins[i]`: begin of the range of partition i.
  // Returns: kInvalidArgument (no begin or several begins are empty, two are equal, a begin exceeds
  // limits::kSplitKeyBytesMax, or all together kSplitKeysBytesMax).
  static Result<Ranges> Create(std::vector<std::string> begins);

  std::uint32_t size() const { return static_cast<std::uint32_t>(begins_.size()); }
  // Returns the partition that has `key`.
  std::uint32_t IndexOf(Bytes key) const { return order_[RankOf(key)]; }
  // Returns the partition with the highest keys below `end`, or of all keys without `end`.
  std::uint32_t IndexBelow(std::optional<Bytes> end) const;

  const std::string& BeginOf(std::uint32_t index) const { return begins_[index]; }
  // Returns the begin of the next range. Null: this range has the highest keys.
  const std::string* EndOf(std::uint32_t index) const;
  // Returns the partitions in the order of their keys.
  const std::vector<std::uint32_t>& order() const { return order_; }

 private:
  std::uint32_t RankOf(Bytes key) const;

  std::vector<std::string> begins_;   // Index = partition.
  std::vector<std::uint32_t> order_;  // Partitions by their begins.
  std::vector<std::uint32_t> ranks_;  // The inverse of `order_`.
};

}  // namespace tidepool::placement
