// An ordered partition alone, beside a hash partition of the same records in the same run: 5 M
// records of 16 / 64 bytes inserted in random order, one thread, no network. One JSON object per
// row on stdout.
//
//   ordered.insert            with both indexes; against the hash store's insert
//   ordered.get               one key at a time, value copied; against the hash store's
//   ordered.scan100           100 keys and values from a random key on, copied out; against copying
//                             them from a list of addresses
//   ordered.scan100.reverse   the same downwards
//   ordered.scan100.keys      keys only
//   ordered.index_bytes       of both indexes, per record
//   ordered.text.*            the same with keys user000000000042 instead of 16 random bytes
//
// us of the thread's CPU time, which a busy neighbour disturbs less than wall time; medians of the
// rounds.
#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "proto/base/check.h"
#include "proto/base/clock.h"
#include "proto/base/key_hash.h"
#include "proto/base/short_copy.h"
#include "storage/core_store.h"
#include "tests/bench/bench_options.h"
#include "tests/bench/bench_process.h"

namespace tidepool::bench {
namespace {

using storage::HashOutcome;
using storage::OrderedStore;
using storage::RangeProgress;
using storage::RecordView;

constexpr std::size_t kKeyBytes = 16;
constexpr std::size_t kValueBytes = 64;
constexpr std::uint64_t kScanRecords = 100;

double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

std::uint64_t Mix(std::uint64_t z) {
  z += 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

// The i-th key in the order of insertion.
struct Key {
  Key(std::uint64_t i, std::uint64_t records, bool text) {
    if (text) {
      // An odd factor: each number once, in no order.
      std::uint64_t number = i * 2654435761ull % records;
      std::memcpy(bytes, "user", 4);
      for (std::size_t at = sizeof bytes; at-- > 4; number /= 10) {
        bytes[at] = static_cast<char>('0' + number % 10);
      }
    } else {
      const std::uint64_t words[2] = {Mix(i), Mix(i ^ 0xabcdef)};
      std::memcpy(bytes, words, sizeof bytes);
    }
  }
  Bytes view() const { return std::as_bytes(std::span(bytes)); }
  char bytes[kKeyBytes];
};

// A core with one partition.
struct Store {
  Store(std::uint64_t records, Kind kind) {
    storage::ArenaPoolOptions pool_options;
    pool_options.memory_bytes = records * 220 + (128ull << 20);
    pool_options.prepare_in_background = true;  // As the daemon does.
    pool = storage::ArenaPool::Create(pool_options).value();
    core = storage::CoreStore::Create({}, pool.get(), &Clock::Real()).value();
    storage::PartitionOptions options;
    options.kind = kind;
    partition = core->AddPartition(PartitionId(NamespaceId(1), 0), Term(1), options).value();
  }
  void Insert(const Key& key) {
    std::array<char, kValueBytes> value;
    value.fill(7);
    std::memcpy(value.data(), key.bytes, sizeof key.bytes);
    const HashOutcome outcome = partition->hash().Put(key.view(), KeyHash(key.view()),
                                                      std::as_bytes(std::span(value)), {}, 1);
    TP_CHECK(outcome.code == StatusCode::kOk);
  }
  void Get(const Key& key) {
    const HashOutcome outcome = partition->hash().Get(key.view(), KeyHash(key.view()), 1);
    TP_CHECK(outcome.code == StatusCode::kOk);
    std::array<char, kValueBytes> value;
    std::memcpy(value.data(), outcome.value.data(), value.size());
    asm volatile("" : : "r"(value.data()) : "memory");
  }

  std::unique_ptr<storage::ArenaPool> pool;
  std::unique_ptr<storage::CoreStore> core;
  storage::Partition* partition = nullptr;
};

class Bench {
 public:
  Bench(std::string pattern, double scale, int rounds)
      : pattern_(std::move(pattern)),
        // Odd and no multiple of the factor that makes text keys.
        records_(static_cast<std::uint64_t>(5e6 * scale) | 1),
        rounds_(rounds) {}

  void Run() {
    for (const bool text : {false, true}) {
      const std::string stem = text ? "ordered.text." : "ordered.";
      const auto wanted = [&](const char* row) { return Wanted(stem + row); };
      const std::array rows = {"insert",          "get",          "scan100",
                               "scan100.reverse", "scan100.keys", "index_bytes"};
      if (std::any_of(rows.begin(), rows.end(), wanted)) Measure(stem, text);
    }
  }

 private:
  bool Wanted(const std::string& row) const {
    return fnmatch(pattern_.c_str(), row.c_str(), 0) == 0;
  }
  void PrintWanted(const Row& row) const {
    if (Wanted(row.row)) Print(row);
  }

  // us per call of work(key).
  template <typename Work>
  double Time(std::uint64_t count, std::uint64_t seed, bool text, Work&& work) const {
    const double before = CpuSeconds();
    for (std::uint64_t i = 0; i < count; ++i) {
      work(Key(Mix(seed << 32 | i) % records_, records_, text));
    }
    return (CpuSeconds() - before) / static_cast<double>(count) * 1e6;
  }
  double TimeInserts(Store& store, bool text) const {
    const double before = CpuSeconds();
    for (std::uint64_t i = 0; i < records_; ++i) store.Insert(Key(i, records_, text));
    return (CpuSeconds() - before) / static_cast<double>(records_) * 1e6;
  }

  void ScanFrom(Store& store, const Key& key, bool reverse, bool keys_only) {
    storage::ScanOptions options;
    if (reverse) {
      options.range.end = key.view();
    } else {
      options.range.begin = key.view();
    }
    options.reverse = reverse;
    options.keys_only = keys_only;
    options.records_max = kScanRecords;
    std::byte* to = out_.data();
    const RangeProgress progress =
        store.partition->ordered().Scan(options, 1, [&](const RecordView& view) {
          CopyShort(to, view.key.data(), view.key.size());
          to += view.key.size();
          if (!keys_only) {
            CopyShort(to, view.value.data(), view.value.size());
            to += view.value.size();
          }
          return true;
        });
    seen_ += progress.records;
    asm volatile("" : : "r"(out_.data()) : "memory");
  }

  // What the memory system takes for the records of a scan alone, when somebody else has found
  // them.
  double TimeFloor(Store& store, std::uint64_t scans, std::uint64_t seed) {
    if (records_in_order_.empty()) {
      const storage::TreeIndex& order = store.partition->ordered().order();
      for (auto at = order.First(); at.valid(); at = order.Next(at)) {
        records_in_order_.push_back(store.partition->hash().KeyAt(order.At(at).location).data());
      }
    }
    const double before = CpuSeconds();
    for (std::uint64_t i = 0; i < scans; ++i) {
      const std::byte* const* records =
          &records_in_order_[Mix(seed << 32 | i) % (records_ - kScanRecords)];
      for (std::uint64_t j = 0; j < kScanRecords; ++j) {
        __builtin_prefetch(records[j]);
        __builtin_prefetch(records[j] + 64);
        __builtin_prefetch(records[j] + kKeyBytes + kValueBytes - 1);
      }
      std::byte* to = out_.data();
      for (std::uint64_t j = 0; j < kScanRecords; ++j, to += kKeyBytes + kValueBytes) {
        std::memcpy(to, records[j], kKeyBytes + kValueBytes);
      }
      asm volatile("" : : "r"(out_.data()) : "memory");
    }
    return (CpuSeconds() - before) / static_cast<double>(scans) * 1e6;
  }

  void Measure(const std::string& stem, bool text) {
    Store hash(records_, Kind::kHash);
    Store ordered(records_, Kind::kOrdered);
    const double hash_insert = TimeInserts(hash, text);
    const double insert = TimeInserts(ordered, text);
    const storage::IndexUsage usage = ordered.partition->store().index_usage();
    const double index_bytes =
        static_cast<double>(usage.allocated_bytes) / static_cast<double>(records_);
    std::vector<double> hash_get, get, scan, floor, reverse, keys;
    records_in_order_.clear();
    const std::uint64_t gets = records_ / 5;
    const std::uint64_t scans = records_ / 100;
    std::uint64_t scans_made = 0;
    for (int round = 0; round < rounds_; ++round) {
      const auto seed = static_cast<std::uint64_t>(round) * 10;
      if (Wanted(stem + "get")) {
        hash_get.push_back(Time(gets, seed, text, [&](const Key& key) { hash.Get(key); }));
        get.push_back(Time(gets, seed + 1, text, [&](const Key& key) { ordered.Get(key); }));
      }
      const auto scan_from = [&](std::uint64_t offset, bool down, bool keys_only) {
        scans_made += scans;
        return Time(scans, seed + offset, text,
                    [&](const Key& key) { ScanFrom(ordered, key, down, keys_only); });
      };
      if (Wanted(stem + "scan100")) scan.push_back(scan_from(2, false, false));
      if (Wanted(stem + "scan100")) floor.push_back(TimeFloor(ordered, scans, seed + 5));
      if (Wanted(stem + "scan100.reverse")) reverse.push_back(scan_from(3, true, false));
      if (Wanted(stem + "scan100.keys")) keys.push_back(scan_from(4, false, true));
    }
    // Nearly all of them were whole.
    TP_CHECK(seen_ >= scans_made * kScanRecords * 9 / 10);
    seen_ = 0;
    const char* const peer = "hash partition";
    PrintWanted(
        {stem + "insert", insert, "us", peer, hash_insert, insert / hash_insert, "", false});
    if (!get.empty()) {
      std::vector<double> ratios;
      for (std::size_t i = 0; i < get.size(); ++i) ratios.push_back(get[i] / hash_get[i]);
      const double ratio = MedianOf(ratios);
      Print({stem + "get", MedianOf(get), "us", peer, MedianOf(hash_get), ratio, "ratio <= 1.3",
             ratio <= 1.3});
    }
    if (!scan.empty()) {
      const double us = MedianOf(scan);
      Print({stem + "scan100", us, "us", "the records' lines alone", MedianOf(floor),
             us / MedianOf(floor), "<= 4.5", us <= 4.5});
    }
    const auto print_scan = [&](const char* row, const std::vector<double>& times) {
      if (times.empty()) return;
      Print({stem + row, MedianOf(times), "us", "", 0, 0, "", false});
    };
    print_scan("scan100.reverse", reverse);
    print_scan("scan100.keys", keys);
    PrintWanted({stem + "index_bytes", index_bytes, "bytes", "", 0, 0, "<= 64", index_bytes <= 64});
  }

  const std::string pattern_;
  const std::uint64_t records_;
  const int rounds_;
  std::array<std::byte, kScanRecords*(kKeyBytes + kValueBytes)> out_;
  std::uint64_t seen_ = 0;
  std::vector<const std::byte*> records_in_order_;
};

}  // namespace
}  // namespace tidepool::bench

int main(int argc, char** argv) {
  using namespace tidepool::bench;
  const BenchOptions options =
      ParseOptions(argc, argv, "An ordered partition beside a hash partition");
  Bench(options.rows, options.scale, options.runs).Run();
  return 0;
}
