// What becomes of an ordered namespace when one of its ranges is split. Pure: no lock, no clock.
#pragma once

#include <cstdint>
#include <string>

#include "proto/base/ids.h"
#include "proto/base/result.h"
#include "proto/placement/placement_map.h"

namespace tidepool::daemon {

// The owner of a range has copied its upper part to another of its cores, and asks for the new map.
struct RangeSplit {
  NamespaceId space;
  std::uint32_t partition = 0;
  Term term;  // Of the partition as it is.
  NodeId node;
  std::string key;                  // The first that moves.
  std::uint32_t new_partition = 0;  // The number that the copy was made under: the next free one.
  CoreId new_core;
};

// True: `space` is as the split would make it, since it was made before and the answer was lost.
bool IsSplitSo(const placement::Namespace& space, const RangeSplit& split);

// Gives the upper part to the new partition, and both the next term: the old one stands for keys
// that have left, and versions must grow where they go on. Errors: kFailedPrecondition (the range
// is not as the split takes it), kAborted (the number is taken: copy again under another one),
// kInvalidArgument (the key), kResourceExhausted (terms, partitions).
Status SplitRange(const RangeSplit& split, placement::Namespace* space);

}  // namespace tidepool::daemon
