// RocksDB in the spill bench: direct I/O, no log, no compression, and a block cache that leaves
// room for its other memory.
#include "tests/bench/spill/workload.h"

#if TIDEPOOL_BENCH_ROCKSDB
#include <malloc.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#endif

namespace tidepool::bench {

#if TIDEPOOL_BENCH_ROCKSDB
namespace {

void Require(const rocksdb::Status& status, const char* what) {
  if (status.ok()) return;
  std::fprintf(stderr, "spill_bench: RocksDB: %s: %s\n", what, status.ToString().c_str());
  std::exit(1);
}

rocksdb::Slice SliceOf(const SpillKey& key) { return {key.text(), kSpillKeyBytes}; }
rocksdb::Slice SliceOf(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class RocksdbPeer final : public Contender {
 public:
  explicit RocksdbPeer(const SpillSetup& setup) : setup_(setup) {
    rocksdb::Options options;
    options.create_if_missing = true;
    options.use_direct_reads = true;
    options.use_direct_io_for_flush_and_compaction = true;
    options.compression = rocksdb::kNoCompression;
    options.write_buffer_size = setup.limit_bytes / 32;
    options.max_write_buffer_number = 2;
    options.max_background_jobs = 2;
    options.level_compaction_dynamic_level_bytes = true;
    options.avoid_flush_during_shutdown = true;
    // Of each file that a compaction reads; 2 MiB by default.
    options.compaction_readahead_size = setup.limit_bytes / 256;
    rocksdb::BlockBasedTableOptions table;
    // An arena for each thread would double what it takes.
    (void)mallopt(M_ARENA_MAX, 2);
    cache_ = rocksdb::NewLRUCache(CacheBytes(0));
    table.block_cache = cache_;
    table.cache_index_and_filter_blocks = true;
    table.pin_l0_filter_and_index_blocks_in_cache = true;
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
    table.block_size = 4096;
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    rocksdb::DB* db = nullptr;
    Require(rocksdb::DB::Open(options, setup.folder + "/rocksdb", &db), "open");
    db_.reset(db);
    write_.disableWAL = true;
  }

  SpillResult Do(const SpillOrder& order) override {
    SpillResult result;
    switch (order.task) {
      case SpillTask::kLoad:
        result = Load();
        break;
      case SpillTask::kRun:
        SetCache(order.write_percent);
        result = order.batch > 1 ? ReadBatches(order) : Run(order);
        break;
      default:
        Settle(order.seconds);
    }
    memory_max_ = std::max(memory_max_, OwnMemoryBytes());
    result.memory_bytes_max = memory_max_;
    return result;
  }

 private:
  // Reads: a quarter is left to memtables, tables and what malloc adds. Writes: compaction takes as
  // much again. The whole then stays at the limit.
  std::uint64_t CacheBytes(std::uint32_t write_percent) const {
    return write_percent > 0 ? setup_.limit_bytes / 8 * 5 : setup_.limit_bytes / 4 * 3;
  }
  void SetCache(std::uint32_t write_percent) {
    if (cache_->GetCapacity() == CacheBytes(write_percent)) return;
    cache_->SetCapacity(CacheBytes(write_percent));
    (void)malloc_trim(0);
  }

  // Until all is in files; what they still have to be compacted is not counted.
  SpillResult Load() {
    const SpillMeter meter;
    SpillValue value;
    for (std::uint64_t id = 0; id < setup_.records; ++id) {
      Require(db_->Put(write_, SliceOf(SpillKey(id)), SliceOf(value.Of(id, 0))), "put");
    }
    Require(db_->Flush({}), "flush");
    SpillResult result;
    meter.End(static_cast<double>(setup_.records), &result);
    return result;
  }

  SpillResult Run(const SpillOrder& order) {
    return RunThreads(order, [&](std::uint32_t thread, double end, SpillResult& result) {
      SpillIds ids(setup_.records, order.zipf, ++runs_ * 1'000 + thread);
      SpillValue written;
      SpillValue read;
      rocksdb::PinnableSlice found;
      while (NowSeconds() < end) {
        const std::uint64_t id = ids.Next();
        const SpillKey key(id);
        ++result.operations;
        if (order.write_percent > 0 && ids.Below(100) < order.write_percent) {
          Require(db_->Put(write_, SliceOf(key), SliceOf(written.Of(id, 1))), "put");
          continue;
        }
        found.Reset();
        Require(db_->Get({}, db_->DefaultColumnFamily(), SliceOf(key), &found), "get");
        if (!read.Take(found.data(), found.size(), id)) ++result.wrong;
      }
    });
  }

  SpillResult ReadBatches(const SpillOrder& order) {
    return RunThreads(order, [&](std::uint32_t thread, double end, SpillResult& result) {
      SpillIds ids(setup_.records, order.zipf, ++runs_ * 1'000 + thread);
      SpillValue read;
      std::vector<std::uint64_t> batch(order.batch);
      std::vector<SpillKey> keys(order.batch);
      std::vector<rocksdb::Slice> slices(order.batch);
      std::vector<rocksdb::PinnableSlice> values(order.batch);
      std::vector<rocksdb::Status> statuses(order.batch);
      rocksdb::ReadOptions options;
      options.async_io = true;  // Where the library was built with io_uring; Debian's was not.
      while (NowSeconds() < end) {
        for (std::size_t i = 0; i < batch.size(); ++i) {
          keys[i] = SpillKey(batch[i] = ids.Next());
          slices[i] = SliceOf(keys[i]);
          values[i].Reset();
        }
        db_->MultiGet(options, db_->DefaultColumnFamily(), batch.size(), slices.data(),
                      values.data(), statuses.data());
        for (std::size_t i = 0; i < batch.size(); ++i) {
          Require(statuses[i], "multi-get");
          if (!read.Take(values[i].data(), values[i].size(), batch[i])) ++result.wrong;
        }
        result.operations += static_cast<double>(batch.size());
      }
    });
  }

  void Settle(double seconds) {
    const double end = NowSeconds() + seconds;
    Require(db_->Flush({}), "flush");
    while (NowSeconds() < end) {
      std::uint64_t pending = 0;
      std::uint64_t running = 0;
      db_->GetIntProperty("rocksdb.compaction-pending", &pending);
      db_->GetIntProperty("rocksdb.num-running-compactions", &running);
      if (pending == 0 && running == 0) return;
      usleep(20'000);
    }
  }

  const SpillSetup setup_;
  std::shared_ptr<rocksdb::Cache> cache_;
  std::unique_ptr<rocksdb::DB> db_;
  rocksdb::WriteOptions write_;
  std::atomic<std::uint64_t> runs_{0};  // Threads read ids of their own.
  double memory_max_ = 0;
};

}  // namespace

std::unique_ptr<Contender> MakeRocksdb(const SpillSetup& setup) {
  return std::make_unique<RocksdbPeer>(setup);
}
bool HasRocksdb() { return true; }
#else
bool HasRocksdb() { return false; }
std::unique_ptr<Contender> MakeRocksdb(const SpillSetup&) { return nullptr; }
#endif

}  // namespace tidepool::bench
