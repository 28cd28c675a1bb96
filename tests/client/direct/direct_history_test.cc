// Histories of direct and of remote reads beside an owner that changes all data. Each read must
// have a place between the changes acknowledged before it and the changes begun before its end.
//
// The direct reader is compiled here with pauses between its steps. The remote reader reads by the
// weakest possible network card (any_order_memory.h).
#include <catch2/catch.hpp>

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <memory>
#include <new>
#include <random>
#include <thread>
#include <vector>

#include "client/direct/direct_reader.h"
#include "client/direct/remote_reader.h"
#include "proto/base/check.h"
#include "proto/base/key_hash.h"
#include "tests/client/direct/any_order_memory.h"
#include "tests/client/direct/direct_history.h"
#include "tests/client/direct/direct_history_owner.h"

namespace {

thread_local std::minstd_rand g_pauses{1};
thread_local bool g_pauses_long = false;

}  // namespace

// Mostly nothing, sometimes long enough for a hundred changes of the owner.
void DirectReadStep(int /*step*/) {
  const auto chance = g_pauses() % 1024;
  if (chance < 4) sched_yield();
  if (chance != 5) return;
  const timespec pause{0, g_pauses_long && g_pauses() % 64 == 0 ? 20'000'000 : 50'000};
  nanosleep(&pause, nullptr);
}

namespace tidepool::internal {
namespace {

// At a load of 12, 60 s were not enough.
constexpr std::uint64_t kWaitMs = 180'000;

// Memory as a reader sees it.
struct Outside {
  const std::byte* base = nullptr;  // Node offset 0.
  std::uint64_t begin = 0;          // Node offsets.
  std::uint64_t end = 0;
};

constexpr std::size_t kMany = 16;

struct Wanted {
  std::string_view key;
  MutableBytes to;
  DirectRead read;
};

// By loads, on the owner's node.
class ByLoads {
 public:
  ByLoads(const DirectHistory& history, const Outside& memory, unsigned /*seed*/)
      : history_(history), map_(memory.base, memory.end, 12), reader_(map_, Clock::Real()) {
    map_.NoteMapped(memory.begin, memory.end - memory.begin);
  }
  bool Open() {
    storage::DirectView view;
    std::uint64_t missing = 0;
    return history_.Fetch(&view) &&
           reader_.Open(view, &partition_, &missing) == DirectRefusal::kNone;
  }
  void Read(std::span<Wanted> wanted) {
    if (wanted.size() == 1) {
      Wanted& one = wanted[0];
      one.read = reader_.Get(partition_, AsBytes(one.key), KeyHash(AsBytes(one.key)), one.to);
      return;
    }
    std::array<DirectReader::Item, kMany> items;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const Bytes key = AsBytes(wanted[i].key);
      items[i] = {&partition_, key, KeyHash(key), wanted[i].to, true, {}};
    }
    reader_.MultiGet(std::span(items).first(wanted.size()));
    for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i].read = items[i].read;
  }

 private:
  const DirectHistory& history_;
  ArenaMap map_;
  DirectReader reader_;
  DirectPartition partition_;
};

// By a network card, from another node, with a lease as direct_space keeps it.
class ByCard {
 public:
  ByCard(const DirectHistory& history, const Outside& memory, unsigned seed)
      : history_(history),
        reader_(std::make_unique<AnyOrderMemory>(memory.base, memory.begin, memory.end, seed,
                                                 [] { DirectReadStep(0); }),
                Clock::Real()) {}
  bool Open() {
    // Reads the lease before the view: a lease older than the view has expired by then.
    until_ns_ = history_.leased_until_ns;
    storage::DirectView view;
    if (!history_.Fetch(&view)) return false;
    if (partition_ == nullptr || partition_->view().serving_epoch != view.serving_epoch) {
      partition_ = reader_.Open(view);
    }
    return partition_ != nullptr;
  }
  void Read(std::span<Wanted> wanted) {
    std::array<RemoteReader::Item, kMany> items;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const Bytes key = AsBytes(wanted[i].key);
      items[i] = {partition_, key, KeyHash(key), wanted[i].to, true, {}};
    }
    reader_.Read(std::span(items).first(wanted.size()));
    const bool is_late = Clock::Real().MonotonicNs() >= until_ns_;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      wanted[i].read = items[i].read;
      if (!is_late || items[i].read.outcome == DirectRead::Outcome::kAskOwner) continue;
      wanted[i].read = {};
      wanted[i].read.refusal = DirectRefusal::kNoLease;
    }
    if (is_late) (void)Open();
  }

 private:
  const DirectHistory& history_;
  RemoteReader reader_;
  RemotePartition* partition_ = nullptr;
  std::uint64_t until_ns_ = 0;
};

// Checks reads against the history until it is stopped.
template <typename Way>
class HistoryReader {
 public:
  HistoryReader(DirectHistory& history, const Outside& memory, unsigned seed)
      : history_(history), way_(history, memory, seed), random_(seed) {
    g_pauses.seed(seed);
    g_pauses_long = seed % 2 == 0;
    for (std::uint32_t key = 0; key < DirectHistory::kKeys; ++key) {
      names_.push_back(HistoryOwner::KeyOf(key));
    }
  }

