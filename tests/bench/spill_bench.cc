// Data of four times the memory that a store may have: Tidepool's against RocksDB and LMDB. 16 B
// keys, 1,000 B values, each contender a process of its own with the same limit for index, frames,
// caches and buffers. One JSON object per row on stdout.
//
//   spill.zipf_read             reads, zipf .99, 64 clients on one owner core, against the best of
//                               RocksDB's Get with 1, 16 and 64 threads and MultiGet of 64
//   spill.zipf_read.lmdb        the same against LMDB's best of 1, 16 and 64 threads
//   spill.zipf_read.one_client  one client against one thread
//   spill.zipf_mixed            half reads, half updates
//   spill.uniform_read          reads of any record
//   spill.uniform_read.device   the same against the device's own rate of reads at depth 64
//   spill.uniform_update        updates of any record, 64 clients against the best of 1, 16, 64
//   spill.*.cpu                 CPU time per operation of the whole process, both at their best
//   spill.load                  records per second until all is on the device, no log on either
//   side spill.device_bytes.*        bytes written to the device per byte that a user updates, when
//   live
//                               records are 75 % of device and memory and were overwritten 3 times
//   spill.resident_batch16      a batch of 16 reads in DRAM, beside 64 device reads in flight
//   spill.memory.*              what each had at most
//
// Rounds alternate between the contenders; ratios are medians of those of the rounds. All are warm
// when they are measured. No page cache helps anybody: RocksDB and Tidepool read and write past it,
// and that of LMDB is part of its limit, kept by a cgroup or else by a thread of its process.
#include <fnmatch.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/bench/bench_process.h"
#include "tests/bench/spill/contender_process.h"
#include "tests/bench/spill/disk_folder.h"
#include "tests/bench/spill/workload.h"

namespace tidepool::bench {
namespace {

struct Options {
  std::string rows = "*";
  int runs = 5;
  double scale = 1;
  double seconds = 1;
  std::string folder = "/var/tmp";
  std::string cgroup;
};

constexpr std::uint64_t kLimitBytes = 256ull << 20;  // At scale 1.
constexpr std::uint64_t kDataPerMemory = 4;
// Of a record of these sizes in the log.
constexpr std::uint64_t kStoredBytes = 1'048;
constexpr double kSettleSeconds = 30;
constexpr std::uint32_t kManyClients = 64;

struct Point {
  double rate = 0;    // Per second.
  double cpu_us = 0;  // Per operation.
};

Point PointOf(const SpillResult& result) {
  return {result.operations / result.seconds, result.cpu_seconds / result.operations * 1e6};
}

// What the rounds gave, by row.
struct Series {
  std::vector<double> ours;
  std::vector<double> peer;
  std::vector<double> ratio;
  void Add(double a, double b) {
    ours.push_back(a);
    peer.push_back(b);
    ratio.push_back(a / b);
  }
};

struct Goal {
  std::string text;
  double at_least = 0;
  double at_most = 0;  // 0: `at_least` counts.
  bool Met(double ratio) const { return at_most > 0 ? ratio <= at_most : ratio >= at_least; }
};
Goal AtLeast(const char* text, double ratio) { return {std::string("ratio >= ") + text, ratio, 0}; }
Goal AtMost(const char* text, double ratio) { return {std::string("ratio <= ") + text, 0, ratio}; }

class Bench {
 public:
  explicit Bench(const Options& options) : options_(options), folder_(options.folder) {
    setup_.limit_bytes =
        static_cast<std::uint64_t>(static_cast<double>(kLimitBytes) * options.scale);
    setup_.records = setup_.limit_bytes * kDataPerMemory / kSpillUserBytes;
    setup_.device_bytes = setup_.records * kStoredBytes * 2;
    auto own = options.cgroup.empty() ? OwnCgroup() : Result<std::string>(options.cgroup);
    if (own.ok()) {
      auto tried = MemoryGroup::Make(*own, "spill-bench-probe", setup_.limit_bytes);
      if (tried.ok()) {
        cgroup_ = *own;
        return;
      }
      own = tried.status();
    }
    setup_.limit_page_cache = true;
    std::fprintf(stderr,
                 "spill_bench: no cgroup: %s. Each contender is told its limit, and the page cache "
                 "of LMDB is kept at it by a thread of its process.\n",
                 own.status().ToString().c_str());
  }

  void Run() {
    if (AnyWanted({"spill.zipf_read", "spill.zipf_read.lmdb", "spill.zipf_read.one_client",
                   "spill.zipf_read.cpu", "spill.uniform_read", "spill.uniform_read.device",
                   "spill.uniform_read.cpu", "spill.zipf_mixed", "spill.zipf_mixed.cpu",
                   "spill.uniform_update", "spill.uniform_update.cpu", "spill.load",
                   "spill.resident_batch16", "spill.memory.tidepool", "spill.memory.rocksdb",
                   "spill.memory.lmdb"})) {
      Compare();
    }
    if (Wanted("spill.device_bytes.zipf")) DeviceBytes(true, 1.5);
    if (Wanted("spill.device_bytes.uniform")) DeviceBytes(false, 2.6);
  }

