// The store alone, against absl::flat_hash_map<std::string, std::string> in the same run: 10 M
// records of 16 / 64 bytes, one thread, no network. One JSON object per row on stdout.
//
// Rates are per second of the thread's CPU time, which a busy neighbour disturbs less than wall
// time; ratios are medians over rounds that alternate between the two. Both sides get memory that
// was touched before, and the peer's table is reserved. Where a goal is judged the peer makes a
// std::string of each key that it finds, as its users do who have bytes from a network; the rows
// with .view, and those of misses, look up a string_view instead.
#include <absl/container/flat_hash_map.h>
#include <absl/strings/string_view.h>
#include <fnmatch.h>
#include <malloc.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proto/base/check.h"
#include "proto/base/clock.h"
#include "proto/base/key_hash.h"
#include "storage/core_store.h"
#include "storage/match_level.h"
#include "storage/tag_find.h"

namespace tidepool::storage {
namespace {

constexpr std::size_t kKeyBytes = 16;
constexpr std::size_t kValueBytes = 64;
constexpr std::size_t kBatch = 16;
constexpr int kRounds = 5;
using Peer = absl::flat_hash_map<std::string, std::string>;

std::uint64_t Mix(std::uint64_t z) {
  z += 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

struct Key {
  explicit Key(std::uint64_t id) {
    const std::uint64_t words[2] = {Mix(id), Mix(id ^ 0xabcdef)};
    std::memcpy(bytes, words, sizeof bytes);
  }
  Key() = default;
  Bytes view() const { return std::as_bytes(std::span(bytes)); }
  // Of abseil as Debian builds it, where it is not std::string_view.
  absl::string_view text() const { return {bytes, sizeof bytes}; }
  char bytes[kKeyBytes];
};

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(Mix(seed)) {}
  std::uint64_t Below(std::uint64_t bound) {
    state_ += 0x632be59bd9b4e019ull;
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(Mix(state_)) * bound >> 64);
  }

 private:
  std::uint64_t state_;
};

double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// What the compiler must not leave out.
std::uint64_t g_sink = 0;

struct Store {
  Store(std::uint64_t records, std::uint64_t buckets) {
    ArenaPoolOptions pool_options;
    pool_options.memory_bytes = records * 150 + (128ull << 20);
    pool_options.prepare_in_background = true;  // As the daemon does.
    pool = ArenaPool::Create(pool_options).value();
    CoreStoreOptions options;
    options.buckets_initial = buckets;
    core = CoreStore::Create(options, pool.get(), &Clock::Real()).value();
    partition = core->AddPartition(PartitionId(NamespaceId(1), 0), Term(1), {}).value();
    store = &partition->hash();
  }
  // Touches the memory for `records` by filling a partition that is then dropped: what a service
  // that has run for a while looks like.
  void Warm(std::uint64_t records) {
    Partition* warm = core->AddPartition(PartitionId(NamespaceId(2), 0), Term(1), {}).value();
    const char value[kValueBytes] = {};
    for (std::uint64_t id = 0; id < records; ++id) {
      const Key key(~id);
      warm->hash().Put(key.view(), KeyHash(key.view()), std::as_bytes(std::span(value)), {}, 1);
    }
    core->DropPartition(warm->id());
    while (core->BackgroundSlice(1'000'000)) {
    }
  }
  void Insert(std::uint64_t id) {
    const Key key(id);
    char value[kValueBytes];
    std::memset(value, 7, sizeof value);
    std::memcpy(value, &id, sizeof id);
    const HashOutcome outcome =
        store->Put(key.view(), KeyHash(key.view()), std::as_bytes(std::span(value)), {}, 1);
    TP_CHECK(outcome.code == StatusCode::kOk);
  }

  std::unique_ptr<ArenaPool> pool;
  std::unique_ptr<CoreStore> core;
  Partition* partition = nullptr;
  HashStore* store = nullptr;
};

struct Row {
  std::string name;
  double value;
  std::string unit;
  std::string peer;
  std::optional<double> peer_value;
  std::optional<double> ratio;
  std::string goal;
  std::optional<bool> met;
};

class Bench {
 public:
  Bench(std::string pattern, double scale)
      : pattern_(std::move(pattern)),
        records_(static_cast<std::uint64_t>(10e6 * scale)),
        pause_records_(static_cast<std::uint64_t>(20e6 * scale)) {}

