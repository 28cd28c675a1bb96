// Tidepool's store in the spill bench: one owner core, as the daemon runs it, without network. Its
// clients are in a closed loop each; an operation that meets a record on the device is run again
// when that is there, as the daemon does.
#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>

#include "proto/base/check.h"
#include "proto/base/key_hash.h"
#include "proto/transport/spin_policy.h"
#include "storage/core_store.h"
#include "storage/nvm/volume.h"
#include "tests/bench/bench_process.h"
#include "tests/bench/spill/workload.h"

namespace tidepool::bench {
namespace {

using storage::HashOutcome;

// As in the daemon's core.
constexpr std::size_t kStage = 16;
constexpr std::uint64_t kSliceNs = 50'000;
constexpr std::uint64_t kSliceIntervalNs = 1'000'000;
// Beside the arenas, of the limit: buffers of 64 reads, and what the clients themselves hold.
constexpr std::uint64_t kBuffersBytes = 4ull << 20;
constexpr std::size_t kBusyReads = 64;
constexpr unsigned kWritesAtOnce = 4;

[[noreturn]] void Fail(const char* what, const Status& status) {
  std::fprintf(stderr, "spill_bench: %s: %s\n", what, status.ToString().c_str());
  std::exit(1);
}

class TidepoolStore final : public Contender {
 public:
  explicit TidepoolStore(const SpillSetup& setup) : setup_(setup) {
    storage::VolumeOptions volume_options;
    volume_options.directories = {setup.folder};
    volume_options.bytes = setup.device_bytes;
    // Most of the device is for records; what a daemon keeps beside them is not measured here.
    volume_options.layout.ring_bytes = 1ull << 20;
    volume_options.layout.catalog_area_bytes = 1ull << 20;
    volume_options.host = "bench";
    volume_options.node[0] = std::byte{1};
    auto volume = storage::Volume::Open(volume_options);
    if (!volume.ok()) Fail("device", volume.status());
    volume_ = *std::move(volume);

    storage::ArenaPoolOptions pool_options;
    pool_options.memory_bytes = setup.limit_bytes - kBuffersBytes;
    pool_options.prepare_in_background = true;  // As the daemon does.
    pool_ = storage::ArenaPool::Create(pool_options).value();
    storage::CoreStoreOptions core_options;
    core_options.volume = volume_.get();
    auto core = storage::CoreStore::Create(core_options, pool_.get(), &Clock::Real());
    if (!core.ok()) Fail("store", core.status());
    core_ = *std::move(core);
    store_ = &core_->AddPartition(PartitionId(NamespaceId(1), 0), Term(1), {}).value()->hash();
    for (const int descriptor : core_->device_descriptors()) {
      descriptors_.push_back({descriptor, POLLIN, 0});
    }
  }

  SpillResult Do(const SpillOrder& order) override {
    const storage::SpillCounters before = core_->counters().spill;
    SpillResult result;
    switch (order.task) {
      case SpillTask::kLoad:
        result = Load();
        break;
      case SpillTask::kRun:
        result = Run(order);
        break;
      case SpillTask::kOverwrite:
        result = Overwrite(order);
        break;
      case SpillTask::kResident:
        result = ReadResident(order);
        break;
      case SpillTask::kSettle:
        Settle(order.seconds);
    }
    const storage::SpillCounters& after = core_->counters().spill;
    result.device_reads = static_cast<double>(after.reads - before.reads);
    result.device_read_bytes = static_cast<double>(after.read_bytes - before.read_bytes);
    result.device_written_bytes = static_cast<double>(after.written_bytes - before.written_bytes);
    memory_max_ = std::max(memory_max_, OwnMemoryBytes());
    result.memory_bytes_max = memory_max_;
    return result;
  }

 private:
  struct Client {
    std::uint64_t id = 0;
    bool writes = false;
    SpillKey key;
    std::uint64_t hash = 0;
  };
  // Gives a client its next operation; false: there is none, and it has ended.
  using Next = std::function<bool(Client&)>;

  // ---- Operations.

