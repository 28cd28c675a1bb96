// Changes between two looks at a cluster's status: rates and latencies.
//
// kvctl top, kvctl status -> [status_rates]
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "proto/base/latency_buckets.h"
#include "tidepool/v1/cluster.pb.h"

namespace tidepool::cli {

struct SpaceRates {
  double reads = 0;  // Per second.
  double changes = 0;
  double device_reads = 0;
  double direct_reads = 0;  // Part of the operations: direct reads of the clients.
  LatencyBuckets frames;

  void Add(const SpaceRates& other);
  // Share of the reads, 0 to 1; no value: there were no reads.
  std::optional<double> HitShare() const;
};

struct ClusterRates {
  std::map<std::uint32_t, double> operations;  // Per second, by node.
  std::map<std::uint32_t, SpaceRates> spaces;  // By namespace.
  SpaceRates all;
  double all_operations = 0;
};

// Nodes that did not answer both times, or have been started anew meanwhile, are left out.
ClusterRates RatesBetween(const v1::StatusResponse& before, const v1::StatusResponse& now);

// Since the daemons' starts: counts instead of rates.
ClusterRates TotalsSinceStart(const v1::StatusResponse& status);

// Where the records of a namespace are, on all nodes that answer.
struct Resident {
  std::uint64_t memory_bytes = 0;
  std::uint64_t device_bytes = 0;
};
std::map<std::uint32_t, Resident> ResidentBySpace(const v1::StatusResponse& status);

// Operations, groups and answers that wait on a node's cores.
std::uint64_t WaitingOn(const v1::NodeStatusResponse& status);

}  // namespace tidepool::cli
