// Queues from the SDK to the store and back, with a kvd of one core, against Redis' lists. One JSON
// object per row.
//
//   queue_path.cpu_per_item   the daemon's CPU time for a push and a pop of 64 bytes, in batches of
//                             64, against redis-server's for LPUSH and RPOP pipelined 64
//   queue_path.items          items per second through both, in that run
//
// CPU time is the whole process's, as the kernel counts it; medians of interleaved runs.
#include <fnmatch.h>

#include <cstdio>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/clock.h"
#include "tests/bench/bench_options.h"
#include "tests/bench/bench_process.h"
#include "tests/bench/bench_service.h"
#include "tidepool/tidepool.h"

namespace tidepool::bench {
namespace {

constexpr std::size_t kBatch = 64;
constexpr std::size_t kBatchesInFlight = 4;
constexpr std::size_t kValueBytes = 64;

struct Settings {
  std::string rows = "*";
  std::size_t runs = 5;
  std::uint64_t items = 2'000'000;  // Of each run.
};

// Starts `batches` calls, a few at a time, and takes each result.
template <typename T, typename Start, typename Take>
void InFlight(std::uint64_t batches, Start&& start, Take&& take) {
  std::deque<Future<T>> flying;
  const auto finish_one = [&] {
    take(flying.front().Wait());
    flying.pop_front();
  };
  for (std::uint64_t i = 0; i < batches; ++i) {
    if (flying.size() == kBatchesInFlight) finish_one();
    flying.push_back(start());
  }
  while (!flying.empty()) finish_one();
}

struct Cost {
  double cpu_ns = 0;  // Of an item, in and out.
  double items_per_s = 0;
};

// The process' CPU and the time that `work` on so many items takes.
template <typename Work>
Cost CostOf(const BenchProcess& process, std::uint64_t items, Work&& work) {
  const std::uint64_t cpu_ns = process.CpuNs();
  const std::uint64_t begin_ns = Clock::Real().MonotonicNs();
  work();
  const auto count = static_cast<double>(items);
  return {static_cast<double>(process.CpuNs() - cpu_ns) / count,
          count * 1e9 / static_cast<double>(Clock::Real().MonotonicNs() - begin_ns)};
}

class Ours {
 public:
  explicit Ours(const std::string& folder)
      : daemon_(StartKvd(folder, "2GiB")),
        client_(ConnectWhenReady(folder + "/cluster.json")),
        queue_(Require(client_.Create<BytesQueue>("bench"), "create")) {}

  Cost Run(std::uint64_t items) {
    const std::string value(kValueBytes, 'v');
    const std::vector<std::string_view> values(kBatch, value);
    return CostOf(daemon_, items, [&] {
      InFlight<PushBatch>(
          items / kBatch, [&] { return queue_.MultiPushAsync(values); },
          [](const Result<PushBatch>& done) {
            if (!done.ok()) Fail("push", done.status());
            if (!done->AllOk()) Fail("push", done->FirstFailure());
          });
      std::uint64_t popped = 0;
      InFlight<ItemBatch>(
          items / kBatch, [&] { return queue_.PopManyAsync(kBatch); },
          [&popped](const Result<ItemBatch>& done) {
            if (!done.ok()) Fail("pop", done.status());
            popped += done->size();
          });
      if (popped != items) Fail("pop", Status(StatusCode::kInternal, "items are missing"));
    });
  }

 private:
  BenchProcess daemon_;
  Client client_;
  BytesQueue queue_;
};

// redis-benchmark's own clients.
class Redis {
 public:
  Cost Run(std::uint64_t items) const {
    const std::string value(kValueBytes, 'v');
    return CostOf(server_.process(), items, [&] {
      Ask(items, {"LPUSH", "list", value});
      Ask(items, {"RPOP", "list"});
    });
  }

 private:
  void Ask(std::uint64_t items, const std::vector<std::string>& request) const {
    std::vector<std::string> arguments{"-P", "64", "-n", std::to_string(items)};
    arguments.insert(arguments.end(), request.begin(), request.end());
    (void)server_.Benchmark(arguments);
  }

  const RedisServer server_;
};

void Run(const Settings& settings, const std::string& folder) {
  Ours ours(folder);
  Redis redis;
  const std::uint64_t items = settings.items / kBatch * kBatch;
  std::vector<double> our_cpu, their_cpu, cpu_ratios, our_rate, their_rate, rate_ratios;
  for (std::size_t run = 0; run < settings.runs; ++run) {
    const Cost own = ours.Run(items);
    const Cost peer = redis.Run(items);
    std::fprintf(stderr, "run %zu: %.0f ns of CPU per item, redis %.0f; %.2f M/s, redis %.2f\n",
                 run + 1, own.cpu_ns, peer.cpu_ns, own.items_per_s / 1e6, peer.items_per_s / 1e6);
    our_cpu.push_back(own.cpu_ns);
    their_cpu.push_back(peer.cpu_ns);
    cpu_ratios.push_back(own.cpu_ns / peer.cpu_ns);
    our_rate.push_back(own.items_per_s);
    their_rate.push_back(peer.items_per_s);
    rate_ratios.push_back(own.items_per_s / peer.items_per_s);
  }
  const auto wanted = [&](const char* row) { return fnmatch(settings.rows.c_str(), row, 0) == 0; };
  if (wanted("queue_path.cpu_per_item")) {
    const double ratio = MedianOf(cpu_ratios);
    Print({"queue_path.cpu_per_item", MedianOf(our_cpu), "ns", "redis-server", MedianOf(their_cpu),
           ratio, "<= 0.2", ratio <= 0.2});
  }
  if (wanted("queue_path.items")) {
    Print({"queue_path.items", MedianOf(our_rate), "items/s", "redis-benchmark -P 64",
           MedianOf(their_rate), MedianOf(rate_ratios), "", true});
  }
}

}  // namespace
}  // namespace tidepool::bench

int main(int argc, char** argv) {
  using namespace tidepool::bench;
  const BenchOptions options = ParseOptions(argc, argv, "Queues over the data path");
  Settings settings;
  settings.rows = options.rows;
  settings.runs = static_cast<std::size_t>(options.runs);
  settings.items = static_cast<std::uint64_t>(static_cast<double>(settings.items) * options.scale);
  const BenchFolder folder;
  Run(settings, folder.path());
  return 0;
}
