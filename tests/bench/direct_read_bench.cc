// Direct reads of a store's memory through a read-only mapping of one's own, beside what the memory
// takes alone: two loads, of the key's bucket and then of its record, in the same mapping and run.
// Records of 16 / 64 bytes, one thread, no owner at work. One JSON object per row on stdout, ns.
//
//   direct.get.hot          the same 16 keys again and again
//   direct.get.100 ... 10m  uniform over so many keys, one after the other: each needs what the one
//                           before has found, as do the two loads
//   direct.get.*.batch16    MultiGet of 16, per key; against one after the other
//   direct.flat             of the ratios to the loads from 100 keys to 10 M: the largest by the
//   smallest direct.contains.1m      without the value direct.miss.1m          keys that are not
//   there
//
// CPU time of the thread; medians of the rounds, sides interleaved.
#include <fnmatch.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/direct/direct_reader.h"
#include "proto/base/check.h"
#include "proto/base/clock.h"
#include "proto/base/key_hash.h"
#include "storage/core_store.h"
#include "tests/bench/bench_options.h"
#include "tests/bench/bench_process.h"

namespace tidepool::bench {
namespace {

using internal::DirectPartition;
using internal::DirectRead;
using internal::DirectReader;

constexpr std::size_t kKeyBytes = 16;
constexpr std::size_t kValueBytes = 64;
constexpr std::size_t kBatch = 16;

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

using Key = std::array<std::uint64_t, kKeyBytes / 8>;
Key KeyOf(std::uint64_t i) { return {Mix(i), Mix(i ^ 0xabcdef)}; }
Bytes View(const Key& key) { return std::as_bytes(std::span(key)); }

// One key of a round, with the places that the two loads go to.
struct Visit {
  Key key;
  std::uint64_t bucket = 0;
  std::uint64_t record = 0;
};

// A core with one partition, and its memory mapped once more.
class Store {
 public:
  explicit Store(std::uint64_t records) : records_(records) {
    storage::ArenaPoolOptions options;
    options.memory_bytes = (records * 180 + (64ull << 20)) >> 21 << 21;
    options.arena_first_bytes = options.memory_bytes;  // One descriptor.
    options.arena_bytes = options.memory_bytes;
    pool_ = storage::ArenaPool::Create(options).value();
    while (pool_->PrepareSlice(Clock::Real(), ~0ull)) {
    }
    core_ = storage::CoreStore::Create({}, pool_.get(), &Clock::Real()).value();
    partition_ = core_->AddPartition(PartitionId(NamespaceId(1), 0), Term(1), {}).value();
    std::array<std::byte, kValueBytes> value{};
    for (std::uint64_t i = 0; i < records; ++i) {
      const Key key = KeyOf(i);
      TP_CHECK(partition_->hash().Put(View(key), KeyHash(View(key)), value, {}, 1).code ==
               StatusCode::kOk);
    }
    Map();
  }
  ~Store() { munmap(reserved_, reserved_bytes_); }

  DirectReader& reader() { return *reader_; }
  const DirectPartition& partition() const { return opened_; }
  const std::byte* base() const { return base_; }

  // Random keys; `absent`: that are not there.
  std::vector<Visit> Visits(std::size_t count, std::uint64_t keys, std::uint64_t seed,
                            bool absent) {
    std::vector<Visit> visits(count);
    for (std::size_t i = 0; i < count; ++i) {
      Visit& visit = visits[i];
      visit.key = KeyOf(Mix(seed << 32 | i) % keys + (absent ? records_ : 0));
      if (absent) continue;
      const auto found = partition_->hash().Get(View(visit.key), KeyHash(View(visit.key)), 1);
      visit.bucket = BucketOf(KeyHash(View(visit.key)));
      visit.record = OffsetOf(found.value.data() - kKeyBytes - sizeof(storage::RecordHeader));
    }
    return visits;
  }