 private:
  using Process = std::unique_ptr<ContenderProcess>;
  using Make = std::unique_ptr<Contender> (*)(const SpillSetup&);

  bool Wanted(const std::string& row) const {
    return fnmatch(options_.rows.c_str(), row.c_str(), 0) == 0;
  }
  bool AnyWanted(std::initializer_list<const char*> rows) const {
    return std::any_of(rows.begin(), rows.end(), [this](const char* row) { return Wanted(row); });
  }

  Process Start(const std::string& name, Make make, SpillSetup setup) const {
    setup.folder = folder_.Sub(name);
    std::optional<MemoryGroup> group;
    if (!cgroup_.empty()) {
      auto made =
          MemoryGroup::Make(cgroup_, "spill-bench-" + name, setup.limit_bytes + kProgramBytes);
      if (!made.ok()) {
        std::fprintf(stderr, "spill_bench: %s\n", made.status().ToString().c_str());
        std::exit(1);
      }
      group.emplace(*std::move(made));
    }
    return std::make_unique<ContenderProcess>(name, std::move(group),
                                              [make, setup] { return make(setup); });
  }

  // ---- The comparison.

  void Compare() {
    LoadAll();
    if (AnyWanted({"spill.zipf_read", "spill.zipf_read.lmdb", "spill.zipf_read.one_client",
                   "spill.zipf_read.cpu"})) {
      ZipfReads();
    }
    if (AnyWanted({"spill.uniform_read", "spill.uniform_read.device", "spill.uniform_read.cpu"})) {
      UniformReads();
    }
    if (AnyWanted({"spill.zipf_mixed", "spill.zipf_mixed.cpu"})) Writes("zipf_mixed", true, 50);
    if (AnyWanted({"spill.uniform_update", "spill.uniform_update.cpu"})) {
      Writes("uniform_update", false, 100);
    }
    PrintMemory("tidepool", ours_);
    PrintMemory("rocksdb", rocksdb_);
    PrintMemory("lmdb", lmdb_);
    lmdb_.reset();
    device_.reset();
    rocksdb_.reset();
    ours_.reset();
  }

  bool WantsRocksdb() const {
    return AnyWanted({"spill.zipf_read", "spill.zipf_read.one_client", "spill.zipf_read.cpu",
                      "spill.uniform_read", "spill.uniform_read.cpu", "spill.zipf_mixed",
                      "spill.zipf_mixed.cpu", "spill.uniform_update", "spill.uniform_update.cpu",
                      "spill.load", "spill.memory.rocksdb"});
  }

  // Each load is that of a new process; those of the last round stay.
  void LoadAll() {
    Series load;
    SpillOrder order;
    order.task = SpillTask::kLoad;
    for (int run = Wanted("spill.load") ? options_.runs : 1; run-- > 0;) {
      rocksdb_.reset();
      ours_.reset();
      ours_ = Start("tidepool", MakeTidepoolStore, setup_);
      const Point ours = PointOf(ours_->Do(order));
      if (!HasRocksdb() || !WantsRocksdb()) continue;
      rocksdb_ = Start("rocksdb", MakeRocksdb, setup_);
      load.Add(ours.rate, PointOf(rocksdb_->Do(order)).rate);
      Settle(rocksdb_);
    }
    Print("spill.load", "records/s", "RocksDB, no log", load, AtLeast("6", 6));
    Settle(ours_);
    if (Wanted("spill.resident_batch16")) ResidentBatches();
    if (HasLmdb() && Wanted("spill.zipf_read.lmdb")) {
      lmdb_ = Start("lmdb", MakeLmdb, setup_);
      (void)lmdb_->Do(order);
    }
    if (AnyWanted({"spill.uniform_read", "spill.uniform_read.device"})) {
      device_ = Start("device", MakeDevice, setup_);
      (void)device_->Do(order);
    }
  }

  void Settle(const Process& process) const {
    if (process == nullptr) return;
    SpillOrder order;
    order.task = SpillTask::kSettle;
    order.seconds = kSettleSeconds;
    (void)process->Do(order);
  }

  SpillOrder Order(bool zipf, std::uint32_t write_percent, std::uint32_t clients) const {
    SpillOrder order;
    order.zipf = zipf;
    order.write_percent = write_percent;
    order.clients = clients;
    order.seconds = options_.seconds;
    return order;
  }

