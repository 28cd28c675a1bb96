// How large a Bloom filter must be, and what the number of its set bits says: pure arithmetic, for
// the rules of namespaces, the store, the client and kvctl.
//
// The false-positive rate of split blocks (split_block.h), with `load` values per split block on
// average: their number in one is Poisson distributed, and after i values a bit is set with
// probability 1 - (31/32)^i, all 8 of another value's with the 8th power of that:
//
//   rate(load) = sum over i of Poisson(i; load) * (1 - (31/32)^i)^8
//
// (Putze, Sanders, Singler 2007, section 3; Apple, "Split block Bloom filters", arXiv:2101.01719.)
// Written out by the binomial theorem that is 9 terms, exact and without the sum over i.
#pragma once

#include <cstdint>

#include "proto/base/limits.h"
#include "proto/base/result.h"
#include "proto/base/split_block.h"

namespace tidepool {

// Of one filter, which is one partition of a bloom namespace. Filters of one shape can be united.
struct FilterShape {
  std::uint64_t split_blocks = 0;

  constexpr std::uint64_t bytes() const { return split_blocks * kSplitBlockBytes; }
  constexpr std::uint64_t bits() const { return split_blocks * kSplitBlockBits; }
  friend constexpr bool operator==(const FilterShape&, const FilterShape&) = default;
};

// The rate at `load` >= 0 values per split block. Good to 1e-14.
double FalsePositiveRateAt(double load);

// The smallest shape whose rate is at most `false_positive_rate` after `expected_items` values,
// rounded up to what memory is cut into: a power of two from 4 KiB to 64 KiB, then whole blocks of
// 64 KiB. The values are spread over `partitions` such filters by their hash.
// Returns: kInvalidArgument (no values, a rate out of range, or larger than a filter may be; the
// text says which values would do).
Result<FilterShape> ShapeOfFilter(std::uint64_t expected_items, double false_positive_rate,
                                  std::uint32_t partitions = 1);

// Whether a filter of so many bytes can exist: decoded shapes are checked by it.
bool IsFilterBytes(std::uint64_t bytes);

// The number of distinct values that most probably set `bits_set` of the filter's bits:
//
//   n = ln(1 - bits_set / bits) / ln(1 - 1 / (32 * split_blocks))
//
// since each value sets one bit in each lane of one split block (Swamidass, Baldi 2007). A filter
// whose bits are all set says as many as set all but one. Needs `bits_set` <= shape.bits().
double EstimatedItems(FilterShape shape, std::uint64_t bits_set);

// The other way round: how many bits so many distinct values are expected to set.
std::uint64_t BitsSetBy(FilterShape shape, double items);

// After how many values a filter of this shape errs at this rate.
double ItemsAtRate(FilterShape shape, double false_positive_rate);

// The rate at which a filter with so many bits set errs now.
double EstimatedFalsePositiveRate(FilterShape shape, std::uint64_t bits_set);

}  // namespace tidepool
