#include "daemon/membership/range_rules.h"

#include <memory>
#include <utility>
#include <vector>

#include "proto/base/limits.h"

namespace tidepool::daemon {

bool IsSplitSo(const placement::Namespace& space, const RangeSplit& split) {
  if (space.ranges == nullptr || split.new_partition >= space.partitions.size() ||
      split.new_partition == 0) {
    return false;
  }
  const placement::PartitionPlace& made = space.partitions[split.new_partition];
  return space.ranges->BeginOf(split.new_partition) == split.key && made.node == split.node &&
         made.core == split.new_core && made.term.value() == split.term.value() + 1;
}

Status SplitRange(const RangeSplit& split, placement::Namespace* space) {
  if (space->ranges == nullptr || split.partition >= space->partitions.size()) {
    return Status(StatusCode::kInvalidArgument, "'" + space->name + "' has no such range");
  }
  placement::PartitionPlace& place = space->partitions[split.partition];
  if (place.node != split.node || place.term != split.term ||
      place.state != placement::PartitionState::kActive) {
    return Status(StatusCode::kFailedPrecondition,
                  "the range was granted anew meanwhile, so it was not split", "try again");
  }
  if (split.new_partition != space->partitions.size()) {
    return Status(StatusCode::kAborted,
                  "another range of '" + space->name + "' was split meanwhile", "try again");
  }
  if (space->partitions.size() >= limits::kPartitionsPerNamespaceMax ||
      place.term.value() >= limits::kTermMax) {
    return Status(StatusCode::kResourceExhausted, "'" + space->name + "' cannot have another range",
                  "it has " + std::to_string(space->partitions.size()));
  }
  std::vector<std::string> begins;
  for (std::uint32_t i = 0; i < space->ranges->size(); ++i) {
    begins.push_back(space->ranges->BeginOf(i));
  }
  if (space->ranges->IndexOf(AsBytes(split.key)) != split.partition) {
    return Status(StatusCode::kInvalidArgument, "the split key does not lie in the range");
  }
  begins.push_back(split.key);
  auto ranges = placement::Ranges::Create(std::move(begins));
  if (!ranges.ok()) return ranges.status();
  place.term = Term(place.term.value() + 1);
  placement::PartitionPlace added = place;
  added.core = split.new_core;
  space->partitions.push_back(added);
  space->ranges = std::make_shared<const placement::Ranges>(*std::move(ranges));
  space->options.partitions = static_cast<std::uint32_t>(space->partitions.size());
  return OkStatus();
}

}  // namespace tidepool::daemon
