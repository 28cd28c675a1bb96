#include "daemon/control/residence_cache.h"

#include <algorithm>
#include <utility>

#include "daemon/core/residence.h"

namespace tidepool::daemon {
namespace {

void Add(const storage::Residence& from, storage::Residence* to) {
  to->memory_records += from.memory_records;
  to->device_records += from.device_records;
  to->cached_records += from.cached_records;
  to->memory_bytes += from.memory_bytes;
  to->device_bytes += from.device_bytes;
  to->sampled = to->sampled || from.sampled;
}

constexpr std::uint64_t kLookAgainNs = 10'000'000'000;
constexpr std::size_t kLooksPerCall = 2;

}  // namespace

void ResidenceCache::Refresh(CoreGroup* cores, const std::vector<NamespaceId>& spaces,
                             Deadline deadline) {
  const std::unique_lock only(refreshing_, std::try_to_lock);
  if (!only.owns_lock()) return;
  const std::uint64_t now_ns = Clock::Real().MonotonicNs();
  std::vector<std::pair<std::uint64_t, NamespaceId>> due;
  {
    const std::lock_guard lock(mutex_);
    // Forgets dropped namespaces.
    std::erase_if(looks_, [&](const auto& entry) {
      return std::find(spaces.begin(), spaces.end(), entry.first) == spaces.end();
    });
    for (const NamespaceId space : spaces) {
      const auto found = looks_.find(space);
      const std::uint64_t at_ns = found == looks_.end() ? 0 : found->second.at_ns;
      if (at_ns == 0 || now_ns - at_ns >= kLookAgainNs) due.emplace_back(at_ns, space);
    }
  }
  std::sort(due.begin(), due.end());
  due.resize(std::min(due.size(), kLooksPerCall));
  for (const auto& [at_ns, space] : due) {
    storage::Residence sum;
    for (const auto& [partition, each] : ResidenceOf(cores, space, deadline)) Add(each.where, &sum);
    const std::lock_guard lock(mutex_);
    looks_[space] = {now_ns, sum};
  }
}

std::optional<storage::Residence> ResidenceCache::Find(NamespaceId space) const {
  const std::lock_guard lock(mutex_);
  const auto found = looks_.find(space);
  if (found == looks_.end()) return std::nullopt;
  return found->second.found;
}

}  // namespace tidepool::daemon
