// Scans from the SDK to the store and back, with a kvd of one core, against Redis' sorted sets. One
// JSON object per row.
//
//   ordered_path.scan100         the daemon's CPU time of a scan of 100 records of 16 and 64 bytes,
//                                keys and values, from a random key of 5 M that came in random
//                                order, 16 under way
//   ordered_path.scan100_redis   that against redis-server's for ZRANGE [key + BYLEX LIMIT 0 100 of
//                                as many members of 80 bytes, with 16 under way
//   ordered_path.get             the time of a Get of a random key that the client reads in the
//                                daemon's memory, against the same Get by message
//
// CPU time is the whole process's, as the kernel counts it; medians of interleaved runs.
#include <fnmatch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <string>
#include <vector>

#include "tests/bench/bench_options.h"
#include "tests/bench/bench_process.h"
#include "tests/bench/bench_service.h"
#include "tidepool/tidepool.h"

namespace tidepool::bench {
namespace {

constexpr std::uint64_t kRecords = 5'000'000;
constexpr std::uint64_t kScans = 100'000;  // Of each run.
constexpr std::uint64_t kPerScan = 100;
constexpr std::size_t kInFlight = 16;

// 16 bytes. redis-benchmark writes its random numbers with 12 digits, so the keys have them too.
std::string KeyOf(std::uint64_t number) {
  char text[32];
  std::snprintf(text, sizeof text, "key:%012llu", static_cast<unsigned long long>(number));
  return text;
}

// All numbers below `count`, in an order that no index likes: the steps of a full cycle.
class Shuffled {
 public:
  explicit Shuffled(std::uint64_t count) : count_(count) {}
  std::uint64_t Next() {
    do {
      state_ = (state_ * 6364136223846793005ull + 1442695040888963407ull) & (kRange - 1);
    } while (state_ >= count_);
    return state_;
  }

 private:
  static constexpr std::uint64_t kRange = 1ull << 23;  // A power of 2 above all counts.
  const std::uint64_t count_;
  std::uint64_t state_ = 1;
};

class Bench {
 public:
  Bench(BenchOptions options, const std::string& folder)
      : options_(std::move(options)),
        records_(static_cast<std::uint64_t>(static_cast<double>(kRecords) * options_.scale)),
        scans_(static_cast<std::uint64_t>(static_cast<double>(kScans) * options_.scale)),
        daemon_(StartKvd(folder, "3GiB")),
        file_(folder + "/cluster.json"),
        client_(ConnectWhenReady(file_)),
        map_(Require(client_.Create<BytesOrderedMap>("scans", {.split = SplitMode::kManual}),
                     "create")) {}

  void Run() {
    const bool against_redis = Wanted("ordered_path.scan100_redis");
    LoadOurs();
    if (against_redis) LoadRedis();
    std::vector<double> ours;
    std::vector<double> theirs;
    std::vector<double> ratios;
    for (int run = 0; run < options_.runs; ++run) {
      ours.push_back(Ours());
      theirs.push_back(against_redis ? Redis() : 0);
      ratios.push_back(against_redis ? ours.back() / theirs.back() : 0);
      std::fprintf(stderr, "run %d: %.2f us of CPU per scan, redis %.2f\n", run + 1,
                   ours.back() / 1'000, theirs.back() / 1'000);
    }
    if (Wanted("ordered_path.get")) RunGets();
    const double own_us = MedianOf(ours) / 1'000;
    if (Wanted("ordered_path.scan100")) {
      Print({"ordered_path.scan100", own_us, "us", "", 0, 0, "<= 7", own_us <= 7});
    }
    if (against_redis) {
      Print({"ordered_path.scan100_redis", own_us, "us", "redis-server", MedianOf(theirs) / 1'000,
             MedianOf(ratios), "<= 0.5", MedianOf(ratios) <= 0.5});
    }
  }

 private:
  bool Wanted(const char* row) const { return fnmatch(options_.rows.c_str(), row, 0) == 0; }

  void LoadOurs() {
    auto buffered = map_.Buffered();
    Shuffled order(records_);
    for (std::uint64_t i = 0; i < records_; ++i) buffered.Put(KeyOf(order.Next()), value_);
    RequireOk(buffered.Flush(), "load");
    if (Require(map_.Length(), "length") != records_) {
      Fail("load", Status(StatusCode::kInternal, "records are missing"));
    }
  }

