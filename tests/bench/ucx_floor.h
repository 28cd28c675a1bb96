// The floor under every GET over the network: a ping-pong of small messages between two processes,
// by bare UCX and by transport::Worker, with the same settings. Used by floor_bench and by benches
// that compare calls of the SDK with it in the same run.
#pragma once

#include <cstddef>
#include <optional>

#include "proto/base/result.h"

namespace tidepool::bench {

enum class PingPongKind {
  kBareUcx,    // UCX alone: nothing of ours but the settings.
  kTransport,  // The same through transport::Worker.
};

struct PingPongOptions {
  std::size_t payload_bytes = 64;
  std::size_t rounds = 20'000;  // After a tenth of them unmeasured.
};

struct PingPong {  // Of round trips.
  double min_us = 0;
  double median_us = 0;
  double p99_us = 0;
};

// A ping-pong needs processes of its own, which this program becomes when it is executed again:
// call this first in main() and return the value if there is one.
std::optional<int> RunPingPongRole(int argc, char** argv);

// Starts both processes on loopback, each busy polling on a CPU of its own, and measures once.
// Errors: kUnavailable (fewer than two CPUs, UCX does not start, a process ended early).
Result<PingPong> MeasurePingPong(PingPongKind kind, const PingPongOptions& options);

// The first two CPUs that this process may use. Errors: kUnavailable.
struct CpuPair {
  int server = 0;
  int client = 0;
};
Result<CpuPair> TwoCpus();

}  // namespace tidepool::bench
