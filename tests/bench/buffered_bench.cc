// Buffered handles beside plain calls of the same client, with a kvd of one core. One JSON object
// per row.
//
//   buffered.insert            puts of new 8-byte keys and values per second, against PutAsync with
//                              256 futures in flight
//   buffered.insert_window16   the same against PutAsync with 16 futures in flight
//   buffered.cpu_per_insert    daemon CPU of each
//   buffered.cpu_per_add       daemon CPU per add to one of 1 M counters with 8-byte keys, at
//   random buffered.client_per_add    the client's CPU for each of these buffered.cpu_per_bloom
//   daemon CPU per insert of 8 bytes into a filter for 20 M values
//
// CPU time is the whole process's, as the kernel counts it. Medians of interleaved runs.
#include <fnmatch.h>

#include <cstdio>
#include <deque>
#include <string>
#include <vector>

#include "proto/base/clock.h"
#include "tests/bench/bench_options.h"
#include "tests/bench/bench_process.h"
#include "tests/bench/bench_service.h"
#include "tidepool/tidepool.h"

namespace tidepool::bench {
namespace {

using Map = HashMap<std::uint64_t, std::uint64_t>;
using Counters = HashMap<std::uint64_t, std::int64_t>;
using Filter = BloomFilter<std::uint64_t>;

constexpr std::uint64_t kCounters = 1'000'000;
constexpr double kRateAtTwelveBits = 0.00542;

struct Settings {
  std::string rows = "*";
  std::size_t runs = 5;
  double scale = 1;
};

// A bijection, so that keys are new and in no order.
std::uint64_t KeyOf(std::uint64_t i) { return i * 0x9e3779b97f4a7c15ull; }

class Random {
 public:
  std::uint64_t Next() {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return state_ >> 33;
  }

 private:
  std::uint64_t state_ = 1;
};

// What one run of `count` operations took.
struct Cost {
  double rate = 0;       // Operations per second.
  double daemon_ns = 0;  // CPU per operation.
  double client_ns = 0;
};

class Bench {
 public:
  Bench(Settings settings, const std::string& folder)
      : settings_(std::move(settings)),
        daemon_(StartKvd(folder, "3GiB")),
        client_(ConnectWhenReady(folder + "/cluster.json")) {}

  void Run() {
    if (Wanted("buffered.insert") || Wanted("buffered.insert_window16") ||
        Wanted("buffered.cpu_per_insert")) {
      InsertRows();
    }
    if (Wanted("buffered.cpu_per_add") || Wanted("buffered.client_per_add")) AddRows();
    if (Wanted("buffered.cpu_per_bloom")) BloomRow();
  }

 private:
  bool Wanted(const char* row) const { return fnmatch(settings_.rows.c_str(), row, 0) == 0; }

  template <typename Work>
  Cost Measure(std::uint64_t count, Work&& work) {
    const std::uint64_t daemon_ns = daemon_.CpuNs();
    const std::uint64_t client_ns = OwnCpuNs();
    const std::uint64_t begin_ns = Clock::Real().MonotonicNs();
    work(count);
    const auto operations = static_cast<double>(count);
    const auto taken_ns = static_cast<double>(Clock::Real().MonotonicNs() - begin_ns);
    return {operations * 1e9 / taken_ns,
            static_cast<double>(daemon_.CpuNs() - daemon_ns) / operations,
            static_cast<double>(OwnCpuNs() - client_ns) / operations};
  }

  std::uint64_t Scaled(double count) const {
    return static_cast<std::uint64_t>(count * settings_.scale);
  }

  void PutPlain(const Map& map, std::uint64_t count, std::size_t window) {
    std::deque<Future<Version>> flying;
    const auto finish_one = [&] {
      RequireOk(flying.front().Wait().status(), "put");
      flying.pop_front();
    };
    for (std::uint64_t i = 0; i < count; ++i) {
      if (flying.size() == window) finish_one();
      flying.push_back(map.PutAsync(KeyOf(next_key_++), i));
    }
    while (!flying.empty()) finish_one();
  }

  void PutBuffered(const Map& map, std::uint64_t count) {
    auto buffered = map.Buffered();
    for (std::uint64_t i = 0; i < count; ++i) buffered.Put(KeyOf(next_key_++), i);
    RequireOk(buffered.Flush(), "flush");
  }

