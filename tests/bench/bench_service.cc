#include "tests/bench/bench_service.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "proto/base/clock.h"

namespace tidepool::bench {

void Fail(const char* what, const Status& status) {
  std::fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what,
               status.ToString().c_str());
  std::exit(1);
}

std::string Beside(const char* program) {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / program).string();
}

Client ConnectWhenReady(const std::string& file, Transport transport) {
  ConnectOptions options;
  options.cluster_file = file;
  options.transport = transport;
  for (int attempt = 0; attempt < 400; ++attempt) {
    auto client = Client::Connect(options);
    if (client.ok()) return *std::move(client);
    usleep(50'000);
  }
  return Require(Client::Connect(options), "connect");
}

BenchProcess StartKvd(const std::string& folder, const std::string& memory) {
  return Require(BenchProcess::Start({Beside("kvd"), "--cluster", folder + "/cluster.json",
                                      "--data-dir", folder, "--cores", "1", "--memory", memory}),
                 "kvd");
}

namespace {

BenchProcess StartRedis(const std::string& port, const std::vector<std::string>& options) {
  std::vector<std::string> command{"redis-server", "--port", port, "--save", ""};
  command.insert(command.end(), options.begin(), options.end());
  return Require(BenchProcess::Start(command), "redis-server");
}

}  // namespace

RedisServer::RedisServer(const std::vector<std::string>& options)
    : port_(std::to_string(FreePort())), server_(StartRedis(port_, options)) {
  const Deadline deadline = Deadline::AfterMs(10'000);
  const std::string ping = "redis-cli -p " + port_ + " ping 2>/dev/null";
  while (!RunAndRead({"sh", "-c", ping}).ok()) {
    if (deadline.Passed()) Fail("redis-server", Status(StatusCode::kUnavailable, "no answer"));
    usleep(20'000);
  }
}

std::string RedisServer::Benchmark(const std::vector<std::string>& arguments) const {
  std::vector<std::string> command{"redis-benchmark", "-p", port_, "--csv"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return Require(RunAndRead(command), "redis-benchmark");
}

std::uint64_t OwnCpuNs() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(time.tv_nsec);
}

}  // namespace tidepool::bench
