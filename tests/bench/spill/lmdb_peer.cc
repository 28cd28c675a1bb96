// LMDB in the spill bench: loaded in the order of keys, its best case, and read by one transaction
// per thread. It lives by the page cache, which a cgroup counts; where there is none a thread of
// ours keeps the file's part of it at the limit.
#include "tests/bench/spill/workload.h"

#if TIDEPOOL_BENCH_LMDB
#include <fcntl.h>
#include <lmdb.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <utility>
#endif

namespace tidepool::bench {

#if TIDEPOOL_BENCH_LMDB
namespace {

void Require(int error, const char* what) {
  if (error == 0) return;
  std::fprintf(stderr, "spill_bench: LMDB: %s: %s\n", what, mdb_strerror(error));
  std::exit(1);
}

// Keeps at most `limit_bytes` of a mapped file in the page cache. As a clock with second chance:
// what the process has touched since the hand came by last is mapped and survives, once. Readers
// wait while there is too much, and that time is not counted: what the kernel would take for it,
// and it would not do it better, is a gift.
class PageCacheLimit {
 public:
  PageCacheLimit(int file, char* mapping, std::uint64_t bytes, std::uint64_t limit_bytes)
      : file_(file), mapping_(mapping), bytes_(bytes), limit_bytes_(limit_bytes) {
    thread_ = std::thread([this] { Work(); });
  }
  ~PageCacheLimit() {
    over_ = true;
    thread_.join();
  }
  PageCacheLimit(const PageCacheLimit&) = delete;
  PageCacheLimit& operator=(const PageCacheLimit&) = delete;
  std::uint64_t bytes_max() const { return bytes_max_; }
  double cpu_seconds() const { return cpu_seconds_; }
  // For readers, before each read.
  void WaitForRoom() const { above_.wait(true); }
  double waited_seconds() const { return waited_seconds_; }

 private:
  std::uint64_t Cached() {
    pages_.resize(bytes_ / kPageBytes);
    Require(mincore(mapping_, bytes_, pages_.data()) == 0 ? 0 : errno, "mincore");
    return static_cast<std::uint64_t>(
               std::count_if(pages_.begin(), pages_.end(), [](auto page) { return page & 1; })) *
           kPageBytes;
  }
  void Work() {
    // Ahead of the readers, or it comes too late; without that right the file has more than its
    // limit, which spill.memory.lmdb tells.
    (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), -19);
    for (double above_since = 0; !over_;) {
      const std::uint64_t cached = Cached();
      // What the load has left there goes first.
      began_ = began_ || cached <= limit_bytes_;
      if (began_) bytes_max_ = std::max<std::uint64_t>(bytes_max_, cached);
      NoteCpu();
      if (cached <= limit_bytes_) {
        if (above_) waited_seconds_ = waited_seconds_ + NowSeconds() - above_since;
        above_ = false;
        above_.notify_all();
        more_ = 1;
        usleep(500);
        continue;
      }
      if (!above_) above_since = NowSeconds();
      above_ = true;
      // To a sixteenth below, so that it is done in few rounds. What is in use goes in the next one
      // only, so the next is longer if this one is in vain.
      Sweep((cached - limit_bytes_ / 16 * 15) * more_);
      more_ = std::min<std::uint64_t>(more_ * 2, bytes_ / limit_bytes_ + 1);
    }
    above_ = false;
    above_.notify_all();
  }
  void NoteCpu() {
    timespec cpu{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
    cpu_seconds_ = static_cast<double>(cpu.tv_sec) + static_cast<double>(cpu.tv_nsec) * 1e-9;
  }
  void Sweep(std::uint64_t bytes) {
    for (std::uint64_t swept = 0; swept < bytes; swept += kStepBytes) {
      if (hand_ >= bytes_) hand_ = 0;
      const std::uint64_t step = std::min(kStepBytes, bytes_ - hand_);
      (void)posix_fadvise(file_, static_cast<off_t>(hand_), static_cast<off_t>(step),
                          POSIX_FADV_DONTNEED);
      (void)madvise(mapping_ + hand_, step, MADV_DONTNEED);
      hand_ += step;
    }
  }

  static constexpr std::uint64_t kPageBytes = 4096;
  static constexpr std::uint64_t kStepBytes = 1ull << 20;
  const int file_;
  char* const mapping_;
  const std::uint64_t bytes_;
  const std::uint64_t limit_bytes_;
  std::vector<unsigned char> pages_;
  std::uint64_t hand_ = 0;
  bool began_ = false;
  std::uint64_t more_ = 1;
  std::atomic<std::uint64_t> bytes_max_{0};
  std::atomic<double> cpu_seconds_{0};
  std::atomic<double> waited_seconds_{0};
  std::atomic<bool> above_{false};
  std::atomic<bool> over_{false};
  std::thread thread_;
};

class LmdbPeer final : public Contender {
 public:
  explicit LmdbPeer(const SpillSetup& setup) : setup_(setup) {
    Require(mdb_env_create(&environment_), "create");
    map_bytes_ = (setup.records * kSpillUserBytes * 3 + (256ull << 20)) / 4096 * 4096;
    Require(mdb_env_set_mapsize(environment_, map_bytes_), "map size");
    Require(mdb_env_set_maxreaders(environment_, 200), "readers");
    Require(mdb_env_open(environment_, setup.folder.c_str(),
                         MDB_NOSYNC | MDB_NORDAHEAD | MDB_NOMEMINIT | MDB_NOTLS, 0600),
            "open");
  }
  ~LmdbPeer() override {
    limit_.reset();
    mdb_env_close(environment_);
  }

