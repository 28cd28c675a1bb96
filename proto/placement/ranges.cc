#include "proto/placement/ranges.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "proto/base/check.h"
#include "proto/base/limits.h"

namespace tidepool::placement {

Result<Ranges> Ranges::Create(std::vector<std::string> begins) {
  std::size_t bytes = 0;
  for (const std::string& begin : begins) {
    if (begin.size() > limits::kSplitKeyBytesMax) {
      return Status(StatusCode::kInvalidArgument,
                    "a split key of " + std::to_string(begin.size()) + " bytes",
                    "split keys have at most " + std::to_string(limits::kSplitKeyBytesMax) +
                        " bytes: the beginning of a key is enough");
    }
    bytes += begin.size();
  }
  if (bytes > limits::kSplitKeysBytesMax) {
    return Status(StatusCode::kInvalidArgument,
                  "split keys of " + std::to_string(bytes) + " bytes in all",
                  "give at most " + std::to_string(limits::kSplitKeysBytesMax));
  }
  Ranges ranges;
  ranges.begins_ = std::move(begins);
  ranges.order_.resize(ranges.begins_.size());
  std::iota(ranges.order_.begin(), ranges.order_.end(), 0u);
  std::sort(ranges.order_.begin(), ranges.order_.end(), [&](std::uint32_t a, std::uint32_t b) {
    return ranges.begins_[a] < ranges.begins_[b];
  });
  if (ranges.order_.empty() || !ranges.begins_[ranges.order_[0]].empty()) {
    return Status(StatusCode::kInvalidArgument, "the lowest range does not begin with all keys");
  }
  ranges.ranks_.resize(ranges.order_.size());
  for (std::uint32_t rank = 0; rank < ranges.order_.size(); ++rank) {
    ranges.ranks_[ranges.order_[rank]] = rank;
    if (rank > 0 &&
        ranges.begins_[ranges.order_[rank]] == ranges.begins_[ranges.order_[rank - 1]]) {
      return Status(StatusCode::kInvalidArgument, "the same split key twice, or an empty one",
                    "give each once; none is empty");
    }
  }
  return ranges;
}

std::uint32_t Ranges::RankOf(Bytes key) const {
  TP_DCHECK(!order_.empty());
  const std::string_view wanted = AsText(key);
  const auto above = std::upper_bound(
      order_.begin() + 1, order_.end(), wanted,
      [this](std::string_view k, std::uint32_t index) { return k < begins_[index]; });
  return static_cast<std::uint32_t>(above - order_.begin()) - 1;
}

std::uint32_t Ranges::IndexBelow(std::optional<Bytes> end) const {
  if (!end.has_value()) return order_.back();
  const std::uint32_t rank = RankOf(*end);
  // A range that begins with `end` itself has nothing below it.
  const bool begins_there = begins_[order_[rank]] == AsText(*end);
  return order_[begins_there && rank > 0 ? rank - 1 : rank];
}

const std::string* Ranges::EndOf(std::uint32_t index) const {
  const std::uint32_t rank = ranks_[index];
  return rank + 1 < order_.size() ? &begins_[order_[rank + 1]] : nullptr;
}

}  // namespace tidepool::placement