  // Runs the client's operation, once more each time that what it waited for has come.
  void Attempt(std::uint32_t index) {
    Client& client = clients_[index];
    HashOutcome outcome;
    if (client.writes) {
      outcome = store_->Put(client.key.view(), client.hash, written_.Of(client.id, ++version_), {},
                            core_->NowMs());
    } else {
      outcome = store_->Get(client.key.view(), client.hash, core_->NowMs());
    }
    if (core_->blocked()) {
      const StatusCode lost = core_->TakeLost();
      if (lost != StatusCode::kOk) Fail("a record on the device", Status(lost, "is lost"));
      core_->Fetch([this, index] { Attempt(index); });
      return;
    }
    if (outcome.code == StatusCode::kResourceExhausted && core_->TakeRefused() &&
        core_->makes_room()) {
      wait_for_room_.push_back(index);
      return;
    }
    if (outcome.code != StatusCode::kOk) {
      FailOperation(client, outcome.code);
    }
    if (!client.writes && !read_.Take(outcome.value.data(), outcome.value.size(), client.id)) {
      ++wrong_;
    }
    ++operations_;
    ready_.push_back(index);
  }

  [[noreturn]] void FailOperation(const Client& client, StatusCode code) const {
    const storage::MemoryUsage usage = core_->usage();
    constexpr std::uint64_t kMiB = 1 << 20;
    Fail(client.writes ? "put" : "get",
         Status(code, std::to_string(usage.used_bytes / kMiB) + " MiB of DRAM in use, " +
                          std::to_string(usage.spilled_bytes / kMiB) +
                          " MiB on the device, of them " +
                          std::to_string(usage.spilled_live_bytes / kMiB) + " live, and " +
                          std::to_string(volume_->slots_free()) + " of " +
                          std::to_string(volume_->slot_count()) + " slots free"));
  }

  // Up to a stage of the clients that have no operation under way.
  unsigned StartOperations(const Next& next) {
    std::array<std::uint32_t, kStage> stage;
    std::size_t count = 0;
    while (count < kStage && !ready_.empty()) {
      const std::uint32_t index = ready_.front();
      ready_.pop_front();
      Client& client = clients_[index];
      if (!next(client)) {
        --active_;
        continue;
      }
      client.key = SpillKey(client.id);
      client.hash = KeyHash(client.key.view());
      store_->PrefetchBucket(client.hash);
      stage[count++] = index;
    }
    for (std::size_t i = 0; i < count; ++i) store_->PrefetchRecord(clients_[stage[i]].hash);
    for (std::size_t i = 0; i < count; ++i) Attempt(stage[i]);
    return static_cast<unsigned>(count);
  }

  // ---- The core's loop.

  unsigned PollDevices() {
    unsigned done = core_->Poll();
    for (std::size_t left = wait_for_room_.size();
         left > 0 && (core_->has_room() || !core_->makes_room()); --left) {
      const std::uint32_t index = wait_for_room_.front();
      wait_for_room_.pop_front();
      Attempt(index);
      ++done;
    }
    return done;
  }

  bool WorkInBackground(unsigned events) {
    const std::uint64_t now_ns = Clock::Real().MonotonicNs();
    if (events > 0 && now_ns < next_slice_ns_ && wait_for_room_.empty()) return false;
    next_slice_ns_ = now_ns + kSliceIntervalNs;
    return core_->BackgroundSlice(kSliceNs);
  }

  void Sleep() {
    if (!core_->SubmitToDevices()) return;
    (void)poll(descriptors_.data(), descriptors_.size(), 5);
  }

  void Loop(std::uint32_t clients, const Next& next) {
    clients_.assign(clients, {});
    ready_.clear();
    for (std::uint32_t i = 0; i < clients; ++i) ready_.push_back(i);
    active_ = clients;
    operations_ = 0;
    wrong_ = 0;
    transport::SpinPolicy spin;
    while (active_ > 0) {
      unsigned events = PollDevices();
      events += StartOperations(next);
      if (WorkInBackground(events)) ++events;
      if (events > 0) {
        spin.Found();
      } else if (spin.ShouldBlock()) {
        Sleep();
      }
    }
  }

