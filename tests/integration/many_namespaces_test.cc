// A thousand namespaces: the last costs no more than the first.
#include <sys/types.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

#include "proto/base/clock.h"
#include "tests/integration/harness.h"

namespace tidepool::testing {
namespace {

constexpr int kHalf = 500;

struct Taken {
  double cpu_s = 0;
  std::uint64_t written_bytes = 0;  // To files, by write and its kin.
  std::uint64_t heap_bytes = 0;     // Resident beside the arenas and the program's files.
};

Taken TakenBy(pid_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid);
  Taken taken;
  std::ifstream stat(folder + "/stat");
  std::string line;
  std::getline(stat, line);
  std::istringstream fields(line.substr(line.rfind(')') + 2));
  std::string field;
  for (int i = 3; i <= 15 && fields >> field; ++i) {
    if (i >= 14) taken.cpu_s += std::stod(field) / static_cast<double>(sysconf(_SC_CLK_TCK));
  }
  std::ifstream io(folder + "/io");
  for (std::string name; io >> name >> field;) {
    if (name == "wchar:") taken.written_bytes = std::stoull(field);
  }
  std::ifstream status(folder + "/status");
  for (std::string text; std::getline(status, text);) {
    std::istringstream words(text);
    if (words >> field && field == "RssAnon:" && words >> taken.heap_bytes) break;
  }
  taken.heap_bytes *= 1024;
  return taken;
}

// By CPU time, since other processes of the machine take from the time of the clock. A creation
// waits for nothing but the disk: on an idle machine a thousand take 5 s.
TEST_CASE("AThousandNamespacesAreMadeWithoutDelay") {
  TestCluster cluster({.nodes = 1, .cores = 2, .memory = "256MiB"});
  const pid_t pid = cluster.process(0).pid();
  const std::uint64_t start_ns = Clock::Real().MonotonicNs();
  Taken at[3] = {TakenBy(pid), {}, {}};
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < kHalf; ++i) {
      const std::string name = "space" + std::to_string(half * kHalf + i);
      const Status made = cluster.CreateHash(0, name, kPatienceMs);
      INFO(made.ToString());
      REQUIRE(made.ok());
    }
    at[half + 1] = TakenBy(pid);
  }
  const double first_s = at[1].cpu_s - at[0].cpu_s;
  const double second_s = at[2].cpu_s - at[1].cpu_s;
  const std::uint64_t written = at[2].written_bytes - at[0].written_bytes;
  const std::uint64_t heap = at[2].heap_bytes - at[0].heap_bytes;
  INFO((Clock::Real().MonotonicNs() - start_ns) / 1'000'000 << " ms; CPU " << first_s << " s and "
                                                            << second_s << " s; written " << written
                                                            << " bytes; heap " << heap << " bytes");
  CHECK(first_s + second_s < 20);
  // Five to 37 ms each was seen once.
  CHECK(second_s < 2 * first_s + 1);
  // The state is appended to: written whole each time, it would be some 200 MB.
  CHECK(written < (std::uint64_t{32} << 20));
  CHECK(heap < 2 * kHalf * std::uint64_t{64 << 10});
}

}  // namespace
}  // namespace tidepool::testing
