// How fast the network can be at all, and what our transport adds to it.
//
//   transport.floor_64b     one way of bare UCX, against ucx_perftest: is our floor an honest one?
//   transport.pingpong_64b  one way through transport::Worker, against bare UCX: the wrapper's cost
//
// Medians of interleaved runs, so that other load on the machine meets all alike. One JSON object
// per row on stdout, the single runs on stderr.
#include <fnmatch.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "proto/transport/settings.h"
#include "tests/bench/ucx_floor.h"
#include "tests/proto/transport/harness.h"

namespace tidepool::bench {
namespace {

constexpr int kRunsDefault = 7;

int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  bind(fd, reinterpret_cast<sockaddr*>(&address), bytes);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &bytes);
  close(fd);
  return ntohs(address.sin_port);
}

// The settings of our transport as the variables that ucx_perftest reads.
std::map<std::string, std::string> SettingsAsEnvironment() {
  std::map<std::string, std::string> variables;
  for (const auto& row : transport::UcxSettingsTable({})) {
    variables[(row.of_tcp ? "UCX_TCP_" : "UCX_") + row.name] = row.value;
  }
  return variables;
}

// The median one-way latency that ucx_perftest reports, in us. Errors: kUnavailable.
Result<double> MeasurePerftest(const PingPongOptions& options) {
  const auto cpus = TwoCpus();
  if (!cpus.ok()) return cpus.status();
  const auto environment = SettingsAsEnvironment();
  const std::string port = std::to_string(FreePort());
  transport::Child server({"ucx_perftest", "-p", port, "-c", std::to_string(cpus->server)},
                          environment);
  // -e and -I: peer-error endpoints and the wake-up feature, as ours.
  const std::vector<std::string> command = {
      "sh", "-c",
      "exec ucx_perftest 127.0.0.1 -p " + port + " -t ucp_am_lat -e -I -f -s " +
          std::to_string(options.payload_bytes) + " -n " + std::to_string(options.rounds) + " -w " +
          std::to_string(options.rounds / 10) + " -c " + std::to_string(cpus->client) +
          " 2>/dev/null"};
  for (int attempt = 0; attempt < 100; ++attempt) {  // Until the server listens.
    transport::Child client(command, environment);
    double latency_us = 0;
    while (auto line = client.ReadLine()) {
      unsigned long iterations = 0;
      double median_us = 0;
      if (std::sscanf(line->c_str(), "%lu %lf", &iterations, &median_us) == 2) {
        latency_us = median_us;
      }
    }
    const auto status = client.Wait();
    if (status == 0 && latency_us > 0) return latency_us;
    poll(nullptr, 0, 20);
  }
  return Status(StatusCode::kUnavailable, "ucx_perftest does not run",
                "install the package ucx-utils");
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Goal {
  double least;
  double most;
};

void PrintRow(const char* row, double value, const char* peer, double peer_value, Goal goal) {
  const double ratio = value / peer_value;
  std::printf(
      "{\"row\": \"%s\", \"value\": %.3f, \"unit\": \"us\", \"peer\": \"%s\", "
      "\"peer_value\": %.3f, \"ratio\": %.3f, \"goal\": \"%.2f..%.2f\", \"met\": %s}\n",
      row, value, peer, peer_value, ratio, goal.least, goal.most,
      ratio >= goal.least && ratio <= goal.most ? "true" : "false");
  std::fflush(stdout);
}

int Run(const std::string& pattern, int runs) {
  const auto is_wanted = [&](const char* row) { return fnmatch(pattern.c_str(), row, 0) == 0; };
  const char* kFloor = "transport.floor_64b";
  const char* kPingPong = "transport.pingpong_64b";
  if (!is_wanted(kFloor) && !is_wanted(kPingPong)) return 0;
  const PingPongOptions options;
  std::vector<double> bare;
  std::vector<double> ours;
  std::vector<double> perftest;
  for (int i = 0; i < runs; ++i) {
    const auto floor = MeasurePingPong(PingPongKind::kBareUcx, options);
    const auto wrapped = is_wanted(kPingPong) ? MeasurePingPong(PingPongKind::kTransport, options)
                                              : Result<PingPong>(PingPong{});
    const auto peer = is_wanted(kFloor) ? MeasurePerftest(options) : Result<double>(0.0);
    for (const Status& status : {floor.status(), wrapped.status(), peer.status()}) {
      if (status.ok()) continue;
      std::fprintf(stderr, "floor_bench: %s\n", status.ToString().c_str());
      return 1;
    }
    // One way, as ucx_perftest counts.
    bare.push_back(floor->median_us / 2);
    ours.push_back(wrapped->median_us / 2);
    perftest.push_back(*peer);
    std::fprintf(stderr, "run %d: bare %.3f us, transport %.3f us, ucx_perftest %.3f us\n", i + 1,
                 bare.back(), ours.back(), perftest.back());
  }
  if (is_wanted(kFloor)) {
    PrintRow(kFloor, Median(bare), "ucx_perftest -t ucp_am_lat", Median(perftest), {0.9, 1.1});
  }
  if (is_wanted(kPingPong)) {
    PrintRow(kPingPong, Median(ours), "bare UCX ping-pong", Median(bare), {0.0, 1.1});
  }
  return 0;
}

}  // namespace
}  // namespace tidepool::bench

int main(int argc, char** argv) {
  using namespace tidepool::bench;
  if (const auto ended = RunPingPongRole(argc, argv)) return *ended;
  std::string pattern = "*";
  int runs = kRunsDefault;
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 < argc && std::strcmp(argv[i], "--rows") == 0) {
      pattern = argv[i + 1];
    } else if (i + 1 < argc && std::strcmp(argv[i], "--runs") == 0 && std::atoi(argv[i + 1]) > 0) {
      runs = std::atoi(argv[i + 1]);
    } else {
      std::fprintf(stderr, "usage: floor_bench [--rows PATTERN] [--runs N]\n");
      return 64;
    }
  }
  return Run(pattern, runs);
}
