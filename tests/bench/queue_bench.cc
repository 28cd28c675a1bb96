// A queue alone: items of 64 bytes pushed and popped in batches of 64 over a backlog of 100,000,
// one thread, no network. One JSON object per row on stdout.
//
//   queue.push_pop             by arrival, values copied out; against a std::deque<std::string>
//   queue.push_pop.priority    by priority (random 32 bits); against a std::multimap
//   queue.push_lease_ack       each item leased and acked instead of popped
//
// ns of the thread's CPU time per item that came and went; medians of the rounds.
#include <fnmatch.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "proto/base/check.h"
#include "proto/base/clock.h"
#include "storage/core_store.h"
#include "tests/bench/bench_options.h"
#include "tests/bench/bench_process.h"

namespace tidepool::bench {
namespace {

using storage::QueueItem;
using storage::QueueStore;

constexpr std::size_t kItemBytes = 64;
constexpr std::uint64_t kBatch = 64;  // As a client's frame.
constexpr std::uint64_t kBacklog = 100'000 / kBatch * kBatch;

double CpuNs() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

// What the compiler must not leave out.
std::uint64_t g_sink = 0;

// Random enough to spread priorities, and the same for both sides.
struct Priorities {
  std::uint64_t Next() {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return state >> 32;
  }
  std::uint64_t state = 1;
};

std::array<char, kItemBytes> ItemOf(std::uint64_t number) {
  std::array<char, kItemBytes> item;
  item.fill(7);
  std::memcpy(item.data(), &number, sizeof number);
  return item;
}

// A core with one queue.
struct Queue {
  explicit Queue(Kind kind) {
    storage::ArenaPoolOptions pool_options;
    pool_options.memory_bytes = 256ull << 20;
    pool = storage::ArenaPool::Create(pool_options).value();
    core = storage::CoreStore::Create({}, pool.get(), &Clock::Real()).value();
    storage::PartitionOptions options;
    options.kind = kind;
    store = &core->AddPartition(PartitionId(NamespaceId(1), 0), Term(1), options).value()->queue();
  }
  void Push(std::uint64_t number) {
    const auto item = ItemOf(number);
    storage::PushOptions options;
    options.priority = priorities.Next();
    TP_CHECK(store->Push(std::as_bytes(std::span(item)), options, 1).code == StatusCode::kOk);
  }
  // Into an answer, as the daemon does.
  bool Copy(const QueueItem& item) {
    std::memcpy(answer[copied % kBatch].data(), item.value.data(), kItemBytes);
    g_sink += static_cast<std::uint64_t>(answer[copied++ % kBatch][0]);
    return true;
  }
  void PopBatch() {
    const auto progress =
        store->Pop(kBatch, 1, [this](const QueueItem& item) { return Copy(item); });
    TP_CHECK(progress.items == kBatch);
  }
  void LeaseBatch() {
    std::array<std::uint64_t, kBatch> ids;
    std::size_t count = 0;
    store->LeasePop(kBatch, {1'000'000, 1}, 1, [&](const QueueItem& item) {
      ids[count++] = item.id;
      return Copy(item);
    });
    TP_CHECK(count == kBatch);
    for (const std::uint64_t id : ids) TP_CHECK(store->Ack(id, 1, 1) == StatusCode::kOk);
  }
  // What a core does between frames.
  void Background() { core->BackgroundSlice(10'000); }

  std::unique_ptr<storage::ArenaPool> pool;
  std::unique_ptr<storage::CoreStore> core;
  QueueStore* store = nullptr;
  Priorities priorities;
  std::array<std::array<char, kItemBytes>, kBatch> answer;
  std::uint64_t copied = 0;
};

struct PlainQueue {
  void Push(std::uint64_t number) {
    const auto item = ItemOf(number);
    items.emplace_back(item.data(), item.size());
  }
  void PopBatch() {
    for (std::uint64_t i = 0; i < kBatch; ++i) {
      g_sink += static_cast<std::uint64_t>(items.front()[0]);
      items.pop_front();
    }
  }
  void Background() {}
  std::deque<std::string> items;
};

struct PlainPriorityQueue {
  void Push(std::uint64_t number) {
    const auto item = ItemOf(number);
    items.emplace(priorities.Next(), std::string(item.data(), item.size()));
  }
  void PopBatch() {
    for (std::uint64_t i = 0; i < kBatch; ++i) {
      g_sink += static_cast<std::uint64_t>(items.begin()->second[0]);
      items.erase(items.begin());
    }
  }
  void Background() {}
  std::multimap<std::uint64_t, std::string> items;
  Priorities priorities;
};

// ns per item.
template <typename Any, typename Take>
double Time(Any& queue, std::uint64_t count, Take&& take) {
  for (std::uint64_t i = 0; i < kBacklog; ++i) queue.Push(i);
  const double before = CpuNs();
  for (std::uint64_t i = 0; i < count; i += kBatch) {
    for (std::uint64_t j = 0; j < kBatch; ++j) queue.Push(i + j);
    take();
    queue.Background();
  }
  return (CpuNs() - before) / static_cast<double>(count);
}

class Bench {
 public:
  Bench(std::string pattern, double scale, int rounds)
      : pattern_(std::move(pattern)),
        count_(static_cast<std::uint64_t>(2e6 * scale) / kBatch * kBatch + kBatch),
        rounds_(rounds) {}

  void Run() {
    Measure<PlainQueue>("queue.push_pop", Kind::kQueue, "std::deque<std::string>", false);
    Measure<PlainPriorityQueue>("queue.push_pop.priority", Kind::kPriority, "std::multimap", false);
    Measure<PlainQueue>("queue.push_lease_ack", Kind::kQueue, "std::deque<std::string>", true);
  }

 private:
  template <typename Peer>
  void Measure(const std::string& row, Kind kind, const std::string& peer_name, bool lease) {
    if (fnmatch(pattern_.c_str(), row.c_str(), 0) != 0) return;
    std::vector<double> ours, theirs, ratios;
    for (int round = 0; round < rounds_; ++round) {
      Queue queue(kind);
      ours.push_back(Time(queue, count_, [&] { lease ? queue.LeaseBatch() : queue.PopBatch(); }));
      Peer peer;
      theirs.push_back(Time(peer, count_, [&] { peer.PopBatch(); }));
      ratios.push_back(ours.back() / theirs.back());
    }
    Print({row, MedianOf(ours), "ns", peer_name, MedianOf(theirs), MedianOf(ratios), "", true});
  }

  const std::string pattern_;
  const std::uint64_t count_;
  const int rounds_;
};

}  // namespace
}  // namespace tidepool::bench

int main(int argc, char** argv) {
  using namespace tidepool::bench;
  const BenchOptions options =
      ParseOptions(argc, argv, "A queue's store beside containers of the standard library");
  Bench(options.rows, options.scale, options.runs).Run();
  return static_cast<int>(g_sink & 0);
}
