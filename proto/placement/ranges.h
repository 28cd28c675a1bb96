// Where the ranges of an ordered namespace begin, and so which partition a key belongs to.
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

// Ranges that are next to each other and together hold all keys, compared as unsigned bytes: each
// from where it begins up to where the next one does; the first begins with the empty key. A
// partition keeps its number for life; a split gives the upper part of its range to a partition
// with the next free one, so numbers are not in the order of keys. Immutable; any thread.
class Ranges {
 public:
  // `begins[i]`: where the range of partition i begins.
  // Returns: kInvalidArgument (none or several are empty, two are equal, one is longer than
  // limits::kSplitKeyBytesMax, or all together than kSplitKeysBytesMax).
  static Result<Ranges> Create(std::vector<std::string> begins);

  std::uint32_t size() const { return static_cast<std::uint32_t>(begins_.size()); }
  // The partition that has `key`.
  std::uint32_t IndexOf(Bytes key) const { return order_[RankOf(key)]; }
  // The partition that has the highest keys below `end`; none: the highest keys of all.
  std::uint32_t IndexBelow(std::optional<Bytes> end) const;

  const std::string& BeginOf(std::uint32_t index) const { return begins_[index]; }
  // Where the next range begins. Null: it has the highest keys.
  const std::string* EndOf(std::uint32_t index) const;
  // The partitions in the order of their keys.
  const std::vector<std::uint32_t>& order() const { return order_; }

 private:
  std::uint32_t RankOf(Bytes key) const;

  std::vector<std::string> begins_;   // Index = partition.
  std::vector<std::uint32_t> order_;  // Partitions by their begins.
  std::vector<std::uint32_t> ranks_;  // The inverse of `order_`.
};

}  // namespace tidepool::placement
