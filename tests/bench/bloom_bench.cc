// The Bloom filter of one core: 50 M values at 12 bits each, one thread, no network, against a
// filter of 64-bit blocks set by fetch_or as BCL has it. One JSON object per row on stdout.
//
//   bloom.insert             insert-and-tell with AVX2, in batches of 64 as a client sends them
//   bloom.insert.single      the same one by one
//   bloom.insert.portable    in batches, without vector instructions
//   bloom.contains, ...      the same for look-ups, one in three of them of a value that is there
//
// Rates are per second of the thread's CPU time and count the hashing of the value. All memory was
// touched before.
#include <fnmatch.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "proto/base/check.h"
#include "proto/base/key_hash.h"
#include "storage/block_filter.h"
#include "storage/match_level.h"
#include "tests/bench/bench_options.h"
#include "tests/bench/bench_process.h"

namespace tidepool::bench {
namespace {

using storage::BlockFilter;
using storage::MatchLevel;

constexpr std::uint64_t kBitsPerValue = 12;
constexpr std::size_t kStage = 16;
constexpr std::size_t kBatch = 64;  // As a client's flush.

std::uint64_t HashOf(std::uint64_t value) { return KeyHash(std::as_bytes(std::span(&value, 1))); }

double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// What the compiler must not leave out.
std::uint64_t g_sink = 0;

// BCL's BlockedBloomFilter: one word per value, 4 of its bits (the best number for 12 bits per
// value), one atomic operation. 1.05 % false positives where split blocks have 0.55.
class WordFilter {
 public:
  explicit WordFilter(std::uint64_t bits) : count_(bits / 64) {
    memory_ = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    TP_CHECK(memory_ != MAP_FAILED);
    madvise(memory_, bytes(), MADV_HUGEPAGE);
    words_ = static_cast<std::atomic<std::uint64_t>*>(memory_);
    Clear();
  }
  ~WordFilter() { munmap(memory_, bytes()); }
  WordFilter(const WordFilter&) = delete;
  WordFilter& operator=(const WordFilter&) = delete;

  void Clear() {
    for (std::uint64_t i = 0; i < count_; ++i) words_[i].store(0, std::memory_order_relaxed);
  }
  bool InsertAndTell(std::uint64_t hash) {
    const std::uint64_t bits = BitsOf(hash);
    return (WordOf(hash).fetch_or(bits, std::memory_order_relaxed) & bits) != bits;
  }
  bool Contains(std::uint64_t hash) const {
    const std::uint64_t bits = BitsOf(hash);
    return (WordOf(hash).load(std::memory_order_relaxed) & bits) == bits;
  }
  // In stages too: they help it as much.
  void InsertAndTell(std::span<const std::uint64_t> hashes, bool* is_new) {
    for (std::size_t i = 0; i < hashes.size(); i += kStage) {
      for (std::size_t j = i; j < i + kStage; ++j) __builtin_prefetch(&WordOf(hashes[j]));
      for (std::size_t j = i; j < i + kStage; ++j) is_new[j] = InsertAndTell(hashes[j]);
    }
  }
  void Contains(std::span<const std::uint64_t> hashes, bool* found) const {
    for (std::size_t i = 0; i < hashes.size(); i += kStage) {
      for (std::size_t j = i; j < i + kStage; ++j) __builtin_prefetch(&WordOf(hashes[j]));
      for (std::size_t j = i; j < i + kStage; ++j) found[j] = Contains(hashes[j]);
    }
  }

 private:
  static std::uint64_t BitsOf(std::uint64_t hash) {
    std::uint64_t rest = hash * 0x9e3779b97f4a7c15ull;
    std::uint64_t bits = 0;
    for (int i = 0; i < 4; ++i, rest <<= 6) bits |= std::uint64_t{1} << (rest >> 58);
    return bits;
  }
  std::atomic<std::uint64_t>& WordOf(std::uint64_t hash) const {
    return words_[static_cast<std::uint64_t>(static_cast<unsigned __int128>(hash) * count_ >> 64)];
  }
  std::size_t bytes() const { return count_ * sizeof(std::uint64_t); }

  const std::uint64_t count_;
  void* memory_ = nullptr;
  std::atomic<std::uint64_t>* words_ = nullptr;
};

// How a filter is used: one call per value, or one per batch after prefetching, or, where there is
// one, a call that takes the batch.
enum class Way { kOneByOne, kTogether };

// M values per CPU second. `single(hash)` answers one value, `many(hashes, answers)` a batch.
template <typename Single, typename Many>
double Rate(std::uint64_t count, std::uint64_t step, Way way, Single&& single, Many&& many) {
  const double before = CpuSeconds();
  if (way == Way::kOneByOne) {
    for (std::uint64_t i = 0; i < count; ++i) g_sink += single(HashOf(i * step)) ? 1 : 0;
  } else {
    std::array<std::uint64_t, kBatch> hashes;
    std::array<bool, kBatch> answers;
    for (std::uint64_t i = 0; i + kBatch <= count; i += kBatch) {
      for (std::size_t j = 0; j < kBatch; ++j) hashes[j] = HashOf((i + j) * step);
      many(hashes, answers.data());
      for (const bool answer : answers) g_sink += answer ? 1 : 0;
    }
  }
  return static_cast<double>(count) / (CpuSeconds() - before) / 1e6;
}

// One way to do it, for inserts and look-ups.
struct Variant {
  const char* suffix;
  MatchLevel level;
  Way way;
  double insert_goal;  // M per CPU second; 0: none.
  std::vector<double> inserts, finds, peer_inserts, peer_finds;
};

class Bench {
 public:
  Bench(std::string pattern, double scale, int rounds)
      : pattern_(std::move(pattern)),
        values_(static_cast<std::uint64_t>(50e6 * scale)),
        rounds_(rounds) {}