  Point Measure(const Process& process, const SpillOrder& order) const {
    const Point point = PointOf(process->Do(order));
    if (options_.rows != "*" || std::getenv("SPILL_BENCH_VERBOSE") != nullptr) {
      std::fprintf(
          stderr, "  %s%s, %u %% writes, %u clients%s: %.1f K/s, %.2f us of CPU, %.0f MiB so far\n",
          process->name().c_str(), order.zipf ? " zipf" : " uniform", order.write_percent,
          order.clients, order.batch > 1 ? " in batches" : "", point.rate / 1e3, point.cpu_us,
          process->memory_bytes_max() / (1 << 20));
    }
    return point;
  }

  // The fastest of the ways in which the peer can be driven.
  Point Best(const Process& process, bool zipf, std::uint32_t write_percent,
             bool has_batches) const {
    Point best;
    const auto consider = [&](const SpillOrder& order) {
      const Point point = Measure(process, order);
      if (point.rate > best.rate) best = point;
    };
    for (const std::uint32_t clients : {1u, 16u, kManyClients}) {
      consider(Order(zipf, write_percent, clients));
    }
    if (has_batches && write_percent == 0) {
      SpillOrder order = Order(zipf, 0, 1);
      order.batch = 64;
      consider(order);
    }
    return best;
  }

  void Warm(const Process& process, const SpillOrder& order) const {
    if (process == nullptr) return;
    SpillOrder warm = order;
    warm.seconds = 3 * options_.seconds;
    (void)process->Do(warm);
  }

  void ZipfReads() {
    Warm(ours_, Order(true, 0, kManyClients));
    Warm(rocksdb_, Order(true, 0, 16));
    Warm(lmdb_, Order(true, 0, 16));
    Series best;
    Series cpu;
    Series one;
    Series lmdb;
    for (int run = 0; run < options_.runs; ++run) {
      const Point ours = Measure(ours_, Order(true, 0, kManyClients));
      const Point ours_alone = Measure(ours_, Order(true, 0, 1));
      if (rocksdb_ != nullptr) {
        const Point peer = Best(rocksdb_, true, 0, true);
        best.Add(ours.rate, peer.rate);
        cpu.Add(ours.cpu_us, peer.cpu_us);
        one.Add(ours_alone.rate, Measure(rocksdb_, Order(true, 0, 1)).rate);
      }
      if (lmdb_ != nullptr) lmdb.Add(ours.rate, Best(lmdb_, true, 0, false).rate);
    }
    Print("spill.zipf_read", "ops/s", "RocksDB", best, AtLeast("3.5", 3.5));
    Print("spill.zipf_read.cpu", "us", "RocksDB", cpu, AtMost("0.2", 0.2));
    Print("spill.zipf_read.one_client", "ops/s", "RocksDB", one, AtLeast("2", 2));
    Print("spill.zipf_read.lmdb", "ops/s", "LMDB", lmdb, AtLeast("2", 2), HasLmdb());
  }

  void UniformReads() {
    Warm(ours_, Order(false, 0, kManyClients));
    Warm(rocksdb_, Order(false, 0, 16));
    Series best;
    Series cpu;
    Series device;
    for (int run = 0; run < options_.runs; ++run) {
      const Point ours = Measure(ours_, Order(false, 0, kManyClients));
      if (device_ != nullptr) {
        device.Add(ours.rate, Measure(device_, Order(false, 0, kManyClients)).rate);
      }
      if (rocksdb_ == nullptr) continue;
      const Point peer = Best(rocksdb_, false, 0, true);
      best.Add(ours.rate, peer.rate);
      cpu.Add(ours.cpu_us, peer.cpu_us);
    }
    // Either of the two will do.
    const bool near_device = !device.ratio.empty() && MedianOf(device.ratio) >= 0.9;
    Goal goal = AtLeast("1.8, or 0.9 of the device", near_device ? 0 : 1.8);
    Print("spill.uniform_read", "ops/s", "RocksDB", best, goal);
    Print("spill.uniform_read.device", "ops/s", "4 KiB reads at depth 64", device, {}, true);
    Print("spill.uniform_read.cpu", "us", "RocksDB", cpu, AtMost("0.2", 0.2));
  }

  void Writes(const std::string& row, bool zipf, std::uint32_t write_percent) {
    Warm(ours_, Order(zipf, write_percent, kManyClients));
    Warm(rocksdb_, Order(zipf, write_percent, 16));
    Series best;
    Series cpu;
    for (int run = 0; run < options_.runs; ++run) {
      // What one has left to do must not disturb the other.
      Settle(rocksdb_);
      Settle(ours_);
      const Point ours = Measure(ours_, Order(zipf, write_percent, kManyClients));
      Settle(ours_);
      if (rocksdb_ == nullptr) continue;
      const Point peer = Best(rocksdb_, zipf, write_percent, false);
      best.Add(ours.rate, peer.rate);
      cpu.Add(ours.cpu_us, peer.cpu_us);
    }
    Print("spill." + row, "ops/s", "RocksDB", best, zipf ? AtLeast("3.5", 3.5) : AtLeast("1", 1));
    Print("spill." + row + ".cpu", "us", "RocksDB", cpu, AtMost("0.2", 0.2));
  }