  void RunGets() {
    ConnectOptions by_message;
    by_message.cluster_file = file_;
    by_message.direct_read_bytes_max = 0;
    Client asker = Require(Client::Connect(by_message), "connect");
    const auto asked = Require(asker.Open<BytesOrderedMap>("scans"), "open");
    (void)NsPerGet(map_);  // Views and memory come.
    std::vector<double> direct;
    std::vector<double> ratios;
    for (int run = 0; run < options_.runs; ++run) {
      direct.push_back(NsPerGet(map_));
      ratios.push_back(direct.back() / NsPerGet(asked));
    }
    Print({"ordered_path.get", MedianOf(direct), "ns", "the same by message",
           MedianOf(direct) / MedianOf(ratios), MedianOf(ratios), "<= 0.5",
           MedianOf(ratios) <= 0.5});
  }

  double NsPerGet(const BytesOrderedMap& map) {
    const auto begin = std::chrono::steady_clock::now();
    for (std::uint64_t i = 0; i < scans_; ++i) {
      state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
      (void)Require(map.Get(KeyOf((state_ >> 33) % records_)), "get");
    }
    const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - begin;
    return static_cast<double>(took.count()) / static_cast<double>(scans_);
  }

  // Members that are key and value, a hundred for each request.
  void LoadRedis() {
    const std::string command = "redis-cli -p " + redis_.port() + " --pipe >/dev/null";
    std::FILE* pipe = popen(command.c_str(), "w");
    if (pipe == nullptr) Fail("redis-cli", Status(StatusCode::kUnavailable, "cannot start it"));
    Shuffled order(records_);
    for (std::uint64_t i = 0; i < records_;) {
      const std::uint64_t count = std::min(records_ - i, kPerScan);
      std::fprintf(pipe, "*%llu\r\n$4\r\nZADD\r\n$1\r\nz\r\n",
                   static_cast<unsigned long long>(2 + 2 * count));
      for (const std::uint64_t end = i + count; i < end; ++i) {
        const std::string member = KeyOf(order.Next()) + value_;
        std::fprintf(pipe, "$1\r\n0\r\n$%zu\r\n%s\r\n", member.size(), member.c_str());
      }
    }
    if (pclose(pipe) != 0) Fail("redis-cli", Status(StatusCode::kInternal, "it failed"));
  }

  double Ours() {
    const std::uint64_t cpu_ns = daemon_.CpuNs();
    std::deque<Future<ScanPage>> flying;
    std::uint64_t found = 0;
    const auto finish_one = [&] {
      found += Require(flying.front().Wait(), "scan").records().size();
      flying.pop_front();
    };
    for (std::uint64_t i = 0; i < scans_; ++i) {
      if (flying.size() == kInFlight) finish_one();
      state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
      // Not so near to the end that there are fewer.
      const std::uint64_t from = (state_ >> 33) % (records_ - kPerScan);
      flying.push_back(map_.ScanAsync({.begin = KeyOf(from)}, {.limit = kPerScan}));
    }
    while (!flying.empty()) finish_one();
    if (found != scans_ * kPerScan) {
      Fail("scan", Status(StatusCode::kInternal, "pages with fewer records"));
    }
    return static_cast<double>(daemon_.CpuNs() - cpu_ns) / static_cast<double>(scans_);
  }

  double Redis() const {
    const std::uint64_t cpu_ns = redis_.process().CpuNs();
    (void)redis_.Benchmark({"-P", "16", "-c", "1", "-n", std::to_string(scans_), "-r",
                            std::to_string(records_ - kPerScan), "ZRANGE", "z", "[key:__rand_int__",
                            "+", "BYLEX", "LIMIT", "0", std::to_string(kPerScan)});
    return static_cast<double>(redis_.process().CpuNs() - cpu_ns) / static_cast<double>(scans_);
  }

  const BenchOptions options_;
  const std::uint64_t records_;
  const std::uint64_t scans_;
  const std::string value_ = std::string(64, 'v');
  BenchProcess daemon_;
  const std::string file_;
  Client client_;
  BytesOrderedMap map_;
  RedisServer redis_;
  std::uint64_t state_ = 1;
};

}  // namespace
}  // namespace tidepool::bench

int main(int argc, char** argv) {
  using namespace tidepool::bench;
  const BenchOptions options = ParseOptions(argc, argv, "Ordered namespaces over the data path");
  const BenchFolder folder;
  Bench(options, folder.path()).Run();
  return 0;
}
