#include "cli/commands/cluster/status_rates.h"

#include <algorithm>

#include "proto/convert/latency_convert.h"

namespace tidepool::cli {
namespace {

double Since(std::uint64_t now, std::uint64_t before) {
  return static_cast<double>(now - std::min(now, before));
}

const v1::NamespaceStatus* Find(const v1::NodeStatusResponse& status, std::uint32_t id) {
  const auto found = std::find_if(status.namespaces().begin(), status.namespaces().end(),
                                  [id](const auto& space) { return space.namespace_id() == id; });
  return found == status.namespaces().end() ? nullptr : &*found;
}

std::uint64_t OperationsOf(const v1::NodeStatusResponse& status) {
  std::uint64_t operations = 0;
  for (const v1::CoreStatus& core : status.cores()) operations += core.operations();
  return operations;
}

// Adds the difference between the two counts, divided by `seconds`.
void AddNode(std::uint32_t node, const v1::NodeStatusResponse& before,
             const v1::NodeStatusResponse& now, double seconds, ClusterRates* rates) {
  const double operations = Since(OperationsOf(now), OperationsOf(before)) / seconds;
  rates->operations[node] = operations;
  rates->all_operations += operations;
  const v1::NamespaceStatus nothing;
  for (const v1::NamespaceStatus& space : now.namespaces()) {
    const v1::NamespaceStatus* const found = Find(before, space.namespace_id());
    const v1::NamespaceStatus& was = found == nullptr ? nothing : *found;
    SpaceRates each;
    each.reads = Since(space.reads(), was.reads()) / seconds;
    each.changes = Since(space.changes(), was.changes()) / seconds;
    each.device_reads = Since(space.device_reads(), was.device_reads()) / seconds;
    each.direct_reads = Since(space.direct_reads(), was.direct_reads()) / seconds;
    each.frames = convert::FromProto(space.frames()).Since(convert::FromProto(was.frames()));
    rates->spaces[space.namespace_id()].Add(each);
    rates->all.Add(each);
  }
}

}  // namespace

void SpaceRates::Add(const SpaceRates& other) {
  reads += other.reads;
  changes += other.changes;
  device_reads += other.device_reads;
  direct_reads += other.direct_reads;
  frames.Merge(other.frames);
}

std::optional<double> SpaceRates::HitShare() const {
  if (reads <= 0) return std::nullopt;
  return std::max(0.0, 1 - device_reads / reads);
}

ClusterRates RatesBetween(const v1::StatusResponse& before, const v1::StatusResponse& now) {
  ClusterRates rates;
  for (int i = 0; i < std::min(before.nodes_size(), now.nodes_size()); ++i) {
    const auto& was = before.nodes(i);
    const auto& is = now.nodes(i);
    const bool both = was.has_status() && is.has_status();
    if (!both || was.node().incarnation() != is.node().incarnation()) continue;
    const double seconds = Since(is.status().at_ns(), was.status().at_ns()) / 1e9;
    if (seconds <= 0) continue;
    AddNode(is.node().node_id(), was.status(), is.status(), seconds, &rates);
  }
  return rates;
}

ClusterRates TotalsSinceStart(const v1::StatusResponse& status) {
  ClusterRates totals;
  for (const auto& entry : status.nodes()) {
    if (entry.has_status()) AddNode(entry.node().node_id(), {}, entry.status(), 1, &totals);
  }
  return totals;
}

std::map<std::uint32_t, Resident> ResidentBySpace(const v1::StatusResponse& status) {
  std::map<std::uint32_t, Resident> spaces;
  for (const auto& entry : status.nodes()) {
    for (const v1::NamespaceStatus& space : entry.status().namespaces()) {
      Resident& sum = spaces[space.namespace_id()];
      const bool known = space.has_residence();
      sum.memory_bytes += known ? space.residence().memory_bytes() : space.live_bytes();
      sum.device_bytes += space.residence().device_bytes();
    }
  }
  return spaces;
}

std::uint64_t WaitingOn(const v1::NodeStatusResponse& status) {
  std::uint64_t waiting = 0;
  for (const v1::CoreStatus& core : status.cores()) {
    waiting += core.map_waiters() + core.io_waiters() + core.event_waiters() +
               core.replies_awaiting_commit();
  }
  return waiting;
}

}  // namespace tidepool::cli