  SpillResult Do(const SpillOrder& order) override {
    SpillResult result;
    if (order.task == SpillTask::kLoad) {
      result = Load();
      LimitPageCache();
    } else if (order.task == SpillTask::kRun) {
      result = limit_ == nullptr ? Read(order) : ReadLimited(order);
    }
    result.memory_bytes_max =
        OwnMemoryBytes() + (limit_ == nullptr ? 0 : static_cast<double>(limit_->bytes_max()));
    return result;
  }

 private:
  SpillResult Load() {
    std::vector<std::pair<std::array<char, kSpillKeyBytes>, std::uint64_t>> sorted(setup_.records);
    for (std::uint64_t id = 0; id < setup_.records; ++id) {
      std::memcpy(sorted[id].first.data(), SpillKey(id).text(), kSpillKeyBytes);
      sorted[id].second = id;
    }
    std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
      return std::memcmp(a.first.data(), b.first.data(), kSpillKeyBytes) < 0;
    });
    const SpillMeter meter;
    MDB_txn* transaction = nullptr;
    SpillValue value;
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      if (transaction == nullptr) {
        Require(mdb_txn_begin(environment_, nullptr, 0, &transaction), "begin");
        Require(mdb_dbi_open(transaction, nullptr, 0, &database_), "open database");
      }
      const Bytes bytes = value.Of(sorted[i].second, 0);
      MDB_val key{kSpillKeyBytes, sorted[i].first.data()};
      MDB_val stored{bytes.size(), const_cast<std::byte*>(bytes.data())};
      Require(mdb_put(transaction, database_, &key, &stored, MDB_APPEND), "put");
      if (i % 10'000 == 9'999 || i + 1 == sorted.size()) {
        Require(mdb_txn_commit(std::exchange(transaction, nullptr)), "commit");
      }
    }
    Require(mdb_env_sync(environment_, 1), "sync");
    SpillResult result;
    meter.End(static_cast<double>(setup_.records), &result);
    return result;
  }

  // What was loaded lies in the page cache, from which a cgroup would have taken it.
  void LimitPageCache() {
    int file = -1;
    Require(mdb_env_get_fd(environment_, &file), "descriptor");
    MDB_envinfo info{};
    Require(mdb_env_info(environment_, &info), "info");
    const std::uint64_t bytes = (info.me_last_pgno + 1) * 4096;
    // Its mapping is that of a value, less the value's place in the file; mapping it once more
    // would keep the clock from seeing what is used.
    char* mapping = FindMapping();
    (void)madvise(mapping, bytes, MADV_DONTNEED);
    (void)posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    if (setup_.limit_page_cache) {
      limit_ = std::make_unique<PageCacheLimit>(file, mapping, bytes, setup_.limit_bytes);
    }
  }

  static char* FindMapping() {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      if (line.ends_with("/data.mdb")) {
        return reinterpret_cast<char*>(std::stoull(line, nullptr, 16));
      }
    }
    Require(ENOENT, "mapping");
    return nullptr;
  }

  SpillResult ReadLimited(const SpillOrder& order) {
    const double cpu_seconds = limit_->cpu_seconds();
    const double waited_seconds = limit_->waited_seconds();
    SpillResult result = Read(order);
    result.cpu_seconds -= limit_->cpu_seconds() - cpu_seconds;
    result.seconds -= limit_->waited_seconds() - waited_seconds;
    return result;
  }

  SpillResult Read(const SpillOrder& order) {
    return RunThreads(order, [&](std::uint32_t thread, double end, SpillResult& result) {
      SpillIds ids(setup_.records, order.zipf, ++runs_ * 1'000 + thread);
      SpillValue read;
      MDB_txn* transaction = nullptr;
      Require(mdb_txn_begin(environment_, nullptr, MDB_RDONLY, &transaction), "begin");
      while (NowSeconds() < end) {
        if (limit_ != nullptr) limit_->WaitForRoom();
        const std::uint64_t id = ids.Next();
        SpillKey key(id);
        MDB_val wanted{kSpillKeyBytes, key.words.data()};
        MDB_val found{};
        Require(mdb_get(transaction, database_, &wanted, &found), "get");
        if (!read.Take(found.mv_data, found.mv_size, id)) ++result.wrong;
        ++result.operations;
      }
      mdb_txn_abort(transaction);
    });
  }

  const SpillSetup setup_;
  MDB_env* environment_ = nullptr;
  MDB_dbi database_ = 0;
  std::uint64_t map_bytes_ = 0;
  std::unique_ptr<PageCacheLimit> limit_;
  std::atomic<std::uint64_t> runs_{0};
};

}  // namespace

std::unique_ptr<Contender> MakeLmdb(const SpillSetup& setup) {
  return std::make_unique<LmdbPeer>(setup);
}
bool HasLmdb() { return true; }
#else
bool HasLmdb() { return false; }
std::unique_ptr<Contender> MakeLmdb(const SpillSetup&) { return nullptr; }
#endif

}  // namespace tidepool::bench
