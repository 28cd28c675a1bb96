// Node aggregation beside client-side buffers alone: 8 daemons of one core, 4 client processes that
// each buffer adds to counters with 8-byte keys and flush every 64, that is 8 for each core. One
// JSON object per row.
//
//   aggregation.messages_per_add   frames that any daemon receives or sends, per add
//   aggregation.cpu_per_add        CPU of all daemons and clients, per add
//   aggregation.flush_latency      of one flush, as a client waits for it (the price of the hop)
//
// Frames are what the daemons' cores count; each is answered by one. CPU time is the processes', as
// the kernel counts it. Medians of interleaved runs.
#include <fnmatch.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "proto/base/clock.h"
#include "tests/bench/bench_options.h"
#include "tests/bench/bench_process.h"
#include "tests/bench/bench_service.h"
#include "tidepool/tidepool.h"

namespace tidepool::bench {
namespace {

using Counters = HashMap<std::uint64_t, std::int64_t>;

constexpr std::uint32_t kDaemons = 8;
constexpr std::uint32_t kClients = 4;
constexpr std::uint64_t kCounters = 100'000;
constexpr std::uint64_t kAddsPerFlush = 64;
constexpr double kFlushesPerRun = 8'000;  // Of each client.

// Everybody meets here before and after what is measured.
Group Meet(Client& client, const std::string& name) {
  return Require(Group::Join(client, name, kClients + 1), "join");
}

// A client process: its CPU time and the time of a flush go to stdout.
int RunClient(const std::string& file, const std::string& run, bool by_node,
              std::uint64_t flushes) {
  Client client = Require(Client::Connect({.cluster_file = file}), "connect");
  const auto map = Require(client.OpenOrCreate<Counters>("adds"), "open");
  BufferedOptions options;
  options.aggregation = by_node ? Aggregation::kNode : Aggregation::kClient;
  auto buffered = map.Buffered(options);
  Group group = Meet(client, run);
  std::uint64_t state = group.rank() + 1;
  const auto flush = [&] {
    for (std::uint64_t i = 0; i < kAddsPerFlush; ++i) {
      state = state * 6364136223846793005ull + 1442695040888963407ull;
      buffered.Add((state >> 33) % kCounters * 0x9e3779b97f4a7c15ull, 1);
    }
    RequireOk(buffered.Flush(), "flush");
  };
  for (int i = 0; i < 50; ++i) flush();  // Connections are made.
  RequireOk(group.Barrier(), "barrier");
  const std::uint64_t cpu_ns = OwnCpuNs();
  const std::uint64_t begin_ns = Clock::Real().MonotonicNs();
  for (std::uint64_t i = 0; i < flushes; ++i) flush();
  const std::uint64_t taken_ns = Clock::Real().MonotonicNs() - begin_ns;
  const std::uint64_t used_ns = OwnCpuNs() - cpu_ns;
  RequireOk(group.Barrier(), "barrier");
  std::printf("%llu %llu\n", static_cast<unsigned long long>(used_ns),
              static_cast<unsigned long long>(taken_ns / flushes));
  return 0;
}

struct Cost {
  double messages = 0;  // Per add.
  double cpu_ns = 0;    // Per add.
  double flush_us = 0;
};

class Bench {
 public:
  Bench(BenchOptions options, const std::string& folder)
      : options_(std::move(options)), folder_(folder), file_(folder + "/cluster.json") {
    for (std::uint32_t i = 0; i < kDaemons; ++i) {
      daemons_.push_back(
          Require(BenchProcess::Start({Beside("kvd"), "--nodes", std::to_string(kDaemons),
                                       "--interface", "lo", "--cluster", file_, "--data-dir",
                                       folder + "/" + std::to_string(i), "--cores", "1", "--memory",
                                       "256MiB", "--log-level", "error"}),
                  "kvd"));
    }
    (void)ConnectWhenReady(file_);
  }

