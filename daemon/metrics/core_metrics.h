// Counters of a core: operations by namespace, latencies, hot keys, slow frames.
//
//   daemon/core/dispatcher -> [metrics/core_metrics] -> CoreGroup::Stats (a task of the core's) ->
//   services/node_status -> Prometheus, kvctl, the status page
//
// Only the core reads and writes the counters, so they are plain integers; other threads ask for a
// copy by the core's mailbox. An operation costs two increments here, a frame two more, by a clock
// that is read anyway.
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

// Counters of one namespace on one core since the core's start, for all partitions it has had.
struct SpaceCounters {
  std::array<std::uint64_t, wire::kOpcodeEnd> operations{};  // Users' operations, by opcode.
  std::uint64_t direct_reads = 0;  // Part of `operations`: clients' own reads in the core's memory.
  std::uint64_t device_reads = 0;  // Reads of records that waited for a device.
  // Time of frames from receipt to posted answer. A frame that waited for a commit counts at its
  // end.
  LatencyBuckets frames;
  // Time of operations that waited for a device or for memory: frame received to answer posted.
  LatencyBuckets waits;
};

// Owner core only.
class CoreMetrics {
 public:
  // `slow_ns`: slower frames are logged; 0: none.
  explicit CoreMetrics(std::uint64_t slow_ns) : slow_ns_(slow_ns == 0 ? UINT64_MAX : slow_ns) {}

  SpaceCounters& Of(NamespaceId space) {
    if (space == last_space_ && last_ != nullptr) [[likely]]
      return *last_;
    return Find(space);
  }
  // Records that the present frame has operations of the namespace.
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

  // Counts `operations` in order; calls `sample` with the index of each operation to be sampled.
  template <typename Sample>
  void SampleEach(std::size_t operations, Sample sample) {
    while (sample_in_ < operations) {
      sample(sample_in_);
      sample_in_ += NextGap();
    }
    sample_in_ -= operations;
  }

  // Call every few milliseconds.
  void OnTimer(std::uint64_t now_ns);
  // Removes the counters of namespaces for which `is_dropped` returns true.
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
  // Returns 64 to 191, 127 on average: a fixed step could keep pace with a program's loop.
  std::size_t NextGap() {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return 64 + (random_ & 127);
  }

  const std::uint64_t slow_ns_;
  NamespaceId last_space_;
  SpaceCounters* last_ = nullptr;
  std::vector<SpaceCounters*> of_frame_;  // Each namespace once; its memory is reused.
  absl::flat_hash_map<std::uint32_t, std::unique_ptr<SpaceCounters>> spaces_;
  std::size_t sample_in_ = 0;
  std::uint64_t random_ = 0x9e3779b97f4a7c15ull;
  std::uint64_t halve_at_ns_ = 0;
  HotKeys hot_keys_;
  SlowLog slow_log_;
};

}  // namespace tidepool::daemon
