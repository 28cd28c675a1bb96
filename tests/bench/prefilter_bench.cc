// Prefilters beside a partition's records: 5 M records of 16 / 64 bytes, one thread, no network.
// One JSON object per row on stdout.
//
//   prefilter.miss            asking the absent filter first, against the tag index alone, for keys
//                             that are not there, one at a time
//   prefilter.miss.batch16    the same in stages of 16
//   prefilter.hit             the same for keys that are there: what asking first costs them
//   prefilter.ordered.*       the same on an ordered partition
//   prefilter.insert          a put of a new key into a partition with the filter, against one
//   without prefilter.rebuild_slice   the longest background slice of 20 us while the filter is
//   made anew prefilter.bytes           of the filter, per record
//
// ns of the thread's CPU time; medians of the rounds.
#include <fnmatch.h>

#include <CLI/CLI.hpp>
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
  // Returns ns per put; background slices between them are not counted, but looked at.
  double Fill(std::uint64_t records, double* slice_ns_max) {
    std::array<std::byte, 64> value{};
    double ns = 0;
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
      if (slice_ns_max != nullptr) *slice_ns_max = std::max(*slice_ns_max, CpuNs() - middle);
    }
    return ns / static_cast<double>(records);
  }
  std::unique_ptr<storage::ArenaPool> pool;
  std::unique_ptr<storage::CoreStore> core;
  storage::HashStore* hash = nullptr;
};

class Bench {
 public:
  Bench(std::string pattern, double scale, int rounds)
      : pattern_(std::move(pattern)),
        records_(static_cast<std::uint64_t>(5e6 * scale)),
        rounds_(rounds) {}

  void Run() {
    if (Wanted("prefilter.insert") || Wanted("prefilter.rebuild_slice") ||
        Wanted("prefilter.bytes") || Wanted("prefilter.miss") || Wanted("prefilter.miss.batch16") ||
        Wanted("prefilter.hit")) {
      Measure(Kind::kHash, "prefilter.");
    }
    if (Wanted("prefilter.ordered.miss") || Wanted("prefilter.ordered.hit")) {
      Measure(Kind::kOrdered, "prefilter.ordered.");
    }
  }

 private:
  bool Wanted(const std::string& row) const {
    return fnmatch(pattern_.c_str(), row.c_str(), 0) == 0;
  }
  void PrintWanted(const Row& row) const {
    if (Wanted(row.row)) Print(row);
  }
  void PrintPair(const std::string& row, const std::vector<double>& with,
                 const std::vector<double>& without, const char* peer) const {
    const double a = MedianOf(with);
    const double b = MedianOf(without);
    PrintWanted({row, a, "ns", peer, b, a / b, "", true});
  }

  // ns per look-up of `count` keys: with the filter asked first, or not.
  double Look(Store& store, std::uint64_t first, std::uint64_t span, bool with_filter) const {
    const storage::AbsentFilter& filter = *store.hash->absent_filter();
    constexpr std::uint64_t kCount = 1'000'000;
    const double begin = CpuNs();
    std::uint64_t found = 0;
    for (std::uint64_t i = 0; i < kCount; ++i) {
      const Key key(first + Mix(i) % span);
      const std::uint64_t hash = KeyHash(key.view());
      if (with_filter && !filter.MayContain(hash)) continue;
      found += store.hash->Contains(key.view(), hash, 1).code == StatusCode::kOk ? 1 : 0;
    }
    TP_CHECK(found == (first == 0 ? kCount : 0));
    return (CpuNs() - begin) / kCount;
  }

  double LookInStages(Store& store, std::uint64_t first, bool with_filter) const {
    const storage::AbsentFilter& filter = *store.hash->absent_filter();
    constexpr std::uint64_t kCount = 1'000'000 / kStage * kStage;
    const double begin = CpuNs();
    std::array<Key, kStage> keys;
    std::array<std::uint64_t, kStage> hashes;
    std::array<bool, kStage> possible;
    for (std::uint64_t i = 0; i < kCount; i += kStage) {
      for (std::size_t k = 0; k < kStage; ++k) {
        keys[k] = Key(first + Mix(i + k) % records_);
        hashes[k] = KeyHash(keys[k].view());
        if (with_filter) {
          filter.Prefetch(hashes[k]);
        } else {
          store.hash->index().PrefetchBucket(hashes[k]);
        }
      }
      for (std::size_t k = 0; k < kStage; ++k) {
        possible[k] = !with_filter || filter.MayContain(hashes[k]);
      }
      for (std::size_t k = 0; k < kStage; ++k) {
        if (!possible[k]) continue;
        TP_CHECK(store.hash->Contains(keys[k].view(), hashes[k], 1).code == StatusCode::kNotFound);
      }
    }
    return (CpuNs() - begin) / kCount;
  }

  void Measure(Kind kind, const std::string& stem) {
    double slice_ns_max = 0;
    Store store(records_, kind, PrefilterKind::kAbsent);
    const double insert = store.Fill(records_, &slice_ns_max);
    for (int i = 0; i < 1'000'000 && store.core->BackgroundSlice(kSliceNs); ++i) {
    }
    if (kind == Kind::kHash) {
      Store plain(records_, kind, PrefilterKind::kNone);
      double plain_slice_ns_max = 0;
      const double without = plain.Fill(records_, &plain_slice_ns_max);
      PrintWanted({stem + "insert", insert, "ns", "without", without, insert / without, "", true});
      PrintWanted({stem + "rebuild_slice", slice_ns_max / 1000, "us", "without",
                   plain_slice_ns_max / 1000, slice_ns_max / plain_slice_ns_max, "", true});
      PrintWanted({stem + "bytes",
                   static_cast<double>(store.hash->absent_filter()->allocated_bytes()) /
                       static_cast<double>(records_),
                   "B", "", 0, 0, "", true});
    }
    std::vector<double> rows[6];
    for (int round = 0; round < rounds_; ++round) {
      rows[0].push_back(Look(store, records_, records_, true));
      rows[1].push_back(Look(store, records_, records_, false));
      rows[2].push_back(Look(store, 0, records_, true));
      rows[3].push_back(Look(store, 0, records_, false));
      rows[4].push_back(LookInStages(store, records_, true));
      rows[5].push_back(LookInStages(store, records_, false));
    }
    PrintPair(stem + "miss", rows[0], rows[1], "tag index");
    PrintPair(stem + "hit", rows[2], rows[3], "tag index");
    PrintPair(stem + "miss.batch16", rows[4], rows[5], "tag index");
  }

  const std::string pattern_;
  const std::uint64_t records_;
  const int rounds_;
};

}  // namespace
}  // namespace tidepool::bench

int main(int argc, char** argv) {
  std::string pattern = "*";
  double scale = 1;
  int rounds = 5;
  CLI::App app{"Prefilters beside a partition's records; one JSON object per row."};
  app.add_option("--rows", pattern, "Only rows that match this glob");
  app.add_option("--scale", scale, "Shrinks the number of records, for a smoke test")
      ->check(CLI::Range(0.001, 10.0));
  app.add_option("--rounds", rounds, "The median of so many")->check(CLI::Range(1, 100));
  CLI11_PARSE(app, argc, argv);
  tidepool::bench::Bench(pattern, scale, rounds).Run();
  return 0;
}
