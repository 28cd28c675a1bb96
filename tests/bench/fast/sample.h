// What one side of a row does for a while, measured, and the comparison of several sides: rounds in
// turns, medians, and the spread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/bench/bench_process.h"

namespace tidepool::bench {

// Of one round. An operation is one key's; a call may have many.
struct Sample {
  double operations_per_s = 0;
  double p50_us = 0;  // Of a call.
  double p99_us = 0;
  double p999_us = 0;
  double client_cpu_us = 0;  // Per operation.
  double server_cpu_us = 0;
  double bytes_per_s = 0;
};
using Metric = double Sample::*;

// How long, and of what.
struct RoundOptions {
  double seconds = 0.3;
  std::size_t operations_per_call = 1;
  std::size_t bytes_per_operation = 0;
  // Calls that share a look at the clock, which takes as long as a hot direct read: their mean
  // counts as each one's latency.
  std::size_t calls_per_look = 1;
  const std::vector<BenchProcess>* servers = nullptr;
};

// Calls `call` until the time is over.
Sample RunRound(const RoundOptions& options, const std::function<void()>& call);
// The same by a thread for each of `calls`, at the same time: rates add up, latencies are all
// theirs.
Sample RunRoundOfMany(const RoundOptions& options, const std::vector<std::function<void()>>& calls);

struct Side {
  std::string name;
  std::function<Sample()> round;
};

struct Goal {
  std::string text;  // As Row::goal. Empty: none.
  // By the value, and its ratio to the row's peer.
  std::function<bool(double value, double ratio)> met;
};

struct FastRow {
  std::string name;
  Metric metric = &Sample::p50_us;
  std::string unit = "us";
  Goal goal;
  std::size_t peer = 1;  // Of the sides: whose ratio counts.
};

// Runs sides[0], which is ours, and its peers in turns and prints one row for each of `rows`:
// ratios are ours over theirs, of the same round.
void Compare(const std::vector<FastRow>& rows, int rounds, const std::vector<Side>& sides);

Goal AtMost(double ratio);
Goal AtLeast(double ratio);

}  // namespace tidepool::bench