  void End(const SpillMeter& meter, SpillResult* result) const {
    meter.End(operations_, result);
    result->wrong = wrong_;
  }

  // ---- Tasks.

  SpillResult Load() {
    const SpillMeter meter;
    std::uint64_t loaded = 0;
    Loop(kStage, [&](Client& client) {
      client.id = loaded;
      client.writes = true;
      return loaded++ < setup_.records;
    });
    WriteWhatIsLeft();
    SpillResult result;
    End(meter, &result);
    return result;
  }

  // A volatile namespace has no reason to write what fits into DRAM. For a load that ends on the
  // device as many bytes go to a free slot of it, and are flushed.
  void WriteWhatIsLeft() {
    const std::uint64_t bytes = pool_->block_bytes();
    auto queue = volume_->device(0).OpenQueue(kWritesAtOnce);
    if (!queue.ok()) Fail("device", queue.status());
    auto* data = static_cast<std::byte*>(std::aligned_alloc(storage::kDeviceBlockBytes, bytes));
    std::memset(data, 1, bytes);
    const std::uint64_t slot = volume_->AllocateSlot();
    if (slot == storage::kNoSlot) Fail("device", Status(StatusCode::kAborted, "full"));
    const auto reap = [](const storage::DeviceCompletion& completion) {
      if (completion.error != 0) Fail("write", Status(StatusCode::kDeviceError, "failed"));
    };
    const auto wait_below = [&](unsigned in_flight) {
      while ((*queue)->in_flight() >= in_flight) {
        (*queue)->Wait(1'000);
        (*queue)->Reap(reap);
      }
    };
    for (std::uint64_t left = core_->usage().segment_bytes / bytes; left > 0; --left) {
      wait_below(kWritesAtOnce);
      (void)(*queue)->Start({storage::DeviceOperation::kWrite, volume_->Place(slot).offset, data,
                             static_cast<std::uint32_t>(bytes), 0});
      (void)(*queue)->Submit(kWritesAtOnce);
    }
    wait_below(1);
    (void)(*queue)->Start({storage::DeviceOperation::kFlush, 0, nullptr, 0, 0});
    wait_below(1);
    volume_->FreeSlot(slot);
    std::free(data);
  }

  SpillResult Run(const SpillOrder& order) {
    SpillIds ids(setup_.records, order.zipf, ++runs_);
    const SpillMeter meter;
    const double end = NowSeconds() + order.seconds;
    bool over = false;
    std::uint32_t until_clock = 0;
    Loop(order.clients, [&](Client& client) {
      if (until_clock-- == 0) {
        until_clock = 15;
        over = over || NowSeconds() >= end;
      }
      if (over) return false;
      client.id = ids.Next();
      client.writes = order.write_percent > 0 && ids.Below(100) < order.write_percent;
      return true;
    });
    SpillResult result;
    End(meter, &result);
    return result;
  }

  SpillResult Overwrite(const SpillOrder& order) {
    SpillIds ids(setup_.records, order.zipf, ++runs_);
    const SpillMeter meter;
    std::uint64_t done = 0;
    Loop(order.clients, [&](Client& client) {
      client.id = ids.Next();
      client.writes = true;
      return done++ < order.updates;
    });
    SpillResult result;
    End(meter, &result);
    return result;
  }

  void Settle(double seconds) {
    const double end = NowSeconds() + seconds;
    for (int idle = 0; idle < 50 && NowSeconds() < end;) {
      const bool more = core_->BackgroundSlice(kSliceNs);
      idle = core_->Poll() == 0 && !more ? idle + 1 : 0;
    }
  }

  // ---- Records in DRAM beside a busy device.

  bool IsResident(const SpillKey& key) {
    (void)store_->Get(key.view(), KeyHash(key.view()), core_->NowMs());
    if (!core_->blocked()) return true;
    (void)core_->TakeLost();
    bool fetched = false;
    core_->Fetch([&] { fetched = true; });
    while (!fetched) core_->Poll();
    return false;
  }

  // Reads one record from the device, and then another.
  void ReadCold(SpillIds* ids) {
    if (!keep_busy_) {
      --busy_reads_;
      return;
    }
    for (;;) {
      const SpillKey key(ids->Next());
      (void)store_->Get(key.view(), KeyHash(key.view()), core_->NowMs());
      if (core_->blocked() && core_->TakeLost() == StatusCode::kOk) break;
    }
    core_->Fetch([this, ids] { cold_done_.push_back(ids); });
  }

  // Batches of 16 in stages, with the core's poll before each: what such a batch waits for.
  double MedianBatchUs(const std::vector<SpillKey>& resident, double seconds, SpillIds* ids) {
    std::vector<double> batches;
    const double end = NowSeconds() + seconds;
    while (NowSeconds() < end) {
      for (; !cold_done_.empty(); cold_done_.pop_back()) ReadCold(cold_done_.back());
      const std::uint64_t begin_ns = Clock::Real().MonotonicNs();
      (void)core_->Poll();
      std::array<const SpillKey*, kStage> keys;
      std::array<std::uint64_t, kStage> hashes;
      for (std::size_t i = 0; i < kStage; ++i) {
        keys[i] = &resident[ids->Below(resident.size())];
        hashes[i] = KeyHash(keys[i]->view());
        store_->PrefetchBucket(hashes[i]);
      }
      for (const std::uint64_t hash : hashes) store_->PrefetchRecord(hash);
      for (std::size_t i = 0; i < kStage; ++i) {
        const HashOutcome outcome = store_->Get(keys[i]->view(), hashes[i], core_->NowMs());
        TP_CHECK(outcome.code == StatusCode::kOk && !core_->blocked());
        (void)read_.Take(outcome.value.data(), outcome.value.size(), 0);
      }
      batches.push_back(static_cast<double>(Clock::Real().MonotonicNs() - begin_ns) / 1e3);
    }
    return MedianOf(std::move(batches));
  }

  SpillResult ReadResident(const SpillOrder& order) {
    Settle(5);
    SpillIds ids(setup_.records, false, ++runs_);
    // Those written last are in DRAM.
    std::vector<SpillKey> resident;
    for (std::uint64_t id = setup_.records; id-- > 0 && resident.size() < 10'000;) {
      if (const SpillKey key(id); IsResident(key)) resident.push_back(key);
    }
    if (resident.size() < 1'000) Fail("resident records", Status(StatusCode::kAborted, "none"));
    SpillResult result;
    const SpillMeter meter;
    result.quiet_us = MedianBatchUs(resident, order.seconds, &ids);
    keep_busy_ = true;
    busy_reads_ = kBusyReads;
    cold_done_.assign(kBusyReads, &ids);
    result.busy_us = MedianBatchUs(resident, order.seconds, &ids);
    keep_busy_ = false;
    while (busy_reads_ > 0) {
      for (; !cold_done_.empty(); cold_done_.pop_back()) ReadCold(cold_done_.back());
      (void)core_->Poll();
    }
    meter.End(0, &result);
    return result;
  }

  const SpillSetup setup_;
  std::unique_ptr<storage::Volume> volume_;
  std::unique_ptr<storage::ArenaPool> pool_;
  std::unique_ptr<storage::CoreStore> core_;
  storage::HashStore* store_ = nullptr;
  std::vector<pollfd> descriptors_;
  SpillValue written_;
  SpillValue read_;
  std::uint64_t version_ = 0;
  std::uint64_t runs_ = 0;
  double memory_max_ = 0;

  std::vector<Client> clients_;
  std::deque<std::uint32_t> ready_;
  std::deque<std::uint32_t> wait_for_room_;
  std::uint32_t active_ = 0;
  double operations_ = 0;
  double wrong_ = 0;
  std::uint64_t next_slice_ns_ = 0;

  bool keep_busy_ = false;
  std::size_t busy_reads_ = 0;
  std::vector<SpillIds*> cold_done_;
};

}  // namespace

std::unique_ptr<Contender> MakeTidepoolStore(const SpillSetup& setup) {
  return std::make_unique<TidepoolStore>(setup);
}

}  // namespace tidepool::bench
