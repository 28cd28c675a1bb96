// Filters from the SDK to the store and back, with a kvd of one core. One JSON object per row.
//
//   bloom_path.cpu_per_insert      daemon CPU per insert-and-tell of 8 bytes, in batches of 1024
//   bloom_path.cpu_per_contains    the same for look-ups, of values that are not there
//   bloom_path.contains_by_copy    a look-up in a downloaded filter, against a request
//   bloom_path.absent_get          a Get of an absent key through a copy of a hash namespace's
//                                  prefilter (1 M keys), against a request
//
// CPU time is the whole process's, as the kernel counts it; the filter is made for 20 M values at
// 12 bits each, larger than the caches. The client is as one of another node: on this one it would
// look into the filter in the daemon's memory by itself.
#include <fnmatch.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
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

constexpr std::size_t kBatch = 1024;
constexpr std::size_t kBatchesInFlight = 4;
constexpr double kRateAtTwelveBits = 0.00542;

struct Settings {
  std::string rows = "*";
  std::size_t runs = 5;
  std::uint64_t values = 20'000'000;  // That the filter is made for; each run inserts a fifth.
};

// Values `first` .. `first + count - 1`, as their 8 bytes.
template <typename Start>
void InBatches(std::uint64_t first, std::uint64_t count, Start&& start) {
  std::deque<Future<BloomBatch>> flying;
  const auto finish_one = [&] {
    const Result<BloomBatch> done = flying.front().Wait();
    if (!done.ok() || !done->FirstFailure().ok()) {
      std::fprintf(stderr, "bloom_path_bench: a batch failed\n");
      std::exit(1);
    }
    flying.pop_front();
  };
  std::vector<std::string_view> views(kBatch);
  std::vector<std::uint64_t> values(kBatch);
  for (std::uint64_t begin = 0; begin + kBatch <= count; begin += kBatch) {
    for (std::size_t i = 0; i < kBatch; ++i) {
      values[i] = first + begin + i;
      views[i] = {reinterpret_cast<const char*>(&values[i]), sizeof values[i]};
    }
    if (flying.size() == kBatchesInFlight) finish_one();
    flying.push_back(start(views));
  }
  while (!flying.empty()) finish_one();
}

class Bench {
 public:
  Bench(Settings settings, const std::string& folder)
      : settings_(std::move(settings)),
        daemon_(StartKvd(folder, "512MiB")),
        client_(ConnectWhenReady(folder + "/cluster.json", Transport::kUcx)) {
    NamespaceOptions options;
    options.expected_items = settings_.values;
    options.false_positive_rate = kRateAtTwelveBits;
    filter_ = std::make_unique<BytesBloom>(
        Require(client_.Create<BytesBloom>("bench", options), "create"));
  }

  void Run() {
    if (Wanted("bloom_path.cpu_per_insert") || Wanted("bloom_path.cpu_per_contains")) CpuRows();
    if (Wanted("bloom_path.contains_by_copy")) CopyRow();
    if (Wanted("bloom_path.absent_get")) AbsentRow();
  }

 private:
  bool Wanted(const char* row) const { return fnmatch(settings_.rows.c_str(), row, 0) == 0; }

  template <typename Start>
  double CpuNsPerOperation(std::uint64_t first, Start&& start) {
    const std::uint64_t count = settings_.values / settings_.runs;
    const std::uint64_t begin_ns = daemon_.CpuNs();
    InBatches(first, count, start);
    return static_cast<double>(daemon_.CpuNs() - begin_ns) / static_cast<double>(count);
  }

  void CpuRows() {
    std::vector<double> inserts;
    std::vector<double> finds;
    for (std::size_t run = 0; run < settings_.runs; ++run) {
      const std::uint64_t first = run * (settings_.values / settings_.runs);
      inserts.push_back(CpuNsPerOperation(
          first, [&](const auto& views) { return filter_->MultiInsertAsync(views); }));
      finds.push_back(CpuNsPerOperation(first + settings_.values, [&](const auto& views) {
        return filter_->MultiContainsAsync(views);
      }));
    }
    const ClientStats stats = client_.Stats();
    std::fprintf(stderr, "%.1f operations per frame\n",
                 static_cast<double>(stats.operations) / static_cast<double>(stats.frames_sent));
    const double insert = MedianOf(inserts);
    if (Wanted("bloom_path.cpu_per_insert")) {
      Print({"bloom_path.cpu_per_insert", insert, "ns", "", 0, 0, "<= 100", insert <= 100});
    }
    if (Wanted("bloom_path.cpu_per_contains")) {
      Print({"bloom_path.cpu_per_contains", MedianOf(finds), "ns", "", 0, 0, "", true});
    }
  }

