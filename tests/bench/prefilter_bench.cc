// Prefilters beside a partition's records: 5 M records of 16 / 64 bytes, one thread, no network.
// One JSON object per row on stdout.
//
//   prefilter.miss            a look-up of a key that is not there in a partition with an absent
//                             filter, which is asked first, against one without
//   prefilter.hit             of one that is there: what being asked first costs
//   prefilter.*.batch16       the same in stages of 16, as the daemon works
//   prefilter.insert          a put of a new key
//   prefilter.slow_slices     background slices of 20 us that took over 200, per million
//   prefilter.bytes           of the filter, per record
//   prefilter.ordered.*       the same on an ordered partition
//
// ns of the thread's CPU time; medians of the rounds.
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
#include "storage/core_store.h"
#include "tests/bench/bench_options.h"
#include "tests/bench/bench_process.h"

namespace tidepool::bench {
namespace {

using storage::PrefilterKind;

constexpr std::size_t kStage = 16;
constexpr std::uint64_t kSliceNs = 20'000;

double CpuNs() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

std::uint64_t Mix(std::uint64_t z) {
  z += 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

struct Key {
  Key() = default;
  explicit Key(std::uint64_t i) : words{Mix(i), Mix(i ^ 0xabcdef)} {}
  Bytes view() const { return std::as_bytes(std::span(words)); }
  std::array<std::uint64_t, 2> words{};
};

struct Store {
  Store(std::uint64_t records, Kind kind, PrefilterKind prefilter) {
    storage::ArenaPoolOptions pool_options;
    pool_options.memory_bytes = records * 230 + (128ull << 20);
    pool_options.prepare_in_background = true;  // As the daemon does.
    pool = storage::ArenaPool::Create(pool_options).value();
    core = storage::CoreStore::Create({}, pool.get(), &Clock::Real()).value();
    storage::PartitionOptions options;
    options.kind = kind;
    options.prefilter.kind = prefilter;
    auto* partition = core->AddPartition(PartitionId(NamespaceId(1), 0), Term(1), options).value();
    hash = &partition->hash();
  }
  // Returns ns per put, without the background slices between them.
  double Fill(std::uint64_t records) {
    std::array<std::byte, 64> value{};
    double ns = 0;
    double slices = 0;
    for (std::uint64_t i = 0; i < records;) {
      const double begin = CpuNs();
      const std::uint64_t end = std::min(i + 64, records);
      for (; i < end; ++i) {
        const Key key(i);
        const auto put = hash->Put(key.view(), KeyHash(key.view()), value, {}, 1);
        TP_CHECK(put.code == StatusCode::kOk);
      }
      const double middle = CpuNs();
      ns += middle - begin;
      core->BackgroundSlice(kSliceNs);
      ++slices;
      if (CpuNs() - middle > 10 * kSliceNs) ++slow_slices;
    }
    while (core->BackgroundSlice(kSliceNs)) {
    }
    slow_slices *= 1e6 / slices;
    return ns / static_cast<double>(records);
  }
  std::unique_ptr<storage::ArenaPool> pool;
  std::unique_ptr<storage::CoreStore> core;
  storage::HashStore* hash = nullptr;
  double slow_slices = 0;  // Per million: background slices of 20 us that took over 200.
};

class Bench {
 public:
  Bench(std::string pattern, double scale, int rounds)
      : pattern_(std::move(pattern)),
        records_(static_cast<std::uint64_t>(5e6 * scale)),
        rounds_(rounds) {}

  void Run() {
    for (const Kind kind : {Kind::kHash, Kind::kOrdered}) {
      const std::string stem = kind == Kind::kHash ? "prefilter." : "prefilter.ordered.";
      const auto wanted = [&](const char* row) { return Wanted(stem + row); };
      const std::array rows = {"miss",   "miss.batch16", "hit",  "hit.batch16",
                               "insert", "slow_slices",  "bytes"};
      if (std::any_of(rows.begin(), rows.end(), wanted)) Measure(kind, stem);
    }
  }

 private:
  bool Wanted(const std::string& row) const {
    return fnmatch(pattern_.c_str(), row.c_str(), 0) == 0;
  }
  void PrintWanted(const Row& row) const {
    if (Wanted(row.row)) Print(row);
  }
  // ns per look-up of keys that are there or, from `first` = records_ on, are not.
  double Look(Store& store, std::uint64_t first) const {
    constexpr std::uint64_t kCount = 1'000'000;
    const double begin = CpuNs();
    std::uint64_t found = 0;
    for (std::uint64_t i = 0; i < kCount; ++i) {
      const Key key(first + Mix(i) % records_);
      found += store.hash->Contains(key.view(), KeyHash(key.view()), 1).code == StatusCode::kOk;
    }
    TP_CHECK(found == (first == 0 ? kCount : 0));
    return (CpuNs() - begin) / kCount;
  }

  // The same in the stages of the daemon.
  double LookInStages(Store& store, std::uint64_t first) const {
    constexpr std::uint64_t kCount = 1'000'000 / kStage * kStage;
    const double begin = CpuNs();
    std::array<Key, kStage> keys;
    std::array<std::uint64_t, kStage> hashes;
    std::uint64_t found = 0;
    for (std::uint64_t i = 0; i < kCount; i += kStage) {
      for (std::size_t k = 0; k < kStage; ++k) {
        keys[k] = Key(first + Mix(i + k) % records_);
        hashes[k] = KeyHash(keys[k].view());
        store.hash->PrefetchBucket(hashes[k]);
      }
      for (const std::uint64_t hash : hashes) store.hash->PrefetchRecord(hash);
      for (std::size_t k = 0; k < kStage; ++k) {
        found += store.hash->Contains(keys[k].view(), hashes[k], 1).code == StatusCode::kOk;
      }
    }
    TP_CHECK(found == (first == 0 ? kCount : 0));
    return (CpuNs() - begin) / kCount;
  }

  void Measure(Kind kind, const std::string& stem) {
    Store with(records_, kind, PrefilterKind::kAbsent);
    const double insert = with.Fill(records_);
    Store without(records_, kind, PrefilterKind::kNone);
    const double plain = without.Fill(records_);
    PrintWanted({stem + "insert", insert, "ns", "without", plain, insert / plain, "", true});
    PrintWanted({stem + "slow_slices", with.slow_slices, "per million", "without",
                 without.slow_slices, with.slow_slices / std::max(without.slow_slices, 1.0), "",
                 true});
    PrintWanted({stem + "bytes",
                 static_cast<double>(with.hash->absent_filter()->allocated_bytes()) /
                     static_cast<double>(records_),
                 "B", "", 0, 0, "", true});
    struct Pair {
      const char* row;
      std::vector<double> with;
      std::vector<double> without;
    };
    std::array<Pair, 4> pairs = {
        {{"miss", {}, {}}, {"hit", {}, {}}, {"miss.batch16", {}, {}}, {"hit.batch16", {}, {}}}};
    for (int round = 0; round < rounds_; ++round) {
      for (std::size_t i = 0; i < pairs.size(); ++i) {
        const std::uint64_t first = i % 2 == 0 ? records_ : 0;
        const auto look = [&](Store& store) {
          return i < 2 ? Look(store, first) : LookInStages(store, first);
        };
        pairs[i].with.push_back(look(with));
        pairs[i].without.push_back(look(without));
      }
    }
    for (const Pair& pair : pairs) {
      const double a = MedianOf(pair.with);
      const double b = MedianOf(pair.without);
      PrintWanted({stem + pair.row, a, "ns", "without", b, a / b, "", true});
    }
  }

  const std::string pattern_;
  const std::uint64_t records_;
  const int rounds_;
};

}  // namespace
}  // namespace tidepool::bench

int main(int argc, char** argv) {
  using namespace tidepool::bench;
  const BenchOptions options = ParseOptions(argc, argv, "Prefilters beside a partition's records");
  Bench(options.rows, options.scale, options.runs).Run();
  return 0;
}
