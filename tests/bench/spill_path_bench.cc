// Data of four times a daemon's memory from the SDK to the device and back, with a kvd of one core
// and 256 MiB. One JSON object per row.
//
//   spill_path.zipf_read      reads per second, 64 under way at once, zipf .99
//   spill_path.uniform_read   of any record
//   spill_path.*.cpu          the daemon's CPU time for each of them
//   spill_path.resident_p99   99th percentile of single reads of records in DRAM while another
//                             client keeps 64 device reads under way, against the same without it
//   spill_path.resident_p99.memory   against that client with 64 reads of records in DRAM: what is
//                             left of the ratio is the device's, not a third busy thread's
//
// CPU time is the whole process's, as the kernel counts it; medians of the runs.
#include <fnmatch.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <deque>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "proto/base/clock.h"
#include "tests/bench/bench_options.h"
#include "tests/bench/bench_process.h"
#include "tests/bench/bench_service.h"
#include "tests/bench/spill/disk_folder.h"
#include "tests/bench/spill/workload.h"
#include "tidepool/tidepool.h"

namespace tidepool::bench {
namespace {

constexpr std::uint64_t kMemoryBytes = 256ull << 20;  // At scale 1.
constexpr std::uint64_t kDataPerMemory = 4;
constexpr std::size_t kInFlight = 64;
constexpr std::uint64_t kResidentRecords = 10'000;

std::string_view TextOf(const SpillKey& key) { return {key.text(), kSpillKeyBytes}; }

BenchProcess StartDaemon(const std::string& folder, double scale) {
  const auto mib =
      static_cast<std::uint64_t>(static_cast<double>(kMemoryBytes) * scale) / (1 << 20);
  return Require(BenchProcess::Start({Beside("kvd"), "--cluster", folder + "/cluster.json",
                                      "--data-dir", folder, "--nvm-dir", folder, "--nvm-size",
                                      std::to_string(mib * kDataPerMemory * 2) + "MiB", "--cores",
                                      "1", "--memory", std::to_string(mib) + "MiB"}),
                 "kvd");
}

class Bench {
 public:
  Bench(const BenchOptions& options, const std::string& folder)
      : options_(options),
        daemon_(StartDaemon(folder, options.scale)),
        cluster_file_(folder + "/cluster.json"),
        client_(ConnectWhenReady(cluster_file_)),
        map_(Require(client_.Create<BytesMap>("bench"), "create")),
        records_(static_cast<std::uint64_t>(static_cast<double>(kMemoryBytes) * options.scale) *
                 kDataPerMemory / kSpillUserBytes) {}

  void Run() {
    Load();
    ReadRows("spill_path.zipf_read", true);
    ReadRows("spill_path.uniform_read", false);
    if (Wanted("spill_path.resident_p99") || Wanted("spill_path.resident_p99.memory")) {
      ResidentRows();
    }
  }

 private:
  bool Wanted(const std::string& row) const {
    return fnmatch(options_.rows.c_str(), row.c_str(), 0) == 0;
  }

  void Load() {
    constexpr std::uint64_t kBatch = 500;
    std::vector<SpillKey> keys(kBatch);
    std::vector<SpillValue> values(kBatch);
    std::vector<KeyValue> batch(kBatch);
    for (std::uint64_t id = 0; id < records_;) {
      batch.clear();
      for (std::size_t i = 0; i < kBatch && id < records_; ++i, ++id) {
        keys[i] = SpillKey(id);
        const Bytes value = values[i].Of(id, 0);
        batch.push_back(
            {TextOf(keys[i]), {reinterpret_cast<const char*>(value.data()), value.size()}});
      }
      RequireOk(map_.MultiPut(batch).FirstFailure(), "put");
    }
  }

  // Reads with kInFlight under way until `over()`; returns how many.
  template <typename NextId, typename Over>
  static double ReadMany(const BytesMap& map, NextId&& next_id, Over&& over) {
    struct Flying {
      std::uint64_t id;
      SpillKey key;
      Future<Value> future;
    };
    std::deque<Flying> flying;
    SpillValue read;
    double reads = 0;
    const auto finish_one = [&] {
      const Result<Value> got = flying.front().future.Wait();
      if (!got.ok()) Fail("get", got.status());
      if (!read.Take(got->bytes.data(), got->bytes.size(), flying.front().id)) {
        Fail("get", Status(StatusCode::kInternal, "a wrong value"));
      }
      flying.pop_front();
      ++reads;
    };
    while (!over()) {
      if (flying.size() == kInFlight) finish_one();
      const std::uint64_t id = next_id();
      Flying& next = flying.emplace_back(Flying{id, SpillKey(id), {}});
      next.future = map.GetAsync(TextOf(next.key));
    }
    while (!flying.empty()) finish_one();
    return reads;
  }

