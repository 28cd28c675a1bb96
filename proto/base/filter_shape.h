// Size of a Bloom filter, and estimates from the number of its set bits: pure arithmetic, for the
// rules of namespaces, the store, the client and kvctl.
//
// The false-positive rate of split blocks (split_block.h), with `load` values per split block on
// average. The number of values in a split block is Poisson distributed. After i values a bit is
// set with probability 1 - (31/32)^i, and all 8 bits of another value with the 8th power of it:
//
//   rate(load) = sum over i of Poisson(i; load) * (1 - (31/32)^i)^8
//
// (Putze, Sanders, Singler 2007, section 3; Apple, "Split block Bloom filters", arXiv:2101.01719.)
// By the binomial theorem this is 9 terms, exact and without the sum over i.
#pragma once

#include <cstdint>

#include "proto/base/limits.h"
#include "proto/base/result.h"
#include "proto/base/split_block.h"

namespace tidepool {

// Shape of a filter: a partition of a bloom namespace. Filters of equal shape can be united.
struct FilterShape {
  std::uint64_t split_blocks = 0;

  constexpr std::uint64_t bytes() const { return split_blocks * kSplitBlockBytes; }
  constexpr std::uint64_t bits() const { return split_blocks * kSplitBlockBits; }
  friend constexpr bool operator==(const FilterShape&, const FilterShape&) = default;
};

// Returns the rate at `load` >= 0 values per split block. Good to 1e-14.
double FalsePositiveRateAt(double load);

// Returns the smallest shape whose rate is at most `false_positive_rate` after `expected_items`
// values. The size is rounded up to units of memory: a power of two from 4 KiB to 64 KiB, then
// whole blocks of 64 KiB. The hash spreads the values over `partitions` filters of this shape.
// Returns: kInvalidArgument (no values, a rate out of range, or a filter above the maximum; the
// text names values that would do).
Result<FilterShape> ShapeOfFilter(std::uint64_t expected_items, double false_positive_rate,
                                  std::uint32_t partitions = 1);

// Returns whether a filter of this size can exist: the check of decoded shapes.
bool IsFilterBytes(std::uint64_t bytes);

// Returns the most probable number of distinct values that set `bits_set` of the filter's bits:
//
//   n = ln(1 - bits_set / bits) / ln(1 - 1 / (32 * split_blocks))
//
// Each value sets a bit in each lane of a split block (Swamidass, Baldi 2007). A filter with all
// bits set counts like a filter with all but one. Needs `bits_set` <= shape.bits().
double EstimatedItems(FilterShape shape, std::uint64_t bits_set);

// Returns the expected number of bits that `items` distinct values set: inverse of EstimatedItems.
std::uint64_t BitsSetBy(FilterShape shape, double items);

// Returns the number of values after which a filter of this shape errs at this rate.
double ItemsAtRate(FilterShape shape, double false_positive_rate);

// Returns the present false-positive rate of a filter with this number of set bits.
double EstimatedFalsePositiveRate(FilterShape shape, std::uint64_t bits_set);

}  // namespace tidepool
