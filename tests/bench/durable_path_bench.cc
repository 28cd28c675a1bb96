// Durable namespaces from the SDK to the device, and back after the end of their daemon: a kvd of
// one core. One JSON object per row.
//
//   durable_path.sync_put         puts of 100 bytes per second, 64 under way at once, into a `sync`
//                                 namespace, against Redis with appendfsync always and 64 clients
//   durable_path.sync_put.device  the same against the durable 4 KiB writes per second that the
//                                 device does, times the puts per commit. Commits are told by the
//                                 kernel's count of the disk's writes, of which a durable write
//                                 of the device itself is measured to cost so many
//   durable_path.async_put        the same puts into an `async` namespace, against a volatile one
//   durable_path.recovery.*       seconds per GiB that is read to come back, against the sequential
//                                 read of as many bytes: `stop` after a clean stop and `kill` after
//                                 SIGKILL with values of 1,000 bytes, `kill_64b` with values of 64
//                                 bytes of which half are superseded
//
// Medians of the runs; those of recovery are of a start each.
#include <fnmatch.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/device/device_io.h"
#include "storage/nvm/directory.h"
#include "tests/bench/bench_options.h"
#include "tests/bench/bench_process.h"
#include "tests/bench/bench_service.h"
#include "tests/bench/spill/disk_folder.h"
#include "tests/bench/spill/workload.h"
#include "tidepool/tidepool.h"

namespace tidepool::bench {
namespace {

constexpr std::size_t kInFlight = 64;
constexpr std::size_t kPutBytes = 100;
constexpr double kRunSeconds = 1.5;
constexpr std::uint64_t kPutKeys = 100'000;
constexpr std::uint64_t kLogMiB = 1024;  // At scale 1.

std::string_view TextOf(const SpillKey& key) { return {key.text(), kSpillKeyBytes}; }

// The daemon, which ends and comes back in the same folder.
class Daemon {
 public:
  Daemon(std::string folder, std::uint64_t nvm_bytes)
      : folder_(std::move(folder)), nvm_mib_(nvm_bytes >> 20), process_(Start()) {}

  Client Connect() const { return ConnectWhenReady(file()); }
  void Restart(int signal) {
    process_.Stop(signal);
    process_ = Start();
    (void)Connect();
  }
  // Of its recovery status: a number.
  double Recovery(const char* field) const {
    const std::string text = Require(
        RunAndRead({Beside("kvctl"), "status", "--json", "--cluster", file()}), "kvctl status");
    const auto json = nlohmann::json::parse(text);
    return json.at("result").at("nodes").at(0).at("recovery").at(field).get<double>();
  }

 private:
  std::string file() const { return folder_ + "/cluster.json"; }
  BenchProcess Start() const {
    return Require(
        BenchProcess::Start({Beside("kvd"), "--cluster", file(), "--data-dir", folder_, "--nvm-dir",
                             folder_, "--nvm-size", std::to_string(nvm_mib_) + "MiB", "--cores",
                             "1", "--memory", "512MiB", "--log-level", "error"}),
        "kvd");
  }

  const std::string folder_;
  const std::uint64_t nvm_mib_;
  BenchProcess process_;
};

BytesMap MakeMap(Client& client, const char* name, Durability durability) {
  NamespaceOptions options;
  options.durability = durability;
  return Require(client.Create<BytesMap>(name, options), "create");
}

// Puts per second with kInFlight under way.
double PutRate(const BytesMap& map, std::uint64_t seed) {
  struct Flying {
    SpillKey key;
    Future<Version> future;
  };
  const std::string value(kPutBytes, 'v');
  SpillIds ids(kPutKeys, false, seed);
  std::deque<Flying> flying;
  double puts = 0;
  const auto finish_one = [&] {
    RequireOk(flying.front().future.Wait().status(), "put");
    flying.pop_front();
    ++puts;
  };
  const double begin = NowSeconds();
  while (NowSeconds() < begin + kRunSeconds) {
    if (flying.size() == kInFlight) finish_one();
    Flying& next = flying.emplace_back(Flying{SpillKey(ids.Below(kPutKeys)), {}});
    next.future = map.PutAsync(TextOf(next.key), value);
  }
  while (!flying.empty()) finish_one();
  return puts / (NowSeconds() - begin);
}

// Writes that the disk below a folder has done so far, as the kernel counts them; 0 where it does
// not say, as for disks of more than one device.
double WritesOf(const std::string& folder) {
  struct stat found {};
  if (stat(folder.c_str(), &found) != 0) return 0;
  std::ifstream file("/sys/dev/block/" + std::to_string(major(found.st_dev)) + ":" +
                     std::to_string(minor(found.st_dev)) + "/stat");
  double number = 0;
  for (int field = 0; field < 5; ++field) {
    if (!(file >> number)) return 0;
  }
  return number;
}

// A file beside the daemon's.
class RawFile {
 public:
  RawFile(const std::string& folder, std::uint64_t bytes)
      : directory_(Require(storage::NvmDirectory::Open(folder), "open")),
        device_(Require(directory_->MakeFile(bytes), "make")),
        queue_(Require(device_->OpenQueue(kDepth), "queue")),
        chunk_(kChunkBytes),
        bytes_(bytes / kChunkBytes * kChunkBytes) {
    // What was reserved and never written would be read without the disk.
    for (std::uint64_t at = 0; at < bytes_; at += kChunkBytes) {
      RequireOk(storage::WriteBlocks(queue_.get(), at, chunk_.bytes()), "write");
    }
    RequireOk(storage::FlushDevice(queue_.get()), "flush");
  }

