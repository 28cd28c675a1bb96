// Which range is to be split next: one that has grown large, or keeps its core busy while others
// have little to do.
#include <algorithm>
#include <utility>

#include "daemon/control/node_state.h"
#include "daemon/moving/range_splitter.h"
#include "proto/base/log.h"

namespace tidepool::daemon {
namespace {

constexpr std::uint64_t kStatsMs = 2'000;
constexpr std::uint64_t kRecordsMin = 1'000;  // Of a busy one: fewer are not worth it.
// What storing a record takes beside its key and value, indexes included.
constexpr std::uint64_t kOverheadBytes = 96;
constexpr std::uint64_t kSpareBytes = 16u << 20;
constexpr std::uint64_t kAfterFailureNs = 30'000'000'000;

std::uint64_t BytesOf(const PartitionStats& stats) {
  return stats.live_bytes + stats.records * kOverheadBytes;
}

}  // namespace

void RangeSplitter::Check() {
  const placement::PlacementMapPtr map = node_.map.Get();
  // Two halves on one core would be no gain.
  if (map == nullptr || map->forming() || node_.cores->size() < 2) return;
  const auto chosen = ChooseRange(*map);
  if (!chosen.has_value()) return;
  const auto outcome = RunOne(chosen->space(), chosen->index(), std::nullopt);
  if (outcome.ok()) return;
  not_before_ns_[*chosen] = Clock::Real().MonotonicNs() + kAfterFailureNs;
  log::Warn("partition " + std::to_string(chosen->index()) + " of namespace " +
            std::to_string(chosen->space().value()) +
            " was not split: " + outcome.status().ToString());
}

bool RangeSplitter::IsBusy(const PartitionStats& stats, CoreId core, double seconds,
                           const std::map<CoreId, double>& per_core) const {
  const auto before = operations_.find(stats.id);
  if (node_.options.split_operations == 0 || before == operations_.end() ||
      stats.records < kRecordsMin || stats.operations < before->second) {
    return false;
  }
  const double rate = static_cast<double>(stats.operations - before->second) / seconds;
  if (rate < static_cast<double>(node_.options.split_operations)) return false;
  return std::any_of(per_core.begin(), per_core.end(), [&](const auto& other) {
    return other.first != core && other.second < rate / 2;
  });
}

std::optional<PartitionId> RangeSplitter::ChooseRange(const placement::PlacementMap& map) {
  const std::uint64_t now_ns = Clock::Real().MonotonicNs();
  const double seconds = static_cast<double>(now_ns - std::exchange(looked_ns_, now_ns)) / 1e9;
  const auto cores = node_.cores->Stats(Deadline::AfterMs(kStatsMs));
  const auto partitions = node_.cores->NamespaceStats(Deadline::AfterMs(kStatsMs));
  std::map<CoreId, double> per_core;
  std::uint64_t used = 0;
  std::uint64_t limit = 0;
  for (std::size_t i = 0; i < cores.size(); ++i) {
    const CoreId core(static_cast<std::uint16_t>(i));
    const std::uint64_t before = std::exchange(core_operations_[core], cores[i].operations);
    per_core[core] =
        static_cast<double>(cores[i].operations - std::min(before, cores[i].operations)) / seconds;
    used += cores[i].used_bytes;
    limit = std::max(limit, cores[i].limit_bytes);
  }
  std::optional<PartitionId> chosen;
  std::uint64_t largest = 0;
  std::map<PartitionId, std::uint64_t> operations;
  for (const PartitionStats& stats : partitions) {
    operations[stats.id] = stats.operations;
    const auto space = map.Find(stats.id.space());
    if (space == nullptr || space->ranges == nullptr || space->options.split != "auto" ||
        space->options.prefilter == "admit" || space->options.durable() ||
        stats.id.index() >= space->partitions.size()) {
      continue;
    }
    const placement::PartitionPlace& place = space->partitions[stats.id.index()];
    const std::uint64_t bytes = BytesOf(stats);
    const bool grown =
        (node_.options.split_records != 0 && stats.records >= node_.options.split_records) ||
        (node_.options.split_bytes != 0 && bytes >= node_.options.split_bytes);
    if (!grown && !IsBusy(stats, place.core, seconds, per_core)) continue;
    const auto waits = not_before_ns_.find(stats.id);
    if (waits != not_before_ns_.end() && now_ns < waits->second) continue;
    // The copy of a half must fit; on a full node everything stays as it is.
    const bool fits = used + bytes / 2 + bytes / 8 + kSpareBytes <= limit;
    if (fits && bytes >= largest) {
      largest = bytes;
      chosen = stats.id;
    }
  }
  operations_ = std::move(operations);
  return chosen;
}

}  // namespace tidepool::daemon