  void CopyRow() {
    constexpr int kAsked = 20'000;
    constexpr int kLooked = 4'000'000;
    std::vector<double> own;
    std::vector<double> requests;
    std::vector<double> ratios;
    for (std::size_t run = 0; run < settings_.runs; ++run) {
      const BloomCopy copy = Require(filter_->Download(), "download");
      std::uint64_t found = 0;
      const auto per_look = [&](int count, auto&& look) {
        const std::uint64_t begin_ns = Clock::Real().MonotonicNs();
        for (int i = 0; i < count; ++i) {
          const std::uint64_t value = ~static_cast<std::uint64_t>(i);
          found += look(std::string_view(reinterpret_cast<const char*>(&value), sizeof value));
        }
        return static_cast<double>(Clock::Real().MonotonicNs() - begin_ns) / count;
      };
      own.push_back(
          per_look(kLooked, [&](std::string_view value) { return copy.Contains(value); }));
      requests.push_back(per_look(kAsked, [&](std::string_view value) {
        return Require(filter_->Contains(value), "contains");
      }));
      ratios.push_back(requests.back() / own.back());
      std::fprintf(stderr, "run %zu: %.1f ns by copy, %.0f by request, %llu of errors\n", run + 1,
                   own.back(), requests.back(), static_cast<unsigned long long>(found));
    }
    const double ratio = MedianOf(ratios);
    Print({"bloom_path.contains_by_copy", MedianOf(own), "ns", "a request", MedianOf(requests),
           ratio, ">= 20", ratio >= 20});
  }

  void AbsentRow() {
    constexpr std::uint64_t kAsked = 20'000;
    constexpr std::uint64_t kLooked = 1'000'000;
    const std::uint64_t keys = settings_.values / 20;
    NamespaceOptions options;
    options.prefilter = Prefilter::kAbsent;
    options.expected_items = keys;
    const auto map = Require(client_.Create<BytesMap>("absent", options), "create");
    std::vector<std::uint64_t> numbers(kBatch);
    for (std::uint64_t begin = 0; begin < keys; begin += kBatch) {
      std::vector<KeyValue> records;
      for (std::size_t i = 0; i < kBatch; ++i) {
        numbers[i] = begin + i;
        records.push_back({ViewOf(numbers[i]), "value"});
      }
      if (!map.MultiPut(records).AllOk()) std::exit(1);
    }
    const std::uint64_t begin_ns = Clock::Real().MonotonicNs();
    const auto fast = Require(WithPrefilter(map), "download");
    std::fprintf(stderr, "downloaded %llu bytes in %.2f ms\n",
                 static_cast<unsigned long long>(fast.space().prefilter_stats().bytes),
                 static_cast<double>(Clock::Real().MonotonicNs() - begin_ns) / 1e6);
    std::vector<double> own;
    std::vector<double> requests;
    std::vector<double> ratios;
    for (std::size_t run = 0; run < settings_.runs; ++run) {
      const auto per_get = [&](const BytesMap& at, std::uint64_t count) {
        const std::uint64_t start_ns = Clock::Real().MonotonicNs();
        for (std::uint64_t i = 0; i < count; ++i) {
          const std::uint64_t value = ~i;
          if (at.Get(ViewOf(value)).code() != StatusCode::kNotFound) std::exit(1);
        }
        return static_cast<double>(Clock::Real().MonotonicNs() - start_ns) /
               static_cast<double>(count);
      };
      own.push_back(per_get(fast, kLooked));
      requests.push_back(per_get(map, kAsked));
      ratios.push_back(requests.back() / own.back());
      std::fprintf(stderr, "run %zu: %.1f ns by copy, %.0f by request\n", run + 1, own.back(),
                   requests.back());
    }
    const double ratio = MedianOf(ratios);
    Print({"bloom_path.absent_get", MedianOf(own), "ns", "a request", MedianOf(requests), ratio,
           ">= 20", ratio >= 20});
  }

  static std::string_view ViewOf(const std::uint64_t& value) {
    return {reinterpret_cast<const char*>(&value), sizeof value};
  }

  const Settings settings_;
  BenchProcess daemon_;
  Client client_;
  std::unique_ptr<BytesBloom> filter_;
};

}  // namespace
}  // namespace tidepool::bench

int main(int argc, char** argv) {
  using namespace tidepool::bench;
  const BenchOptions options = ParseOptions(argc, argv, "Filters over the data path");
  Settings settings;
  settings.rows = options.rows;
  settings.runs = static_cast<std::size_t>(options.runs);
  settings.values =
      static_cast<std::uint64_t>(static_cast<double>(settings.values) * options.scale);
  const BenchFolder folder;
  Bench(settings, folder.path()).Run();
  return 0;
}
