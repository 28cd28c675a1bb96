// What benches with real servers share: where the build's programs are, a client when the daemon is
// ready, Redis beside it, and one way to fail.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/base/result.h"
#include "tests/bench/bench_process.h"
#include "tidepool/tidepool.h"

namespace tidepool::bench {

// Ends the bench: there is nothing sensible to go on with.
[[noreturn]] void Fail(const char* what, const Status& status);

inline void RequireOk(const Status& status, const char* what) {
  if (!status.ok()) Fail(what, status);
}

template <typename T>
T Require(Result<T> result, const char* what) {
  if (!result.ok()) Fail(what, result.status());
  return *std::move(result);
}

// A program of this build.
std::string Beside(const char* program);

// A client of the cluster with this connection file, once it can be reached. With kUcx it is as one
// of another node: it reads nothing by itself.
Client ConnectWhenReady(const std::string& file, Transport transport = Transport::kAuto);

// One kvd of one core in `folder`.
BenchProcess StartKvd(const std::string& folder, const std::string& memory);

// redis-server on a free port; by default without persistence.
class RedisServer {
 public:
  explicit RedisServer(const std::vector<std::string>& options = {"--appendonly", "no"});
  const std::string& port() const { return port_; }
  const BenchProcess& process() const { return server_; }
  // Runs redis-benchmark against it, with its output as CSV.
  std::string Benchmark(const std::vector<std::string>& arguments) const;

 private:
  const std::string port_;
  BenchProcess server_;
};

// CPU time of this process.
std::uint64_t OwnCpuNs();

}  // namespace tidepool::bench