 private:
  std::uint64_t OffsetOf(const std::byte* at) const {
    return static_cast<std::uint64_t>(at - pool_->base());
  }
  std::uint64_t BucketOf(std::uint64_t hash) const {
    const auto* root = reinterpret_cast<const storage::SharedRoot*>(pool_->base() + view_.root);
    const unsigned level = storage::growth::Level(root->growth);
    std::uint64_t number = hash & ((1ull << level) - 1);
    if (number < storage::growth::Split(root->growth)) number = hash & ((2ull << level) - 1);
    const storage::BucketPlaces places(pool_->block_bytes());
    const std::size_t piece = places.PieceOf(number);
    const std::uint64_t begin = LoadUnaligned<std::uint64_t>(
        pool_->base() + storage::directory::EntryOffset(root->directory, piece));
    return begin + (number - places.PieceBegin(piece)) * sizeof(storage::Bucket);
  }
  void Map() {
    const std::uint64_t block = pool_->block_bytes();
    const std::uint64_t bytes = pool_->usage().mapped_bytes;
    reserved_bytes_ = bytes + 2 * block;
    reserved_ = mmap(nullptr, reserved_bytes_, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    TP_CHECK(reserved_ != MAP_FAILED);
    // Aligned as the owner's, so that huge pages stay huge.
    const auto address = reinterpret_cast<std::uintptr_t>(reserved_);
    base_ = static_cast<std::byte*>(reserved_) + (block - address % block) % block;
    TP_CHECK(mmap(base_ + block, bytes, PROT_READ, MAP_SHARED | MAP_FIXED | MAP_POPULATE,
                  pool_->Show(block).descriptor, 0) != MAP_FAILED);
    map_ = std::make_unique<internal::ArenaMap>(base_, block + bytes, std::countr_zero(block));
    map_->NoteMapped(block, bytes);
    core_->ShowLease(~0ull, 1, [](const storage::Partition&) { return true; });
    view_ = core_->ViewOf(*partition_).value();
    reader_ = std::make_unique<DirectReader>(*map_, Clock::Real());
    std::uint64_t missing = 0;
    TP_CHECK(reader_->Open(view_, &opened_, &missing) == internal::DirectRefusal::kNone);
  }

  const std::uint64_t records_;
  std::unique_ptr<storage::ArenaPool> pool_;
  std::unique_ptr<storage::CoreStore> core_;
  storage::Partition* partition_ = nullptr;
  void* reserved_ = nullptr;
  std::uint64_t reserved_bytes_ = 0;
  std::byte* base_ = nullptr;
  std::unique_ptr<internal::ArenaMap> map_;
  std::unique_ptr<DirectReader> reader_;
  storage::DirectView view_{};
  DirectPartition opened_;
};

// 0, which the compiler does not know: what is masked with it makes the next step wait, and adds
// nothing.
std::uint64_t UnknownZero() {
  std::uint64_t zero = 0;
  asm volatile("" : "+r"(zero));
  return zero;
}

double TimeLoads(const Store& store, const std::vector<Visit>& visits) {
  const std::uint64_t zero = UnknownZero();
  std::uint64_t wait = 0;
  const double before = CpuNs();
  for (const Visit& visit : visits) {
    wait = LoadUnaligned<std::uint64_t>(store.base() + visit.bucket + wait) & zero;
    wait = LoadUnaligned<std::uint64_t>(store.base() + visit.record + wait) & zero;
  }
  asm volatile("" : : "r"(wait));
  return (CpuNs() - before) / static_cast<double>(visits.size());
}

template <typename Read>
double TimeReads(const std::vector<Visit>& visits, DirectRead::Outcome wanted, Read&& read) {
  const std::uint64_t zero = UnknownZero();
  std::uint64_t wait = 0;
  std::uint64_t good = 0;
  const double before = CpuNs();
  for (const Visit& visit : visits) {
    Key key = visit.key;
    key[0] += wait;
    const DirectRead found = read(View(key), KeyHash(View(key)));
    good += found.outcome == wanted ? 1 : 0;
    wait = found.version & zero;
  }
  const double ns = (CpuNs() - before) / static_cast<double>(visits.size());
  TP_CHECK(good == visits.size());
  return ns;
}

double TimeBatches(Store& store, const std::vector<Visit>& visits) {
  std::array<DirectReader::Item, kBatch> items;
  std::array<std::array<std::byte, kValueBytes>, kBatch> room;
  std::uint64_t good = 0;
  const double before = CpuNs();
  for (std::size_t begin = 0; begin + kBatch <= visits.size(); begin += kBatch) {
    for (std::size_t i = 0; i < kBatch; ++i) {
      const Bytes key = View(visits[begin + i].key);
      items[i] = {&store.partition(), key, KeyHash(key), room[i], true, {}};
    }
    store.reader().MultiGet(items);
    for (const DirectReader::Item& item : items) {
      good += item.read.outcome == DirectRead::Outcome::kFound ? 1 : 0;
    }
  }
  const double ns = (CpuNs() - before) / static_cast<double>(visits.size());
  TP_CHECK(good == visits.size());
  return ns;
}

class Bench {
 public:
  Bench(std::string pattern, double scale, int rounds)
      : pattern_(std::move(pattern)), scale_(scale), rounds_(rounds) {}