  void ResidentBatches() {
    Series series;
    SpillOrder order = Order(false, 0, kManyClients);
    order.task = SpillTask::kResident;
    for (int run = 0; run < options_.runs; ++run) {
      const SpillResult result = ours_->Do(order);
      series.Add(result.busy_us, result.quiet_us);
    }
    Print("spill.resident_batch16", "us", "no device read", series, AtMost("1.3", 1.3), true);
  }

  // ---- What is written where a device is three quarters full.

  void DeviceBytes(bool zipf, double goal) {
    SpillSetup setup = setup_;
    // Half of the rest's, as it takes five updates of each record; but what a daemon has at least.
    setup.limit_bytes = std::max<std::uint64_t>(setup.limit_bytes / 2, 64ull << 20);
    setup.records = setup.limit_bytes * kDataPerMemory / kSpillUserBytes;
    constexpr double kFill = 0.75;
    const auto live = static_cast<double>(setup.records * kStoredBytes);
    setup.device_bytes =
        static_cast<std::uint64_t>(live / kFill) - setup.limit_bytes + kLayoutBytes;
    const Process process = Start("fill", MakeTidepoolStore, setup);
    SpillOrder order;
    order.task = SpillTask::kLoad;
    (void)process->Do(order);
    order = Order(zipf, 100, kManyClients);
    order.task = SpillTask::kOverwrite;
    order.updates = 3 * setup.records;
    (void)process->Do(order);
    order.updates = 2 * setup.records;
    const SpillResult result = process->Do(order);
    const double ratio =
        result.device_written_bytes / (result.operations * static_cast<double>(kSpillUserBytes));
    Row row{std::string("spill.device_bytes.") + (zipf ? "zipf" : "uniform"),
            ratio,
            "B/B",
            "",
            0,
            0,
            "",
            false};
    char text[16];
    std::snprintf(text, sizeof text, "< %g", goal);
    row.goal = text;
    row.met = ratio < goal;
    bench::Print(row);
  }

  // ---- Rows.

  void PrintMemory(const std::string& name, const Process& process) const {
    const std::string row = "spill.memory." + name;
    if (process == nullptr || !Wanted(row)) return;
    const double limit = static_cast<double>(setup_.limit_bytes) / (1 << 20);
    const double used = process->memory_bytes_max() / (1 << 20);
    bench::Print({row, used, "MiB", "limit", limit, used / limit, "", false});
  }

  void Print(const std::string& row, const std::string& unit, const std::string& peer,
             const Series& series, const Goal& goal, bool has_peer = HasRocksdb()) const {
    if (!Wanted(row)) return;
    if (!has_peer) {
      std::printf("{\"row\": \"%s\", \"skipped\": \"built without %s\"}\n", row.c_str(),
                  peer.c_str());
      std::fflush(stdout);
      return;
    }
    const double ratio = MedianOf(series.ratio);
    bench::Print({row, MedianOf(series.ours), unit, peer, MedianOf(series.peer), ratio, goal.text,
                  !goal.text.empty() && goal.Met(ratio)});
  }

  // Code and stacks, which the limit of a store does not count.
  static constexpr std::uint64_t kProgramBytes = 16ull << 20;
  // Of a device, beside slots.
  static constexpr std::uint64_t kLayoutBytes = 8ull << 20;

  const Options options_;
  const DiskFolder folder_;
  SpillSetup setup_;
  std::string cgroup_;  // Empty: none.
  // Ended in the opposite order.
  Process ours_;
  Process rocksdb_;
  Process lmdb_;
  Process device_;
};

}  // namespace
}  // namespace tidepool::bench

int main(int argc, char** argv) {
  tidepool::bench::Options options;
  CLI::App app{"Stores whose data is four times their memory; one JSON object per row"};
  app.add_option("--rows", options.rows, "Only rows that match this glob");
  app.add_option("--runs", options.runs, "Runs per row; the median counts")
      ->check(CLI::Range(1, 100));
  app.add_option("--scale", options.scale, "Share of the full size, which is 256 MiB of memory")
      ->check(CLI::Range(0.25, 64.0));
  app.add_option("--seconds", options.seconds, "Of each run")->check(CLI::Range(0.1, 60.0));
  app.add_option("--folder", options.folder, "On the disk to be measured")
      ->check(CLI::ExistingDirectory);
  app.add_option(
      "--cgroup", options.cgroup,
      "Group of cgroup v2 in which groups with a memory limit can be made; default: that "
      "of this process");
  CLI11_PARSE(app, argc, argv);
  tidepool::bench::Bench(options).Run();
  return 0;
}