  void InsertRows() {
    const auto map = Require(client_.Create<Map>("inserts"), "create");
    std::vector<double> plain;
    std::vector<double> narrow;
    std::vector<double> rates;
    std::vector<double> cpu;
    for (std::size_t run = 0; run < settings_.runs; ++run) {
      const Cost wide = Measure(Scaled(500'000), [&](auto n) { PutPlain(map, n, 256); });
      const Cost few = Measure(Scaled(200'000), [&](auto n) { PutPlain(map, n, 16); });
      const Cost mine = Measure(Scaled(2'000'000), [&](auto n) { PutBuffered(map, n); });
      plain.push_back(wide.rate);
      narrow.push_back(few.rate);
      rates.push_back(mine.rate);
      cpu.push_back(mine.daemon_ns);
      std::fprintf(stderr, "run %zu: plain %.2f M/s (%.0f ns in the daemon), buffered %.2f M/s\n",
                   run + 1, wide.rate / 1e6, wide.daemon_ns, mine.rate / 1e6);
    }
    const double rate = MedianOf(rates) / 1e6;
    const double ratio = MedianOf(rates) / MedianOf(plain);
    if (Wanted("buffered.insert")) {
      Print({"buffered.insert", rate, "M/s", "PutAsync, 256", MedianOf(plain) / 1e6, ratio, ">= 8",
             ratio >= 8});
    }
    if (Wanted("buffered.insert_window16")) {
      Print({"buffered.insert_window16", rate, "M/s", "PutAsync, 16", MedianOf(narrow) / 1e6,
             MedianOf(rates) / MedianOf(narrow), "", true});
    }
    if (Wanted("buffered.cpu_per_insert")) {
      Print({"buffered.cpu_per_insert", MedianOf(cpu), "ns", "", 0, 0, "", true});
    }
    RequireOk(client_.Drop("inserts"), "drop");
  }

  void AddRows() {
    const auto map = Require(client_.Create<Counters>("adds"), "create");
    auto buffered = map.Buffered();
    for (std::uint64_t i = 0; i < kCounters; ++i) buffered.Add(KeyOf(i), 1);
    RequireOk(buffered.Flush(), "flush");
    std::vector<double> daemon;
    std::vector<double> own;
    for (std::size_t run = 0; run < settings_.runs; ++run) {
      const Cost cost = Measure(Scaled(5'000'000), [&](auto count) {
        for (std::uint64_t i = 0; i < count; ++i) {
          buffered.Add(KeyOf(random_.Next() % kCounters), 1);
        }
        RequireOk(buffered.Flush(), "flush");
      });
      daemon.push_back(cost.daemon_ns);
      own.push_back(cost.client_ns);
      std::fprintf(stderr, "run %zu: %.2f M adds/s\n", run + 1, cost.rate / 1e6);
    }
    const double cpu = MedianOf(daemon);
    if (Wanted("buffered.cpu_per_add")) {
      Print({"buffered.cpu_per_add", cpu, "ns", "", 0, 0, "<= 150", cpu <= 150});
    }
    if (Wanted("buffered.client_per_add")) {
      Print({"buffered.client_per_add", MedianOf(own), "ns", "", 0, 0, "", true});
    }
    RequireOk(client_.Drop("adds"), "drop");
  }

  void BloomRow() {
    NamespaceOptions options;
    options.expected_items = 20'000'000;
    options.false_positive_rate = kRateAtTwelveBits;
    const auto filter = Require(client_.Create<Filter>("filter", options), "create");
    auto buffered = filter.Buffered();
    std::vector<double> daemon;
    for (std::size_t run = 0; run < settings_.runs; ++run) {
      const Cost cost = Measure(Scaled(4'000'000), [&](auto count) {
        for (std::uint64_t i = 0; i < count; ++i) buffered.Insert(KeyOf(next_key_++));
        RequireOk(buffered.Flush(), "flush");
      });
      daemon.push_back(cost.daemon_ns);
      std::fprintf(stderr, "run %zu: %.2f M inserts/s\n", run + 1, cost.rate / 1e6);
    }
    const double cpu = MedianOf(daemon);
    Print({"buffered.cpu_per_bloom", cpu, "ns", "", 0, 0, "<= 100", cpu <= 100});
    RequireOk(client_.Drop("filter"), "drop");
  }

  const Settings settings_;
  BenchProcess daemon_;
  Client client_;
  Random random_;
  std::uint64_t next_key_ = 0;
};

}  // namespace
}  // namespace tidepool::bench

int main(int argc, char** argv) {
  using namespace tidepool::bench;
  const BenchOptions options = ParseOptions(argc, argv, "Buffered handles");
  const BenchFolder folder;
  Bench({options.rows, static_cast<std::size_t>(options.runs), options.scale}, folder.path()).Run();
  return 0;
}