  void Run() {
    const std::pair<const char*, double> sizes[] = {{"hot", 16},   {"100", 1e2}, {"10k", 1e4},
                                                    {"100k", 1e5}, {"1m", 1e6},  {"10m", 1e7}};
    for (const auto& [name, keys] : sizes) {
      const bool is_wanted =
          Wanted(std::string("direct.get.") + name) ||
          Wanted(std::string("direct.get.") + name + ".batch16") || Wanted("direct.flat") ||
          (name == std::string("1m") && (Wanted("direct.miss.1m") || Wanted("direct.contains.1m")));
      if (!is_wanted) continue;
      const double scaled = keys <= 100 ? keys : std::max(100.0, keys * scale_);
      Measure(name, static_cast<std::uint64_t>(scaled));
    }
    if (!Wanted("direct.flat") || ratios_.size() < 2) return;
    const auto [low, high] = std::minmax_element(ratios_.begin(), ratios_.end());
    Print({"direct.flat", *high, "of loads", "the smallest", *low, *high / *low, "ratio <= 1.2",
           *high / *low <= 1.2});
  }

 private:
  bool Wanted(const std::string& row) const {
    return fnmatch(pattern_.c_str(), row.c_str(), 0) == 0;
  }
  void PrintWanted(const Row& row) const {
    if (Wanted(row.row)) Print(row);
  }

  void Measure(const std::string& name, std::uint64_t keys) {
    Store store(keys);
    std::array<std::byte, kValueBytes> value;
    const auto get = [&](Bytes key, std::uint64_t hash) {
      return store.reader().Get(store.partition(), key, hash, value);
    };
    const auto contains = [&](Bytes key, std::uint64_t hash) {
      return store.reader().Contains(store.partition(), key, hash);
    };
    constexpr std::size_t kVisits = 400'000;
    std::vector<double> loads, gets, ratios, batches, gains, misses, there;
    for (int round = 0; round <= rounds_; ++round) {
      const auto seed = static_cast<std::uint64_t>(round) * 4;
      // Other keys for each side: none is to find the lines of the one before.
      const double load = TimeLoads(store, store.Visits(kVisits, keys, seed, false));
      const double one =
          TimeReads(store.Visits(kVisits, keys, seed + 1, false), DirectRead::Outcome::kFound, get);
      const double batch = TimeBatches(store, store.Visits(kVisits, keys, seed + 2, false));
      const double miss = TimeReads(store.Visits(kVisits, keys, seed + 3, true),
                                    DirectRead::Outcome::kNotFound, get);
      const double has = TimeReads(store.Visits(kVisits, keys, seed + 1, false),
                                   DirectRead::Outcome::kFound, contains);
      if (round == 0) continue;  // Warms up.
      loads.push_back(load);
      gets.push_back(one);
      ratios.push_back(one / load);
      batches.push_back(batch);
      gains.push_back(one / batch);
      misses.push_back(miss);
      there.push_back(has);
    }
    const bool is_judged = name == "1m";
    const double ns = MedianOf(gets);
    const double ratio = MedianOf(ratios);
    if (name != "hot") ratios_.push_back(ratio);
    const double gain = MedianOf(gains);
    if (name == "hot") {
      PrintWanted(
          {"direct.get.hot", ns, "ns", "two loads", MedianOf(loads), ratio, "<= 100", ns <= 100});
    } else {
      PrintWanted({"direct.get." + name, ns, "ns", "two loads", MedianOf(loads), ratio,
                   is_judged ? "ratio <= 1.5" : "", is_judged && ratio <= 1.5});
    }
    PrintWanted({"direct.get." + name + ".batch16", MedianOf(batches), "ns", "one by one", ns, gain,
                 is_judged ? "ratio >= 2" : "", is_judged && gain >= 2});
    if (!is_judged) return;
    PrintWanted({"direct.contains.1m", MedianOf(there), "ns", "", 0, 0, "", false});
    PrintWanted({"direct.miss.1m", MedianOf(misses), "ns", "", 0, 0, "", false});
  }

  const std::string pattern_;
  const double scale_;
  const int rounds_;
  std::vector<double> ratios_;  // To the loads, by the number of keys.
};

}  // namespace
}  // namespace tidepool::bench

int main(int argc, char** argv) {
  using namespace tidepool::bench;
  const BenchOptions options = ParseOptions(argc, argv, "Direct reads beside the loads alone");
  Bench(options.rows, options.scale, options.runs).Run();
  return 0;
}