  void Run() {
    Client client = Require(Client::Connect({.cluster_file = file_}), "connect");
    RequireOk(client.OpenOrCreate<Counters>("adds").status(), "create");
    std::vector<Cost> alone;
    std::vector<Cost> together;
    for (int run = 0; run < options_.runs; ++run) {
      alone.push_back(Measure(client, false, run));
      together.push_back(Measure(client, true, run));
      std::fprintf(stderr,
                   "run %d: by clients %.3f messages, %.0f ns, %.0f us; by the node %.3f "
                   "messages, %.0f ns, %.0f us\n",
                   run + 1, alone.back().messages, alone.back().cpu_ns, alone.back().flush_us,
                   together.back().messages, together.back().cpu_ns, together.back().flush_us);
    }
    Report("aggregation.messages_per_add", "", alone, together, &Cost::messages, "<= 0.5", 0.5);
    Report("aggregation.cpu_per_add", "ns", alone, together, &Cost::cpu_ns, "<= 1", 1);
    Report("aggregation.flush_latency", "us", alone, together, &Cost::flush_us, "", 0);
  }

 private:
  std::uint64_t Frames() const {
    const std::string status =
        Require(RunAndRead({Beside("kvctl"), "--cluster", file_, "--json", "status"}), "kvctl");
    std::uint64_t frames = 0;
    for (std::size_t at = 0; (at = status.find("\"frames\":", at)) != std::string::npos;) {
      at += 9;
      frames += std::strtoull(status.c_str() + at, nullptr, 10);
    }
    return frames;
  }

  std::uint64_t DaemonsCpuNs() const {
    std::uint64_t cpu_ns = 0;
    for (const BenchProcess& daemon : daemons_) cpu_ns += daemon.CpuNs();
    return cpu_ns;
  }

  Cost Measure(Client& client, bool by_node, int run) {
    const std::string name = std::string(by_node ? "node" : "client") + std::to_string(run);
    const auto flushes = static_cast<std::uint64_t>(kFlushesPerRun * options_.scale);
    std::vector<BenchProcess> clients;
    for (std::uint32_t i = 0; i < kClients; ++i) {
      clients.push_back(
          Require(BenchProcess::Start({Beside("aggregation_bench"), "--client", file_, name,
                                       by_node ? "node" : "client", std::to_string(flushes)},
                                      folder_ + "/client" + std::to_string(i)),
                  "client"));
    }
    Group group = Meet(client, name);
    // Before anybody begins: nobody passes the barrier without this process.
    const std::uint64_t frames = Frames();
    const std::uint64_t cpu_ns = DaemonsCpuNs();
    RequireOk(group.Barrier(), "barrier");
    RequireOk(group.Barrier({.timeout = std::chrono::minutes(5)}), "barrier");
    const std::uint64_t daemons_ns = DaemonsCpuNs() - cpu_ns;
    const std::uint64_t more_frames = Frames() - frames;
    double clients_ns = 0;
    double flush_ns = 0;
    for (std::uint32_t i = 0; i < kClients; ++i) {
      while (clients[i].Running()) usleep(1'000);
      std::ifstream output(folder_ + "/client" + std::to_string(i));
      double used = 0;
      double flush = 0;
      output >> used >> flush;
      clients_ns += used;
      flush_ns += flush / kClients;
    }
    const auto adds = static_cast<double>(flushes * kAddsPerFlush * kClients);
    return {2.0 * static_cast<double>(more_frames) / adds,
            (static_cast<double>(daemons_ns) + clients_ns) / adds, flush_ns / 1'000};
  }

  void Report(const char* row, const char* unit, const std::vector<Cost>& alone,
              const std::vector<Cost>& together, double Cost::*what, const char* goal,
              double most) const {
    if (fnmatch(options_.rows.c_str(), row, 0) != 0) return;
    std::vector<double> theirs;
    std::vector<double> mine;
    for (const Cost& cost : alone) theirs.push_back(cost.*what);
    for (const Cost& cost : together) mine.push_back(cost.*what);
    const double ratio = MedianOf(mine) / MedianOf(theirs);
    Print({row, MedianOf(mine), unit, "client-side buffers", MedianOf(theirs), ratio, goal,
           *goal == '\0' || ratio <= most});
  }

  const BenchOptions options_;
  const std::string folder_;
  const std::string file_;
  std::vector<BenchProcess> daemons_;
};

}  // namespace
}  // namespace tidepool::bench

int main(int argc, char** argv) {
  using namespace tidepool::bench;
  if (argc == 6 && std::string(argv[1]) == "--client") {
    return RunClient(argv[2], argv[3], std::string(argv[4]) == "node",
                     std::strtoull(argv[5], nullptr, 10));
  }
  const BenchOptions options = ParseOptions(argc, argv, "Node aggregation");
  const BenchFolder folder;
  Bench(options, folder.path()).Run();
  return 0;
}
