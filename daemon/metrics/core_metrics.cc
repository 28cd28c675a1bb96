#include "daemon/metrics/core_metrics.h"

namespace tidepool::daemon {
namespace {

// So a key that is not asked for any more is gone from the list after some of these.
constexpr std::uint64_t kHalveNs = 10'000'000'000;

}  // namespace

// The first operation of a namespace allocates its counters.
SpaceCounters& CoreMetrics::Find(NamespaceId space) {
  auto& counters = spaces_[space.value()];
  if (counters == nullptr) counters = std::make_unique<SpaceCounters>();
  last_space_ = space;
  last_ = counters.get();
  return *last_;
}

void CoreMetrics::OnTimer(std::uint64_t now_ns) {
  if (now_ns < halve_at_ns_) return;
  if (halve_at_ns_ != 0) hot_keys_.Halve();
  halve_at_ns_ = now_ns + kHalveNs;
}

}  // namespace tidepool::daemon
