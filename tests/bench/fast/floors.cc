#include "tests/bench/fast/floors.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <thread>

#include "proto/base/clock.h"
#include "tests/bench/bench_process.h"
#include "tests/bench/bench_service.h"

namespace tidepool::bench {
namespace {

constexpr std::size_t kLineBytes = 64;
constexpr std::size_t kCopyPoolBytes = 128 << 20;

// One direction: a payload and the word that publishes it.
struct Mailbox {
  alignas(kLineBytes) std::atomic<std::uint64_t> number{0};
  std::byte payload[1024 - sizeof(std::uint64_t)];
};

void Relax() { __builtin_ia32_pause(); }

// Huge pages where the kernel gives them, as our daemon's memory.
std::byte* Memory(std::size_t bytes) {
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) Fail("memory", Status(StatusCode::kResourceExhausted, "none left"));
  (void)madvise(memory, bytes, MADV_HUGEPAGE);
  std::memset(memory, 1, bytes);
  return static_cast<std::byte*>(memory);
}

}  // namespace

Sample RingFloor(double seconds, std::size_t payload_bytes) {
  Mailbox there;
  Mailbox back;
  std::atomic<bool> over{false};
  std::byte local[sizeof there.payload] = {};
  std::thread echo([&] {
    std::byte copy[sizeof there.payload];
    for (std::uint64_t next = 1; !over; ++next) {
      while (there.number.load(std::memory_order_acquire) != next) {
        if (over) return;
        Relax();
      }
      std::memcpy(copy, there.payload, payload_bytes);
      std::memcpy(back.payload, copy, payload_bytes);
      back.number.store(next, std::memory_order_release);
    }
  });
  std::uint64_t number = 0;
  RoundOptions options;
  options.seconds = seconds;
  const Sample sample = RunRound(options, [&] {
    ++number;
    std::memcpy(there.payload, local, payload_bytes);
    there.number.store(number, std::memory_order_release);
    while (back.number.load(std::memory_order_acquire) != number) Relax();
    std::memcpy(local, back.payload, payload_bytes);
  });
  over = true;
  echo.join();
  return sample;
}

Sample CopyFloor(double seconds, std::size_t bytes, std::size_t pool_bytes) {
  static std::byte* const from = Memory(kCopyPoolBytes);
  static std::byte* const to = Memory(kCopyPoolBytes);
  const std::size_t places = std::min(pool_bytes, kCopyPoolBytes) / bytes;
  std::size_t next = 0;
  RoundOptions options;
  options.seconds = seconds;
  options.bytes_per_operation = bytes;
  return RunRound(options, [&] {
    // Neither side in order: a stream of them would be prefetched.
    next = (next + 7) % places;
    std::memcpy(to + next * bytes, from + (places - 1 - next) * bytes, bytes);
    asm volatile("" : : "r"(to) : "memory");
  });
}

Sample UcxBulkFloor(std::size_t bytes) {
  const std::string port = std::to_string(FreePort());
  const std::vector<std::string> command{"env",
                                         "UCX_TLS=tcp,self",
                                         "UCX_NET_DEVICES=lo",
                                         "ucx_perftest",
                                         "-t",
                                         "ucp_am_bw",
                                         "-s",
                                         std::to_string(bytes),
                                         "-n",
                                         "400",
                                         "-w",
                                         "40",
                                         "-p",
                                         port,
                                         "-f"};
  BenchProcess server = Require(BenchProcess::Start(command), "ucx_perftest");
  std::vector<std::string> client = command;
  client.push_back("127.0.0.1");
  const Deadline deadline = Deadline::AfterMs(10'000);
  Result<std::string> text = RunAndRead(client);
  while (!text.ok() && !deadline.Passed()) {
    usleep(50'000);  // It listens some time after it has started.
    text = RunAndRead(client);
  }
  // The last line: iterations, then percentile, average, overall latency in us, two bandwidths in
  // MB/s, of which the second one is the overall.
  std::istringstream lines(Require(std::move(text), "ucx_perftest"));
  std::string line;
  std::string last;
  while (std::getline(lines, line)) {
    if (!line.empty() && line.find_first_not_of(" 0123456789.") == std::string::npos) last = line;
  }
  std::istringstream fields(last);
  double skipped = 0;
  double mib_per_s = 0;
  for (int i = 0; i < 5; ++i) fields >> skipped;
  fields >> mib_per_s;
  Sample sample;
  sample.bytes_per_s = mib_per_s * (1 << 20);
  return sample;
}

}  // namespace tidepool::bench