  void Run() {
    if (AnyWanted({"store.insert", "store.insert.grown", "store.index_bytes",
                   "store.index_bytes.grown"})) {
      InsertRows();
    }
    if (AnyWanted({"store.find", "store.find.view", "store.find.miss",
                   "store.find.batch16.portable", "store.find.batch16.portable.view",
                   "store.find.batch16.avx512", "store.find.batch16.avx512.view"})) {
      FindRows();
    }
    if (AnyWanted({"store.false_candidates", "store.insert.worst"})) GrowthRows();
  }

 private:
  bool Wanted(const std::string& row) const {
    return fnmatch(pattern_.c_str(), row.c_str(), 0) == 0;
  }

  bool AnyWanted(std::initializer_list<const char*> rows) const {
    return std::any_of(rows.begin(), rows.end(), [this](const char* row) { return Wanted(row); });
  }

  void Print(const Row& row) const {
    if (!Wanted(row.name)) return;
    const auto number = [](const std::optional<double>& value) {
      char text[32];
      std::snprintf(text, sizeof text, "%.4g", value.value_or(0));
      return value.has_value() ? std::string(text) : std::string("null");
    };
    const auto quoted = [](const std::string& text) {
      return text.empty() ? std::string("null") : "\"" + text + "\"";
    };
    std::printf(
        "{\"row\": \"%s\", \"value\": %s, \"unit\": \"%s\", \"peer\": %s, \"peer_value\": %s, "
        "\"ratio\": %s, \"goal\": %s, \"met\": %s}\n",
        row.name.c_str(), number(row.value).c_str(), row.unit.c_str(), quoted(row.peer).c_str(),
        number(row.peer_value).c_str(), number(row.ratio).c_str(), quoted(row.goal).c_str(),
        !row.met.has_value() ? "null"
        : *row.met           ? "true"
                             : "false");
    std::fflush(stdout);
  }

  // Rates of ours and the peer's, one pair per round.
  void PrintRatio(const std::string& name, const std::vector<double>& ours,
                  const std::vector<double>& peer, std::optional<double> goal,
                  const std::string& how = "") const {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < ours.size(); ++i) ratios.push_back(ours[i] / peer[i]);
    const double ratio = Median(ratios);
    char text[32] = "";
    if (goal.has_value()) std::snprintf(text, sizeof text, "ratio >= %g", *goal);
    Print({name, Median(ours), "M/CPU-s", "absl::flat_hash_map<string,string>" + how, Median(peer),
           ratio, text, goal.has_value() ? std::optional(ratio >= *goal) : std::nullopt});
  }

  template <typename Work>
  double RateOf(std::uint64_t count, Work&& work) const {
    const double before = CpuSeconds();
    for (std::uint64_t i = 0; i < count; ++i) work(i);
    return static_cast<double>(count) / (CpuSeconds() - before) / 1e6;
  }

  std::uint64_t SizedBuckets() const { return records_ / 5; }

  void FillPeer(Peer& peer) const {
    peer.reserve(records_);
    char value[kValueBytes];
    std::memset(value, 7, sizeof value);
    for (std::uint64_t id = 0; id < records_; ++id) {
      std::memcpy(value, &id, sizeof id);
      peer.try_emplace(std::string(Key(id).text()), value, sizeof value);
    }
  }

