// Daemons of this build and clients of theirs, for the rows of fast_bench.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/bench/bench_process.h"
#include "tests/bench/bench_service.h"
#include "tidepool/tidepool.h"

namespace tidepool::bench {

// How a client reaches its daemon.
enum class Way { kDirect, kRing, kTcp };
const char* NameOf(Way way);

// kvds of one core each on this machine.
class BenchCluster {
 public:
  BenchCluster(const std::string& folder, int daemons, const std::string& memory);
  const std::vector<BenchProcess>& processes() const { return processes_; }
  Client Connect(Way way) const;

 private:
  std::string file_;
  std::vector<BenchProcess> processes_;
};

// Keys of 16 bytes, made ahead: making them is not what is measured.
class Keys {
 public:
  // `chosen` random ones of `count`, from `first` on.
  Keys(std::uint64_t count, std::size_t chosen, std::uint64_t seed, std::uint64_t first = 0);
  static std::string Of(std::uint64_t id);

  std::string_view Next() { return Step(1)[0]; }
  // The next `count` in a row.
  const std::string_view* Step(std::size_t count);
  std::size_t size() const { return views_.size(); }
  const std::vector<std::string_view>& views() const { return views_; }

 private:
  std::vector<std::string> texts_;
  std::vector<std::string_view> views_;
  std::size_t next_ = 0;
};

// Puts keys 0 to `count`.
void LoadKeys(const BytesMap& map, std::uint64_t count, std::size_t value_bytes);

}  // namespace tidepool::bench