  void Run() {
    while (!history_.stop && history_.violations == 0) {
      if (!is_open_ && !(is_open_ = way_.Open())) {
        sched_yield();
        continue;
      }
      Read(random_() % 4 == 0 ? kMany : 1);
    }
  }

 private:
  using Room = std::array<std::byte, 8192>;

  std::uint32_t AnyKey() {
    return static_cast<std::uint32_t>(random_() % (random_() % 3 == 0 ? DirectHistory::kKeys : 6));
  }
  void Read(std::size_t count) {
    std::array<DirectHistory::Watch, kMany> watches;
    std::array<Wanted, kMany> wanted;
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t key = AnyKey();
      watches[i] = history_.Before(key, Clock::Real().WallMs());
      wanted[i] = {names_[key], room_[i], {}};
    }
    // Overlapping reads have no order: `seen` has the finds before all of them.
    const auto seen = seen_;
    auto seen_after = seen_;
    way_.Read(std::span(wanted).first(count));
    for (std::size_t i = 0; i < count; ++i) {
      seen_ = seen;
      Judge(watches[i], wanted[i].read, room_[i]);
      const std::uint32_t key = watches[i].key;
      seen_after[key] = std::max(seen_after[key], seen_[key]);
    }
    // Items of one key within a batch have no order. Only separate reads have an order.
    seen_ = seen_after;
  }
  void Judge(const DirectHistory::Watch& watch, const DirectRead& read, const Room& room) {
    if (read.outcome == DirectRead::Outcome::kAskOwner) {
      ++history_.refused[static_cast<std::size_t>(read.refusal)];
      if (read.refusal == DirectRefusal::kClosed) is_open_ = false;
      return;
    }
    ++history_.answered;
    const bool is_found = read.outcome == DirectRead::Outcome::kFound;
    history_.found += is_found ? 1 : 0;
    const Bytes value = Bytes(room).first(read.value_bytes);
    std::string why;
    if (!history_.Explains(watch, is_found ? &value : nullptr, Clock::Real().WallMs(),
                           &seen_[watch.key], &why)) {
      history_.Violate(why);
    }
  }

  DirectHistory& history_;
  Way way_;
  std::minstd_rand random_;
  bool is_open_ = false;
  std::vector<std::string> names_;
  std::array<std::uint64_t, DirectHistory::kKeys> seen_{};
  std::array<Room, kMany> room_{};
};

void Report(const DirectHistory& history) {
  std::printf("  %llu answered, %llu found, %llu turns;",
              static_cast<unsigned long long>(history.answered),
              static_cast<unsigned long long>(history.found),
              static_cast<unsigned long long>(history.turns));
  for (std::size_t i = 1; i < kDirectRefusals; ++i) {
    std::printf(" %s %llu", NameOf(static_cast<DirectRefusal>(i)),
                static_cast<unsigned long long>(history.refused[i]));
  }
  std::printf("\n");
}

template <typename Way>
void CheckThreads(bool spills, std::uint64_t turns) {
  const auto history = std::make_unique<DirectHistory>();
  HistoryOwner owner(*history, spills, storage::TestSeed());
  owner.Fill();
  const storage::ArenaPool& pool = owner.pool();
  const std::uint64_t begin = pool.block_bytes();
  const Outside memory{pool.base(), begin, begin + pool.usage().mapped_bytes};
  std::vector<std::thread> readers;
  for (unsigned i = 0; i < 3; ++i) {
    readers.emplace_back([&, i] { HistoryReader<Way>(*history, memory, i + 1).Run(); });
  }
  const Deadline deadline = Deadline::AfterMs(kWaitMs);
  while (history->violations == 0 && !deadline.Passed() &&
         (history->turns < turns || history->found < turns / 4)) {
    owner.Turn();
  }
  history->stop = true;
  for (std::thread& reader : readers) reader.join();
  Report(*history);
  INFO(history->first_violation.data());
  REQUIRE(history->violations == 0);
  REQUIRE(history->found >= turns / 4);
}