  // The peer's heap is touched and kept: one block of the size that it will take, freed again.
  void WarmHeap() const {
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, -1);
    const std::size_t bytes = records_ * 256 + (64 << 20);
    void* block = std::malloc(bytes);
    TP_CHECK(block != nullptr);
    std::memset(block, 1, bytes);
    asm volatile("" : : "r"(block) : "memory");
    std::free(block);
  }

  void InsertRows() {
    std::vector<double> sized, grown, peer_rates;
    double sized_bytes = 0;
    double grown_bytes = 0;
    const auto insert = [&](std::uint64_t buckets, double* bytes) {
      Store ours(records_, buckets);
      ours.Warm(records_);
      const double rate = RateOf(records_, [&](std::uint64_t id) { ours.Insert(id); });
      *bytes = static_cast<double>(ours.store->index().bytes()) / static_cast<double>(records_);
      return rate;
    };
    for (int round = 0; round < kRounds; ++round) {
      sized.push_back(insert(SizedBuckets(), &sized_bytes));
      grown.push_back(insert(64, &grown_bytes));
      WarmHeap();
      const double before = CpuSeconds();
      Peer peer;
      FillPeer(peer);
      peer_rates.push_back(static_cast<double>(records_) / (CpuSeconds() - before) / 1e6);
      g_sink += peer.size();
    }
    PrintRatio("store.insert", sized, peer_rates, 2.0);
    PrintRatio("store.insert.grown", grown, peer_rates, std::nullopt);
    Print(
        {"store.index_bytes", sized_bytes, "bytes/record", "", {}, {}, "<= 16", sized_bytes <= 16});
    Print({"store.index_bytes.grown",
           grown_bytes,
           "bytes/record",
           "",
           {},
           {},
           "<= 20",
           grown_bytes <= 20});
  }

  void FindOne(Store& ours, std::uint64_t id) const {
    const Key key(id);
    const HashOutcome outcome = ours.store->Get(key.view(), KeyHash(key.view()), 1);
    TP_CHECK(outcome.code == StatusCode::kOk);
    char value[kValueBytes];
    std::memcpy(value, outcome.value.data(), sizeof value);
    asm volatile("" : : "r"(value) : "memory");
  }

  // What a batch costs per key, in the stages that the daemon uses.
  double BatchRate(Store& ours, std::uint64_t seed, std::uint64_t finds) const {
    Random random(seed);
    return RateOf(finds / kBatch,
                  [&](std::uint64_t) {
                    Key keys[kBatch];
                    std::uint64_t hashes[kBatch];
                    for (std::size_t i = 0; i < kBatch; ++i) {
                      keys[i] = Key(random.Below(records_));
                      hashes[i] = KeyHash(keys[i].view());
                      ours.store->PrefetchBucket(hashes[i]);
                    }
                    for (const std::uint64_t hash : hashes) ours.store->PrefetchRecord(hash);
                    for (std::size_t i = 0; i < kBatch; ++i) {
                      const HashOutcome outcome = ours.store->Get(keys[i].view(), hashes[i], 1);
                      TP_CHECK(outcome.code == StatusCode::kOk);
                      char value[kValueBytes];
                      std::memcpy(value, outcome.value.data(), sizeof value);
                      asm volatile("" : : "r"(value) : "memory");
                    }
                  }) *
           kBatch;
  }

  void FindRows() {
    Store ours(records_, 64);  // Grown, as in the daemon.
    for (std::uint64_t id = 0; id < records_; ++id) ours.Insert(id);
    WarmHeap();
    Peer peer;
    FillPeer(peer);
    const MatchLevel best = g_match_level;
    const std::uint64_t finds = records_ / 4;
    std::vector<double> find, miss, portable, avx512, peer_find, peer_view, peer_miss;
    const auto peer_rate = [&](Random& random, auto&& make_key) {
      return RateOf(finds, [&](std::uint64_t) {
        const Key key(random.Below(records_));
        const auto found = peer.find(make_key(key));
        TP_CHECK(found != peer.end());
        char value[kValueBytes];
        std::memcpy(value, found->second.data(), sizeof value);
        asm volatile("" : : "r"(value) : "memory");
      });
    };
    for (int round = 0; round < kRounds; ++round) {
      const auto seed = static_cast<std::uint64_t>(round);
      Random random(seed);
      SetMatchLevel(MatchLevel::kSse2);
      find.push_back(RateOf(finds, [&](std::uint64_t) { FindOne(ours, random.Below(records_)); }));
      peer_find.push_back(
          peer_rate(random, [](const Key& key) { return std::string(key.text()); }));
      peer_view.push_back(peer_rate(random, [](const Key& key) { return key.text(); }));
      portable.push_back(BatchRate(ours, seed + 100, finds));
      SetMatchLevel(best);
      avx512.push_back(BatchRate(ours, seed + 200, finds));
      miss.push_back(RateOf(finds, [&](std::uint64_t) {
        const Key key(records_ + random.Below(records_));
        g_sink += ours.store->Get(key.view(), KeyHash(key.view()), 1).code == StatusCode::kOk;
      }));
      peer_miss.push_back(RateOf(finds, [&](std::uint64_t) {
        g_sink += peer.contains(Key(records_ + random.Below(records_)).text());
      }));
    }
    PrintRatio("store.find", find, peer_find, 3.0);
    PrintRatio("store.find.view", find, peer_view, std::nullopt, ", string_view");
    PrintRatio("store.find.miss", miss, peer_miss, std::nullopt, ", string_view");
    PrintRatio("store.find.batch16.portable", portable, peer_find, 5.0);
    PrintRatio("store.find.batch16.portable.view", portable, peer_view, std::nullopt,
               ", string_view");
    if (best == MatchLevel::kAvx512) {
      PrintRatio("store.find.batch16.avx512", avx512, peer_find, 8.0);
      PrintRatio("store.find.batch16.avx512.view", avx512, peer_view, std::nullopt,
                 ", string_view");
    } else {
      std::puts(
          "{\"row\": \"store.find.batch16.avx512\", \"skipped\": \"this processor has no "
          "AVX-512\"}");
    }
  }

  // Candidates whose key differs, over finds of keys that are there and of keys that are not.
  double FalseCandidates(const Store& ours, std::uint64_t records) const {
    Random random(42);
    constexpr std::uint64_t kFinds = 1'000'000;
    std::uint64_t candidates = 0;
    for (std::uint64_t i = 0; i < 2 * kFinds; ++i) {
      const bool hit = i < kFinds;
      const Key key((hit ? 0 : records) + random.Below(records));
      std::uint64_t seen = 0;
      bool found = false;
      ours.store->index().Find(KeyHash(key.view()), [&](std::uint64_t location) {
        ++seen;
        found = ours.store->KeyAt(location).size() == kKeyBytes &&
                std::memcmp(ours.store->KeyAt(location).data(), key.bytes, kKeyBytes) == 0;
        return found;
      });
      TP_CHECK(found == hit);
      candidates += seen - (hit ? 1 : 0);
    }
    return static_cast<double>(candidates) / (2.0 * kFinds);
  }

  // Every insert is timed. A pause that growth makes comes back at the same insert of an equal run,
  // one that the machine makes does not: so the least of three runs counts.
  void GrowthRows() {
    constexpr int kRuns = 3;
    constexpr std::uint64_t kSliceEvery = 256;
    std::vector<float> least(pause_records_, 1e9f);
    double worst_slice_us = 0;
    double false_candidates = 0;
    const Clock& clock = Clock::Real();
    for (int run = 0; run < kRuns; ++run) {
      Store ours(pause_records_, 64);
      while (ours.core->BackgroundSlice(1'000'000)) {
      }
      for (std::uint64_t id = 0; id < pause_records_; ++id) {
        const std::uint64_t before = clock.MonotonicNs();
        ours.Insert(id);
        const auto took_us = static_cast<float>(clock.MonotonicNs() - before) / 1e3f;
        least[id] = std::min(least[id], took_us);
        // As a core does between batches.
        if (id % kSliceEvery == 0) {
          const std::uint64_t began = clock.MonotonicNs();
          ours.core->BackgroundSlice(20'000);
          worst_slice_us =
              std::max(worst_slice_us, static_cast<double>(clock.MonotonicNs() - began) / 1e3);
        }
      }
      if (run == 0) false_candidates = FalseCandidates(ours, pause_records_);
    }
    std::sort(least.begin(), least.end());
    const auto at = [&](double share) {
      return static_cast<double>(
          least[static_cast<std::size_t>(share * static_cast<double>(least.size() - 1))]);
    };
    std::fprintf(
        stderr,
        "insert of %zu while growing, us: p50 %.3f p99.9 %.3f p99.99 %.3f worst %.3f; worst "
        "background slice (scheduler included) %.0f\n",
        least.size(), at(0.5), at(0.999), at(0.9999), at(1.0), worst_slice_us);
    Print({"store.false_candidates",
           false_candidates,
           "per find",
           "",
           {},
           {},
           "<= 0.01",
           false_candidates <= 0.01});
    Print({"store.insert.worst", at(1.0), "us", "", {}, {}, "<= 100", at(1.0) <= 100});
  }

  const std::string pattern_;
  const std::uint64_t records_;
  const std::uint64_t pause_records_;
};

}  // namespace
}  // namespace tidepool::storage

int main(int argc, char** argv) {
  CLI::App app{"The store alone against absl::flat_hash_map<std::string, std::string>"};
  std::string pattern = "*";
  double scale = 1.0;
  app.add_option("--rows", pattern, "Only rows that match this pattern (shell wildcards)");
  app.add_option("--scale", scale, "Share of the full size: 0.01 for a smoke test")
      ->check(CLI::Range(0.0001, 10.0));
  CLI11_PARSE(app, argc, argv);
  tidepool::storage::Bench(pattern, scale).Run();
  return static_cast<int>(tidepool::storage::g_sink & 0);
}
