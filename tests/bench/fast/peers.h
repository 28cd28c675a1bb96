// Redis and memcached as a program on their machine would use them: requests in a pipeline over one
// connection each, by a client that does nothing else.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tests/bench/bench_process.h"

namespace tidepool::bench {

enum class PeerKind { kRedis, kMemcached };
const char* NameOf(PeerKind kind);

// A server on a socket of this machine: `by_tcp` on loopback, else in the file system, which is
// what such programs take if speed matters.
class PeerServer {
 public:
  PeerServer(PeerKind kind, bool by_tcp, const std::string& folder);
  PeerKind kind() const { return kind_; }
  const std::string& address() const { return address_; }  // A port, or a path.
  bool by_tcp() const { return by_tcp_; }
  const std::vector<BenchProcess>& processes() const { return processes_; }

 private:
  const PeerKind kind_;
  const bool by_tcp_;
  std::string address_;
  std::vector<BenchProcess> processes_;
};

// One connection. Not thread-safe. Whatever goes wrong ends the bench.
class PeerClient {
 public:
  explicit PeerClient(const PeerServer& server);
  ~PeerClient();
  PeerClient(const PeerClient&) = delete;
  PeerClient& operator=(const PeerClient&) = delete;

  // As many operations in a row, then as many answers.
  void Get(const std::vector<std::string_view>& keys);
  void Put(const std::vector<std::string_view>& keys, std::string_view value);
  // Redis only: commands of these words, answered by one reply each.
  void Commands(const std::vector<std::vector<std::string_view>>& commands);

 private:
  void Exchange(std::size_t answers);
  std::size_t TakeAnswer(std::string_view text) const;

  const PeerKind kind_;
  int socket_ = -1;
  std::string request_;
  std::string answer_;
};

}  // namespace tidepool::bench
