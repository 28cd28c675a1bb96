// What a core counts while it works: operations by namespace, latencies, hot keys, slow frames.
//
//   daemon/core/dispatcher -> [metrics/core_metrics] -> CoreGroup::Stats (a task of the core's) ->
//   services/node_status -> Prometheus, kvctl, the status page
//
// The core alone writes and reads these: plain integers. Who wants to know them asks for a copy by
// the core's mailbox. So an operation costs two increments here and nothing else, a frame two more,
// by the clock that is read anyway.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/metrics/hot_keys.h"
#include "daemon/metrics/slow_log.h"
#include "proto/base/ids.h"
#include "proto/base/latency_buckets.h"
#include "proto/wire/opcode.h"

namespace tidepool::daemon {

// Of one namespace on one core; since the core's start, wherever its partitions were meanwhile.
struct SpaceCounters {
  std::array<std::uint64_t, wire::kOpcodeEnd> operations{};  // Users' operations, by opcode.
  std::uint64_t direct_reads = 0;  // Part of them: clients' own reads in the core's memory.
  std::uint64_t device_reads = 0;  // Of those that read records: that waited for a device.
  // Of its frames: received to answer posted. One that waited for a commit counts by its end.
  LatencyBuckets frames;
  // Of its operations that waited for a device or for memory: frame received to answer posted.
  LatencyBuckets waits;
};

// Owner core only.
class CoreMetrics {
 public:
  // `slow_ns`: what takes longer is logged; 0: nothing.
  explicit CoreMetrics(std::uint64_t slow_ns) : slow_ns_(slow_ns == 0 ? UINT64_MAX : slow_ns) {}

  SpaceCounters& Of(NamespaceId space) {
    if (space == last_space_ && last_ != nullptr) [[likely]]
      return *last_;
    return Find(space);
  }
  // Notes that the frame at hand has operations of the namespace.
  void AddToFrame(SpaceCounters* counters) {
    if (std::find(of_frame_.begin(), of_frame_.end(), counters) == of_frame_.end()) {
      of_frame_.push_back(counters);
    }
  }
  void BeginFrame() { of_frame_.clear(); }
  void EndFrame(std::uint64_t duration_ns) {
    for (SpaceCounters* counters : of_frame_) counters->frames.Record(duration_ns);
  }
  bool IsSlow(std::uint64_t duration_ns) const { return duration_ns > slow_ns_; }

  // For each of `operations`, in their order: calls `sample` with the index of those that are to be
  // sampled.
  template <typename Sample>
  void SampleEach(std::size_t operations, Sample sample) {
    while (sample_in_ < operations) {
      sample(sample_in_);
      sample_in_ += NextGap();
    }
    sample_in_ -= operations;
  }

  // Every few milliseconds.
  void OnTimer(std::uint64_t now_ns);
  // Those of namespaces that `is_dropped` says are gone.
  template <typename IsDropped>
  void Forget(IsDropped is_dropped) {
    last_ = nullptr;
    of_frame_.clear();
    for (auto it = spaces_.begin(); it != spaces_.end();) {
      const auto at = it++;
      if (is_dropped(NamespaceId(at->first))) spaces_.erase(at);
    }
  }

  template <typename See>
  void ForEach(See see) const {
    for (const auto& [space, counters] : spaces_) see(NamespaceId(space), *counters);
  }
  HotKeys& hot_keys() { return hot_keys_; }
  SlowLog& slow_log() { return slow_log_; }

 private:
  SpaceCounters& Find(NamespaceId space);
  // 64 to 191, 127 on average: a fixed step could keep pace with a program's loop.
  std::size_t NextGap() {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return 64 + (random_ & 127);
  }

  const std::uint64_t slow_ns_;
  NamespaceId last_space_;
  SpaceCounters* last_ = nullptr;
  std::vector<SpaceCounters*> of_frame_;  // Each once; allocates nothing once it is warm.
  absl::flat_hash_map<std::uint32_t, std::unique_ptr<SpaceCounters>> spaces_;
  std::size_t sample_in_ = 0;
  std::uint64_t random_ = 0x9e3779b97f4a7c15ull;
  std::uint64_t halve_at_ns_ = 0;
  HotKeys hot_keys_;
  SlowLog slow_log_;
};

}  // namespace tidepool::daemon