  // Durable 4 KiB writes per second, one after the other.
  double WriteRate() {
    double writes = 0;
    std::uint64_t at = 0;
    const double begin = NowSeconds();
    while (NowSeconds() < begin + kRunSeconds) {
      RequireOk(storage::WriteBlocksThrough(queue_.get(), at,
                                            chunk_.bytes().first(storage::kDeviceBlockBytes)),
                "write");
      at = (at + storage::kDeviceBlockBytes) % bytes_;
      ++writes;
    }
    return writes / (NowSeconds() - begin);
  }

  double ReadSecondsPerGiB() {
    const double begin = NowSeconds();
    std::uint64_t at = 0;
    const auto start = [&] {
      if (at >= bytes_) return false;
      if (!queue_->Start({storage::DeviceOperation::kRead, at, chunk_.data(),
                          static_cast<std::uint32_t>(kChunkBytes), 0})) {
        return false;
      }
      at += kChunkBytes;
      return true;
    };
    while (at < bytes_ || queue_->in_flight() > 0) {
      while (start()) {
      }
      queue_->Wait(1'000);
      queue_->Reap([](const storage::DeviceCompletion& done) {
        if (done.error != 0) Fail("read", Status(StatusCode::kDeviceError, "failed"));
      });
    }
    return (NowSeconds() - begin) / static_cast<double>(bytes_) * (1ull << 30);
  }

 private:
  static constexpr unsigned kDepth = 4;
  static constexpr std::uint64_t kChunkBytes = 2ull << 20;
  std::unique_ptr<storage::NvmDirectory> directory_;
  std::unique_ptr<storage::Device> device_;
  std::unique_ptr<storage::DeviceQueue> queue_;
  storage::BlockBuffer chunk_;
  const std::uint64_t bytes_;
};

class Bench {
 public:
  Bench(const BenchOptions& options, const DiskFolder& folder)
      : options_(options), folder_(folder) {}