  void Run() {
    for (Variant& variant : variants_) {
      if (!Wanted(std::string("bloom.insert") + variant.suffix) &&
          !Wanted(std::string("bloom.contains") + variant.suffix)) {
        continue;
      }
      if (storage::SetMatchLevel(variant.level) != variant.level) {
        for (const char* stem : {"bloom.insert", "bloom.contains"}) {
          std::printf("{\"row\": \"%s%s\", \"skipped\": \"this processor has no AVX2\"}\n", stem,
                      variant.suffix);
        }
        continue;
      }
      for (int round = 0; round < rounds_; ++round) Round(variant);
      PrintRows(variant);
    }
  }

 private:
  bool Wanted(const std::string& row) const {
    return fnmatch(pattern_.c_str(), row.c_str(), 0) == 0;
  }

  void Round(Variant& variant) {
    const std::uint64_t bytes = AlignUp(values_ * kBitsPerValue / 8, limits::kFilterBlockBytes);
    {
      storage::ArenaPoolOptions options;
      options.memory_bytes = AlignUp(bytes, limits::kSegmentBytes) + (64ull << 20);
      const auto pool = storage::ArenaPool::Create(options).value();
      // As the daemon's preparing thread does.
      while (pool->PrepareSlice(Clock::Real(), Clock::Real().MonotonicNs() + 1'000'000'000)) {
      }
      storage::CoreMemory memory(*pool, 0);
      const auto filter =
          BlockFilter::Create(FilterShape{bytes / kSplitBlockBytes}, memory).value();
      while (filter->TouchSlice([] { return false; })) {
      }
      variant.inserts.push_back(Rate(
          values_, 1, variant.way, [&](auto hash) { return filter->InsertAndTell(hash); },
          [&](const auto& hashes, bool* is_new) { filter->InsertAndTell(hashes, is_new); }));
      variant.finds.push_back(Rate(
          values_, 3, variant.way, [&](auto hash) { return filter->Contains(hash); },
          [&](const auto& hashes, bool* found) { filter->Contains(hashes, found); }));
    }
    WordFilter peer(bytes * 8);
    variant.peer_inserts.push_back(Rate(
        values_, 1, variant.way, [&](auto hash) { return peer.InsertAndTell(hash); },
        [&](const auto& hashes, bool* is_new) { peer.InsertAndTell(hashes, is_new); }));
    variant.peer_finds.push_back(Rate(
        values_, 3, variant.way, [&](auto hash) { return peer.Contains(hash); },
        [&](const auto& hashes, bool* found) { peer.Contains(hashes, found); }));
  }

  void PrintRow(const std::string& name, const std::vector<double>& ours,
                const std::vector<double>& peer, double goal) const {
    if (!Wanted(name)) return;
    std::vector<double> ratios;
    for (std::size_t i = 0; i < ours.size(); ++i) ratios.push_back(ours[i] / peer[i]);
    const double value = MedianOf(ours);
    std::array<char, 32> text{};
    if (goal > 0) std::snprintf(text.data(), text.size(), ">= %g M/CPU-s", goal);
    Print({name, value, "M/CPU-s", "64-bit blocks, fetch_or", MedianOf(peer), MedianOf(ratios),
           text.data(), value >= goal});
  }

  void PrintRows(const Variant& variant) const {
    PrintRow(std::string("bloom.insert") + variant.suffix, variant.inserts, variant.peer_inserts,
             variant.insert_goal);
    PrintRow(std::string("bloom.contains") + variant.suffix, variant.finds, variant.peer_finds, 0);
  }

  const std::string pattern_;
  const std::uint64_t values_;
  const int rounds_;
  std::vector<Variant> variants_ = {
      {"", MatchLevel::kAvx2, Way::kTogether, 50, {}, {}, {}, {}},
      {".single", MatchLevel::kAvx2, Way::kOneByOne, 0, {}, {}, {}, {}},
      {".portable", MatchLevel::kScalar, Way::kTogether, 15, {}, {}, {}, {}},
  };
};

}  // namespace
}  // namespace tidepool::bench

int main(int argc, char** argv) {
  using namespace tidepool::bench;
  const BenchOptions options =
      ParseOptions(argc, argv, "A Bloom filter of split blocks against one of 64-bit blocks");
  Bench(options.rows, options.scale, options.runs).Run();
  return static_cast<int>(g_sink & 0);
}