TEST_CASE("EachDirectReadHasAPlaceBesideAnOwnerThatChangesEverything") {
  CheckThreads<ByLoads>(false, 60'000);
}

TEST_CASE("EachDirectReadHasAPlaceWhileRecordsLeaveMemory") { CheckThreads<ByLoads>(true, 20'000); }

TEST_CASE("EachRemoteReadHasAPlaceBesideAnOwnerThatChangesEverything") {
  CheckThreads<ByCard>(false, 60'000);
}

TEST_CASE("EachRemoteReadHasAPlaceWhileRecordsLeaveMemory") { CheckThreads<ByCard>(true, 20'000); }

// ---- Processes.

// Shared by all that are started from here.
template <typename T>
class Common {
 public:
  Common() {
    at_ = mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    TP_CHECK(at_ != MAP_FAILED);
    new (at_) T();
  }
  ~Common() { munmap(at_, sizeof(T)); }
  T& operator*() { return *static_cast<T*>(at_); }
  T* operator->() { return static_cast<T*>(at_); }

 private:
  void* at_ = nullptr;
};

template <typename Work>
pid_t Start(Work&& work) {
  std::fflush(stdout);  // Or it comes again from each child.
  const pid_t child = fork();
  TP_CHECK(child >= 0);
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  work();
  _exit(0);
}

// A reader's read-only mapping of the owner's only arena.
template <typename Way>
void ReadFromOutside(DirectHistory& history, const storage::ArenaPool& pool, unsigned seed) {
  const std::uint64_t block = pool.block_bytes();
  const std::uint64_t bytes = pool.usage().mapped_bytes;
  void* const base =
      mmap(nullptr, block + bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  TP_CHECK(base != MAP_FAILED);
  auto* const at = static_cast<std::byte*>(base);
  TP_CHECK(mmap(at + block, bytes, PROT_READ, MAP_SHARED | MAP_FIXED, pool.Show(block).descriptor,
                0) != MAP_FAILED);
  HistoryReader<Way>(history, {at, block, block + bytes}, seed).Run();
}

template <typename Condition>
bool WaitFor(Condition&& condition) {
  const Deadline deadline = Deadline::AfterMs(kWaitMs);
  while (!condition()) {
    if (deadline.Passed()) return false;
    sched_yield();
  }
  return true;
}

void Stop(pid_t process) {
  kill(process, SIGSTOP);
  int status = 0;
  TP_CHECK(waitpid(process, &status, WUNTRACED) == process && WIFSTOPPED(status));
}

// Acts as another owner after the lease has expired.
void TakeOver(DirectHistory& history) {
  const bool has_run_out =
      WaitFor([&] { return Clock::Real().MonotonicNs() > history.shown_until_ns; });
  TP_CHECK(has_run_out);
  ++history.taken_over;
  for (std::uint32_t key = 0; key < DirectHistory::kKeys; ++key) {
    // The first owner may be about to begin a change of its own.
    const std::uint64_t number = history.NextOf(key) + 1000;
    history.Begin(key, number, AfterChange::kValue);
    history.Acknowledge(key, number);
  }
}

// Reads that ended for want of a lease, or since the owner was stopped in the middle of something.
std::uint64_t RefusedOfStopped(const DirectHistory& history) {
  std::uint64_t refused = 0;
  for (const auto each : {DirectRefusal::kNoLease, DirectRefusal::kClosed, DirectRefusal::kBusy,
                          DirectRefusal::kUnsettled}) {
    refused += history.refused[static_cast<std::size_t>(each)];
  }
  return refused;
}

template <typename Way>
void CheckStops() {
  Common<DirectHistory> history;
  HistoryOwner owner(*history, false, storage::TestSeed());
  owner.Fill();
  const pid_t owning = Start([&] {
    while (!history->stop) owner.Turn();
  });
  std::vector<pid_t> readers;
  for (unsigned i = 0; i < 3; ++i) {
    readers.push_back(Start([&, i] { ReadFromOutside<Way>(*history, owner.pool(), i + 1); }));
  }
  bool in_time = true;
  constexpr int kRounds = 20;
  for (int round = 0; round < kRounds && in_time && history->violations == 0; ++round) {
    const std::uint64_t turns = history->turns + 200;
    const std::uint64_t answered = history->answered + 200;
    in_time = WaitFor([&] {
      return (history->turns >= turns && history->answered >= answered) || history->violations != 0;
    });
    // A reader is stopped with the owner, and holds its unfinished read beyond the lease.
    const pid_t reader = readers[static_cast<std::size_t>(round) % readers.size()];
    Stop(reader);
    Stop(owning);
    TakeOver(*history);
    kill(reader, SIGCONT);
    // All readers continue without the owner.
    const std::uint64_t refused = RefusedOfStopped(*history) + 100;
    in_time = in_time && WaitFor([&] {
                return RefusedOfStopped(*history) >= refused || history->violations != 0;
              });
    if (round + 1 == kRounds) {
      kill(owning, SIGKILL);
    } else {
      kill(owning, SIGCONT);
      in_time = in_time && WaitFor([&] {
                  return history->come_back == history->taken_over || history->violations != 0;
                });
    }
  }
  history->stop = true;
  kill(owning, SIGKILL);
  int status = 0;
  waitpid(owning, &status, 0);
  for (const pid_t reader : readers) {
    REQUIRE(waitpid(reader, &status, 0) == reader);
    REQUIRE((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  }
  Report(*history);
  INFO(history->first_violation.data());
  REQUIRE(history->violations == 0);
  REQUIRE(in_time);
}

TEST_CASE("NoDirectReadGoesBackBehindAnOwnerThatWasStoppedAndReplaced") { CheckStops<ByLoads>(); }

TEST_CASE("NoRemoteReadGoesBackBehindAnOwnerThatWasStoppedAndReplaced") { CheckStops<ByCard>(); }

}  // namespace
}  // namespace tidepool::internal
