// Converts latencies between their counters and their message.
#pragma once

#include "proto/base/latency_buckets.h"
#include "tidepool/v1/cluster.pb.h"

namespace tidepool::convert {

inline void ToProto(const LatencyBuckets& from, v1::Latency* to) {
  for (std::size_t i = 0; i < LatencyBuckets::kBuckets; ++i) to->add_buckets(from.count(i));
  to->set_sum_ns(from.sum_ns());
}

// Leaves out further buckets of a newer version.
inline LatencyBuckets FromProto(const v1::Latency& from) {
  LatencyBuckets to;
  for (int i = 0; i < from.buckets_size(); ++i) {
    to.Set(static_cast<std::size_t>(i), from.buckets(i));
  }
  to.SetSumNs(from.sum_ns());
  return to;
}

}  // namespace tidepool::convert
