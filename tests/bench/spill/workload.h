// Keys, values and their popularity, alike for all contenders of the spill bench.
#pragma once

#include <sys/resource.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "proto/base/bytes.h"
#include "proto/base/clock.h"
#include "tests/bench/spill/contender.h"

namespace tidepool::bench {

inline constexpr std::size_t kSpillKeyBytes = 16;
inline constexpr std::size_t kSpillValueBytes = 1000;
inline constexpr std::size_t kSpillUserBytes = kSpillKeyBytes + kSpillValueBytes;

inline std::uint64_t Scatter(std::uint64_t z) {
  z += 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

struct SpillKey {
  SpillKey() = default;
  explicit SpillKey(std::uint64_t id) : words{Scatter(id), Scatter(id ^ 0xabcdef)} {}
  Bytes view() const { return std::as_bytes(std::span(words)); }
  const char* text() const { return reinterpret_cast<const char*>(words.data()); }
  std::array<std::uint64_t, 2> words{};
};

// Which record, which version of it; the rest is not looked at.
class SpillValue {
 public:
  SpillValue() { bytes_.fill(std::byte{'x'}); }
  Bytes Of(std::uint64_t id, std::uint64_t version) {
    std::memcpy(bytes_.data(), &id, sizeof id);
    std::memcpy(bytes_.data() + sizeof id, &version, sizeof version);
    return bytes_;
  }
  // Copies what was read, as a caller would want it, and says whether it is the record's.
  bool Take(const void* value, std::size_t bytes, std::uint64_t id) {
    if (bytes != bytes_.size()) return false;
    std::memcpy(bytes_.data(), value, bytes);
    return std::memcmp(bytes_.data(), &id, sizeof id) == 0;
  }

 private:
  std::array<std::byte, kSpillValueBytes> bytes_;
};

// Ids of records. Zipf as YCSB makes it, ranks scattered over the ids.
class SpillIds {
 public:
  SpillIds(std::uint64_t records, bool zipf, std::uint64_t seed) : records_(records), zipf_(zipf) {
    state_ = Scatter(seed);
    if (!zipf) return;
    static const double zeta = Zeta(records);  // One count of records per process.
    zeta_ = zeta;
    const auto n = static_cast<double>(records);
    eta_ = (1 - std::pow(2 / n, 1 - kTheta)) / (1 - (1 + std::pow(0.5, kTheta)) / zeta_);
  }
  std::uint64_t Below(std::uint64_t bound) {
    state_ += 0x632be59bd9b4e019ull;
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(Scatter(state_)) * bound >>
                                      64);
  }
  std::uint64_t Next() {
    if (!zipf_) return Below(records_);
    const double u = static_cast<double>(Below(1ull << 53)) * 0x1p-53;
    const double uz = u * zeta_;
    std::uint64_t rank = 0;
    if (uz >= 1) {
      rank = uz < 1 + std::pow(0.5, kTheta)
                 ? 1
                 : static_cast<std::uint64_t>(static_cast<double>(records_) *
                                              std::pow(eta_ * u - eta_ + 1, 1 / (1 - kTheta)));
    }
    return Scatter(rank) % records_;
  }

 private:
  static constexpr double kTheta = 0.99;
  static double Zeta(std::uint64_t records) {
    double sum = 0;
    for (std::uint64_t i = 1; i <= records; ++i)
      sum += std::pow(1 / static_cast<double>(i), kTheta);
    return sum;
  }

  const std::uint64_t records_;
  const bool zipf_;
  std::uint64_t state_;
  double zeta_ = 0;
  double eta_ = 0;
};

// Of all threads of this process, those that the library or the kernel's rings have made included.
inline double ProcessCpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

// Anonymous and shared memory of this process now: what it has beside files of the page cache.
inline double OwnMemoryBytes() {
  std::ifstream status("/proc/self/status");
  double bytes = 0;
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:") || line.starts_with("RssShmem:")) {
      bytes += std::stod(line.substr(line.find(':') + 1)) * 1024;
    }
  }
  return bytes;
}

inline double NowSeconds() { return static_cast<double>(Clock::Real().MonotonicNs()) * 1e-9; }

// What one task takes: begins with the object.
class SpillMeter {
 public:
  void End(double operations, SpillResult* result) const {
    result->operations = operations;
    result->seconds = NowSeconds() - seconds_;
    result->cpu_seconds = ProcessCpuSeconds() - cpu_seconds_;
  }

 private:
  const double seconds_ = NowSeconds();
  const double cpu_seconds_ = ProcessCpuSeconds();
};

// `work(thread, end_seconds, result)` adds its operations and wrong answers to its own `result`.
template <typename Work>
SpillResult RunThreads(const SpillOrder& order, Work&& work) {
  std::vector<SpillResult> results(order.clients);
  std::vector<std::thread> threads;
  const SpillMeter meter;
  const double end = NowSeconds() + order.seconds;
  for (std::uint32_t i = 0; i < order.clients; ++i) {
    threads.emplace_back([&, i] { work(i, end, results[i]); });
  }
  for (std::thread& thread : threads) thread.join();
  SpillResult all;
  double operations = 0;
  for (const SpillResult& each : results) {
    operations += each.operations;
    all.wrong += each.wrong;
  }
  meter.End(operations, &all);
  return all;
}

}  // namespace tidepool::bench