  void Run() {
    PutRows();
    RecoveryRow("durable_path.recovery.stop", SIGTERM, 1'000, false, "<= 0.2", 0.2);
    RecoveryRow("durable_path.recovery.kill", SIGKILL, 1'000, false, "<= 1.2", 1.2);
    RecoveryRow("durable_path.recovery.kill_64b", SIGKILL, 64, true, "<= 2.5", 2.5);
  }

 private:
  bool Wanted(const std::string& row) const {
    return fnmatch(options_.rows.c_str(), row.c_str(), 0) == 0;
  }

  void PutRows() {
    const std::string sync = "durable_path.sync_put";
    const std::string async = "durable_path.async_put";
    if (!Wanted(sync) && !Wanted(sync + ".device") && !Wanted(async)) return;
    Daemon daemon(folder_.Sub("kvd"), 1ull << 30);
    Client client = daemon.Connect();
    const BytesMap synced = MakeMap(client, "sync", Durability::kSync);
    const BytesMap marked = MakeMap(client, "async", Durability::kAsync);
    const BytesMap lost = MakeMap(client, "volatile", Durability::kVolatile);
    const std::string redis_folder = folder_.Sub("redis");
    const RedisServer redis({"--appendonly", "yes", "--appendfsync", "always", "--dir",
                             redis_folder, "--auto-aof-rewrite-percentage", "0"});
    RawFile device(folder_.Sub("device"), 64ull << 20);
    std::vector<double> rates, redis_rates, redis_ratios, devices, device_ratios;
    std::vector<double> asyncs, volatiles, async_ratios;
    for (int run = -1; run < options_.runs; ++run) {  // The first warms up.
      const double begin = WritesOf(folder_.path());
      const double rate = PutRate(synced, static_cast<std::uint64_t>(run) + 2);
      const double ours = WritesOf(folder_.path()) - begin;
      const double peer = RedisRate(redis, rate);
      const double middle = WritesOf(folder_.path());
      const double writes = device.WriteRate();
      const double each = (WritesOf(folder_.path()) - middle) / (writes * kRunSeconds);
      const double async_rate = PutRate(marked, static_cast<std::uint64_t>(run) + 2);
      const double volatile_rate = PutRate(lost, static_cast<std::uint64_t>(run) + 2);
      if (run < 0) continue;
      rates.push_back(rate);
      redis_rates.push_back(peer);
      redis_ratios.push_back(rate / peer);
      if (ours > 0 && each > 0) {
        const double commits = ours / each / kRunSeconds;
        std::fprintf(stderr, "%.0f commits/s of %.1f puts, the device %.0f/s\n", commits,
                     rate / commits, writes);
        devices.push_back(writes * rate / commits);
        device_ratios.push_back(commits / writes);
      }
      asyncs.push_back(async_rate);
      volatiles.push_back(volatile_rate);
      async_ratios.push_back(async_rate / volatile_rate);
    }
    if (Wanted(sync)) {
      const double ratio = MedianOf(redis_ratios);
      Print({sync, MedianOf(rates), "puts/s", "redis appendfsync always", MedianOf(redis_rates),
             ratio, ">= 3", ratio >= 3});
    }
    if (Wanted(sync + ".device") && !devices.empty()) {
      const double ratio = MedianOf(device_ratios);
      Print({sync + ".device", MedianOf(rates), "puts/s",
             "device's durable writes x puts per commit", MedianOf(devices), ratio, ">= 0.6",
             ratio >= 0.6});
    }
    if (Wanted(async)) {
      Print({async, MedianOf(asyncs), "puts/s", "volatile", MedianOf(volatiles),
             MedianOf(async_ratios), "", true});
    }
  }

  // As long as a run of ours.
  static double RedisRate(const RedisServer& redis, double guess) {
    const auto count = std::max<std::uint64_t>(10'000, static_cast<std::uint64_t>(guess / 4));
    const double begin = NowSeconds();
    (void)redis.Benchmark({"-t", "set", "-c", std::to_string(kInFlight), "-d",
                           std::to_string(kPutBytes), "-r", std::to_string(kPutKeys), "-n",
                           std::to_string(count)});
    return static_cast<double>(count) / (NowSeconds() - begin);
  }

  // Fills a log of kLogMiB, if `superseded` half of it with what replaces the other half, and
  // starts the daemon `runs` times.
  void RecoveryRow(const std::string& row, int signal, std::size_t value_bytes, bool superseded,
                   const char* goal, double goal_value) {
    if (!Wanted(row)) return;
    const auto mib = static_cast<std::uint64_t>(static_cast<double>(kLogMiB) * options_.scale);
    const std::uint64_t bytes = mib << 20;
    Daemon daemon(folder_.Sub("kvd"), 3 * bytes + (256ull << 20));
    const std::uint64_t log_bytes_each = kSpillKeyBytes + value_bytes + 32;
    const std::uint64_t records = bytes / log_bytes_each / (superseded ? 2 : 1);
    {
      Client client = daemon.Connect();
      const BytesMap map = MakeMap(client, "kept", Durability::kAsync);
      Load(map, records, value_bytes, false);
      RequireOk(client.Persist("kept"), "persist");  // So that nothing is updated in place.
      if (superseded) Load(map, records, value_bytes, true);
      RequireOk(client.Persist("kept"), "persist");
    }
    RawFile device(folder_.Sub("device"), bytes);
    std::vector<double> times, raws, ratios;
    for (int run = 0; run < options_.runs; ++run) {
      daemon.Restart(signal);
      const double gib = static_cast<double>(bytes) / (1ull << 30);  // Of the log, read or not.
      times.push_back(daemon.Recovery("duration_ms") / 1e3 / gib);
      raws.push_back(device.ReadSecondsPerGiB());
      ratios.push_back(times.back() / raws.back());
      std::fprintf(stderr,
                   "%.2f GiB of log in %.0f ms, of which %.0f MiB were read, %.0f records\n", gib,
                   daemon.Recovery("duration_ms"), daemon.Recovery("bytes_read") / (1 << 20),
                   daemon.Recovery("records"));
    }
    const double time = MedianOf(times);
    Print({row, time, "s/GiB", "sequential read", MedianOf(raws), MedianOf(ratios), goal,
           time <= goal_value});
  }

  // Puts so many, of each key one, or of keys at random.
  static void Load(const BytesMap& map, std::uint64_t records, std::size_t value_bytes,
                   bool random) {
    SpillIds ids(records, false, 1);
    constexpr std::uint64_t kBatch = 500;
    const std::string value(value_bytes, 'v');
    std::vector<SpillKey> keys(kBatch);
    std::vector<KeyValue> batch;
    for (std::uint64_t id = 0; id < records;) {
      batch.clear();
      for (std::size_t i = 0; i < kBatch && id < records; ++i, ++id) {
        keys[i] = SpillKey(random ? ids.Next() : id);
        batch.push_back({TextOf(keys[i]), value});
      }
      RequireOk(map.MultiPut(batch).FirstFailure(), "put");
    }
  }

  const BenchOptions options_;
  const DiskFolder& folder_;
};

}  // namespace
}  // namespace tidepool::bench

int main(int argc, char** argv) {
  using namespace tidepool::bench;
  const BenchOptions options =
      ParseOptions(argc, argv, "Durable namespaces over the data path, and their recovery");
  // Not the temporary folder, which may be memory.
  const DiskFolder folder("/var/tmp");
  Bench(options, folder).Run();
  return 0;
}
