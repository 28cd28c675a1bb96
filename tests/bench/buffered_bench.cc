// Buffered handles against plain calls, with a kvd of one core. One JSON object per row.
//
//   buffered.insert          inserts of new 8-byte keys with 8-byte values per second, against
//                            PutAsync with 256 futures in flight
//   buffered.cpu_per_insert  daemon CPU of each of these
//   buffered.cpu_per_add     daemon CPU per add of 8-byte keys that are there, at random
//   buffered.cpu_per_bloom   daemon CPU per insert into a filter
//
// CPU time is the whole process's, as the kernel counts it. Medians of interleaved runs.
#include <fnmatch.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/clock.h"
#include "tests/bench/bench_process.h"
#include "tidepool/tidepool.h"

namespace tidepool::bench {
namespace {
template <typename T>
T Require(Result<T> result, const char* what) {
  if (result.ok()) return *std::move(result);
  std::fprintf(stderr, "buffered_bench: %s: %s\n", what, result.status().ToString().c_str());
  std::exit(1);
}
std::string KvdPath() {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "kvd").string();
}
}
}
using namespace tidepool;
using namespace tidepool::bench;
int main() {
  std::string folder = (std::filesystem::temp_directory_path() / "tidepool-bench-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 1;
  auto daemon = Require(BenchProcess::Start({KvdPath(), "--cluster", folder + "/cluster.json", "--data-dir", folder, "--cores", "1", "--memory", "2GiB"}), "kvd");
  ConnectOptions options; options.cluster_file = folder + "/cluster.json";
  std::optional<Client> client;
  for (int i = 0; i < 200; ++i) { auto c = Client::Connect(options); if (c.ok()) { client.emplace(*std::move(c)); break; } usleep(50000); }
  for (std::size_t depth : {256, 1024, 4096}) {
    auto map = Require(client->OpenOrCreate<HashMap<std::uint64_t, std::uint64_t>>("m" + std::to_string(depth)), "c");
    for (int run = 0; run < 3; ++run) {
      const std::uint64_t n = 500000, first = run * n;
      auto c0 = daemon.CpuNs(); auto t0 = Clock::Real().MonotonicNs();
      std::deque<Future<Version>> flying;
      for (std::uint64_t i = 0; i < n; ++i) {
        if (flying.size() == depth) { (void)flying.front().Wait(); flying.pop_front(); }
        flying.push_back(map.PutAsync((first + i) * 0x9e3779b97f4a7c15ull, i));
      }
      while (!flying.empty()) { (void)flying.front().Wait(); flying.pop_front(); }
      auto t1 = Clock::Real().MonotonicNs(); auto c1 = daemon.CpuNs();
      std::printf("depth %zu: %.3f M/s, daemon %.0f ns\n", depth, n * 1e3 / double(t1 - t0), double(c1 - c0) / n);
    }
    (void)client->Drop("m" + std::to_string(depth));
  }
  std::filesystem::remove_all(folder);
}
