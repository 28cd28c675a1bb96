#include "tests/bench/fast/sample.h"

#include <algorithm>
#include <barrier>
#include <cstdio>
#include <thread>

#include "proto/base/clock.h"
#include "tests/bench/bench_service.h"

namespace tidepool::bench {
namespace {

std::uint64_t CpuOf(const std::vector<BenchProcess>* servers) {
  std::uint64_t sum = 0;
  if (servers == nullptr) return 0;
  for (const BenchProcess& server : *servers) sum += server.CpuNs();
  return sum;
}

double QuantileOf(std::vector<double>& values, double q) {
  if (values.empty()) return 0;
  const auto at =
      values.begin() + static_cast<std::ptrdiff_t>(static_cast<double>(values.size() - 1) * q);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

// The calls of one thread; returns how many, and notes how long each took in us.
std::size_t CallUntil(std::uint64_t end_ns, std::size_t calls_per_look,
                      const std::function<void()>& call, std::vector<double>* latencies) {
  std::size_t calls = 0;
  std::uint64_t before = Clock::Real().MonotonicNs();
  while (before < end_ns) {
    for (std::size_t i = 0; i < calls_per_look; ++i) call();
    const std::uint64_t now = Clock::Real().MonotonicNs();
    latencies->push_back(static_cast<double>(now - before) / static_cast<double>(calls_per_look) /
                         1e3);
    before = now;
    calls += calls_per_look;
  }
  return calls;
}

Sample SampleOf(const RoundOptions& options, std::size_t calls, double seconds,
                std::uint64_t client_cpu_ns, std::uint64_t server_cpu_ns,
                std::vector<double> latencies) {
  const double operations = static_cast<double>(calls * options.operations_per_call);
  Sample sample;
  sample.operations_per_s = operations / seconds;
  sample.bytes_per_s = sample.operations_per_s * static_cast<double>(options.bytes_per_operation);
  sample.p50_us = QuantileOf(latencies, 0.5);
  sample.p99_us = QuantileOf(latencies, 0.99);
  sample.p999_us = QuantileOf(latencies, 0.999);
  sample.client_cpu_us = static_cast<double>(client_cpu_ns) / operations / 1e3;
  sample.server_cpu_us = static_cast<double>(server_cpu_ns) / operations / 1e3;
  return sample;
}

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

// Of one metric of one side, over the rounds.
std::vector<double> Column(const std::vector<Sample>& rounds, Metric metric) {
  std::vector<double> values;
  for (const Sample& round : rounds) values.push_back(round.*metric);
  return values;
}

std::string Details(const std::vector<Sample>& rounds) {
  constexpr std::pair<const char*, Metric> kMetrics[] = {
      {"operations_per_s", &Sample::operations_per_s},
      {"p50_us", &Sample::p50_us},
      {"p99_us", &Sample::p99_us},
      {"p999_us", &Sample::p999_us},
      {"client_cpu_us", &Sample::client_cpu_us},
      {"server_cpu_us", &Sample::server_cpu_us},
      {"bytes_per_s", &Sample::bytes_per_s}};
  std::string text;
  for (const auto& [name, metric] : kMetrics) {
    const double median = MedianOf(Column(rounds, metric));
    if (median == 0) continue;
    text.append(text.empty() ? "" : ", ").append("\"").append(name).append("\": ");
    text += Number(median);
  }
  return text;
}

void PrintRow(const FastRow& row, const std::vector<Side>& sides,
              const std::vector<std::vector<Sample>>& rounds) {
  const std::vector<double> own = Column(rounds[0], row.metric);
  Row out;
  out.row = row.name;
  out.value = MedianOf(own);
  out.unit = row.unit;
  const auto [low, high] = std::minmax_element(own.begin(), own.end());
  out.details = "\"low\": " + Number(*low) + ", \"high\": " + Number(*high) + ", " +
                Details(rounds[0]) + ", \"peers\": {";
  for (std::size_t side = 1; side < sides.size(); ++side) {
    const std::vector<double> theirs = Column(rounds[side], row.metric);
    std::vector<double> ratios;
    for (std::size_t i = 0; i < own.size(); ++i) {
      ratios.push_back(theirs[i] == 0 ? 0 : own[i] / theirs[i]);
    }
    if (side == row.peer) {
      out.peer = sides[side].name;
      out.peer_value = MedianOf(theirs);
      out.ratio = MedianOf(ratios);
    }
    out.details.append(side == 1 ? "\"" : ", \"")
        .append(sides[side].name)
        .append("\": {\"ratio\": ");
    out.details.append(Number(MedianOf(ratios))).append(", ").append(Details(rounds[side])) += "}";
  }
  out.details += "}";
  out.goal = row.goal.text;
  out.met = !row.goal.text.empty() && row.goal.met(out.value, out.ratio);
  Print(out);
}

}  // namespace

Sample RunRound(const RoundOptions& options, const std::function<void()>& call) {
  std::vector<double> latencies;
  latencies.reserve(1 << 20);
  call();  // Warm.
  const std::uint64_t server_ns = CpuOf(options.servers);
  const std::uint64_t client_ns = OwnCpuNs();
  const std::uint64_t begin = Clock::Real().MonotonicNs();
  const std::size_t calls = CallUntil(begin + static_cast<std::uint64_t>(options.seconds * 1e9),
                                      options.calls_per_look, call, &latencies);
  const double seconds = static_cast<double>(Clock::Real().MonotonicNs() - begin) / 1e9;
  return SampleOf(options, calls, seconds, OwnCpuNs() - client_ns,
                  CpuOf(options.servers) - server_ns, std::move(latencies));
}

Sample RunRoundOfMany(const RoundOptions& options,
                      const std::vector<std::function<void()>>& calls) {
  std::vector<std::vector<double>> latencies(calls.size());
  std::vector<std::size_t> counts(calls.size());
  std::vector<std::thread> threads;
  std::barrier ready(static_cast<std::ptrdiff_t>(calls.size()) + 1);
  std::uint64_t begin = 0;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    threads.emplace_back([&, i] {
      calls[i]();  // Warm, and connected.
      ready.arrive_and_wait();
      ready.arrive_and_wait();
      counts[i] = CallUntil(begin + static_cast<std::uint64_t>(options.seconds * 1e9),
                            options.calls_per_look, calls[i], &latencies[i]);
    });
  }
  ready.arrive_and_wait();
  const std::uint64_t server_ns = CpuOf(options.servers);
  const std::uint64_t client_ns = OwnCpuNs();
  begin = Clock::Real().MonotonicNs();
  ready.arrive_and_wait();
  for (std::thread& thread : threads) thread.join();
  const double seconds = static_cast<double>(Clock::Real().MonotonicNs() - begin) / 1e9;
  std::size_t count = 0;
  std::vector<double> all;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    count += counts[i];
    all.insert(all.end(), latencies[i].begin(), latencies[i].end());
  }
  return SampleOf(options, count, seconds, OwnCpuNs() - client_ns,
                  CpuOf(options.servers) - server_ns, std::move(all));
}

void Compare(const std::vector<FastRow>& rows, int rounds, const std::vector<Side>& sides) {
  std::vector<std::vector<Sample>> samples(sides.size());
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t side = 0; side < sides.size(); ++side) {
      samples[side].push_back(sides[side].round());
    }
  }
  for (const FastRow& row : rows) PrintRow(row, sides, samples);
}

Goal AtMost(double ratio) {
  return {"ratio <= " + Number(ratio), [ratio](double, double is) { return is <= ratio; }};
}
Goal AtLeast(double ratio) {
  return {"ratio >= " + Number(ratio), [ratio](double, double is) { return is >= ratio; }};
}

}  // namespace tidepool::bench