  void ReadRows(const std::string& row, bool zipf) {
    if (!Wanted(row) && !Wanted(row + ".cpu")) return;
    std::vector<double> rates;
    std::vector<double> cpus;
    for (int run = -1; run < options_.runs; ++run) {  // The first warms up.
      SpillIds ids(records_, zipf, ++runs_);
      const std::uint64_t cpu_ns = daemon_.CpuNs();
      const double begin = NowSeconds();
      const double reads = ReadMany(
          map_, [&] { return ids.Next(); }, [&] { return NowSeconds() >= begin + kRunSeconds; });
      if (run < 0) continue;
      rates.push_back(reads / (NowSeconds() - begin));
      cpus.push_back(static_cast<double>(daemon_.CpuNs() - cpu_ns) / reads / 1e3);
    }
    if (Wanted(row)) Print({row, MedianOf(rates), "ops/s", "", 0, 0, "", true});
    if (Wanted(row + ".cpu")) Print({row + ".cpu", MedianOf(cpus), "us", "", 0, 0, "", true});
  }

  std::uint64_t ResidentId(SpillIds* ids) const {  // What was loaded last.
    return records_ - 1 - ids->Below(std::min(kResidentRecords, records_));
  }

  // In us, of single reads.
  double ResidentP99() {
    SpillIds ids(records_, false, ++runs_);
    std::vector<double> times;
    const double end = NowSeconds() + kRunSeconds;
    while (NowSeconds() < end) {
      const SpillKey key(ResidentId(&ids));
      const double begin = NowSeconds();
      RequireOk(map_.Get(TextOf(key)).status(), "get");
      times.push_back((NowSeconds() - begin) * 1e6);
    }
    const auto at = times.begin() + static_cast<std::ptrdiff_t>(times.size() * 99 / 100);
    std::nth_element(times.begin(), at, times.end());
    return *at;
  }

  // The same while another client keeps kInFlight reads under way.
  template <typename NextId>
  double ResidentP99Beside(NextId&& next_id) {
    std::atomic<bool> over{false};
    std::thread other([&] {
      Client client = ConnectWhenReady(cluster_file_);
      const BytesMap map = Require(client.Open<BytesMap>("bench"), "open");
      (void)ReadMany(map, next_id, [&] { return over.load(); });
    });
    const double p99 = ResidentP99();
    over = true;
    other.join();
    return p99;
  }

  void ResidentRows() {
    std::vector<double> alone;
    std::vector<double> device;
    std::vector<double> memory;
    std::vector<double> to_alone;
    std::vector<double> to_memory;
    for (int run = 0; run < options_.runs; ++run) {
      SpillIds ids(records_, false, 7 + static_cast<std::uint64_t>(run));
      alone.push_back(ResidentP99());
      memory.push_back(ResidentP99Beside([&] { return ResidentId(&ids); }));
      // The older half, which left memory first.
      device.push_back(ResidentP99Beside([&] { return ids.Below(records_ / 2); }));
      to_alone.push_back(device.back() / alone.back());
      to_memory.push_back(device.back() / memory.back());
    }
    const double ratio = MedianOf(to_alone);
    Print({"spill_path.resident_p99", MedianOf(device), "us", "no device read", MedianOf(alone),
           ratio, "<= 3", ratio <= 3});
    Print({"spill_path.resident_p99.memory", MedianOf(device), "us", "reads in DRAM",
           MedianOf(memory), MedianOf(to_memory), "", true});
  }

  static constexpr double kRunSeconds = 1.5;

  const BenchOptions options_;
  BenchProcess daemon_;
  const std::string cluster_file_;
  Client client_;
  BytesMap map_;
  const std::uint64_t records_;
  std::uint64_t runs_ = 0;
};

}  // namespace
}  // namespace tidepool::bench

int main(int argc, char** argv) {
  using namespace tidepool::bench;
  const BenchOptions options =
      ParseOptions(argc, argv, "Data larger than memory, over the data path");
  // Not the temporary folder, which may be memory.
  const DiskFolder folder("/var/tmp");
  Bench(options, folder.path()).Run();
  return 0;
}
