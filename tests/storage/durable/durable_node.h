// A core with durable partitions on a device that loses and tears blocks within its rights. The
// test starts and crashes it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/clock.h"
#include "proto/base/key_hash.h"
#include "storage/core_store.h"
#include "storage/device/fault_device.h"
#include "storage/durable/log_check.h"
#include "storage/nvm/volume.h"

namespace tidepool::storage {

struct DurableNodeOptions {
  std::uint64_t block_bytes = 16 * 1024;
  std::uint64_t blocks = 64;
  std::uint64_t slots = 48;
  std::uint64_t ring_bytes = 16 * 1024;
  std::uint64_t device_seed = 1;
  CoreStoreOptions core;
};

class DurableNode {
 public:
  explicit DurableNode(const DurableNodeOptions& options) : options_(options) {
    volume_options_.layout.cores = 1;
    volume_options_.layout.slot_bytes = options.block_bytes;
    volume_options_.layout.slots_per_core_min = options.slots;
    volume_options_.layout.catalog_area_bytes = kDeviceBlockBytes;
    volume_options_.layout.ring_bytes = options.ring_bytes;
    volume_options_.keep_slots = true;
    volume_options_.incarnation = 0;
    device =
        std::make_shared<FaultDevice>(LayoutBytesMin(volume_options_.layout), options.device_seed);
  }
  ~DurableNode() { Stop(); }

  const DurableNodeOptions& options() const { return options_; }
  // Starts a new incarnation on the last incarnation's data.
  Status Start(const std::vector<RecoverablePartition>& partitions) {
    ++volume_options_.incarnation;
    auto opened = Volume::OpenDevices({device}, volume_options_);
    if (!opened.ok()) return opened.status();
    volume = *std::move(opened);
    ArenaPoolOptions pool_options;
    pool_options.block_bytes = options_.block_bytes;
    pool_options.memory_bytes = options_.blocks * options_.block_bytes;
    pool_options.arena_first_bytes = 16 * options_.block_bytes;
    pool_options.arena_bytes = 64 * options_.block_bytes;
    pool = ArenaPool::Create(pool_options).value();
    CoreStoreOptions core_options = options_.core;
    core_options.volume = volume.get();
    core = CoreStore::Create(core_options, pool.get(), &clock).value();
    auto recovered = core->Recover(partitions);
    if (!recovered.ok()) return recovered.status();
    report = *std::move(recovered);
    return OkStatus();
  }
  // Returns the result of `kvd check` on its core. REQUIRES: the core is stopped.
  Result<CoreCheck> Check(const std::vector<RecoverablePartition>& partitions) const {
    const auto opened = Volume::OpenDevicesForReading({device});
    if (!opened.ok()) return opened.status();
    return CheckCore(opened->get(), CoreId(0), partitions,
                     [](const FoundSegment*, const ReplayedRecord&) {});
  }
  // Without a clean stop.
  void Stop() {
    core.reset();
    volume.reset();
    pool.reset();
  }
  void Crash() {
    device->Crash();
    Stop();
  }

  void Work() {
    core->BackgroundSlice(1'000'000);
    core->Poll();
  }
  // Makes all data durable. Returns kOk, or the error.
  Status Persist() {
    Status status;
    bool ended = false;
    core->Persist([&](Status outcome) {
      status = std::move(outcome);
      ended = true;
    });
    while (!ended) Work();
    return status;
  }
  // Runs an operation as the daemon does, and gives up when there is no room for long.
  template <typename Operation>
  HashOutcome Run(Operation&& operation) {
    HashOutcome outcome;
    bool waits = true;
    for (int tries = 0; waits; ++tries) {
      outcome = operation();
      if (core->blocked()) outcome = RunFetched(operation);
      waits = outcome.code == StatusCode::kResourceExhausted && core->TakeRefused() &&
              core->makes_room() && tries < 50;
      if (waits) Work();
    }
    return outcome;
  }
  HashOutcome Put(Partition* partition, std::string_view key, std::string_view value,
                  std::uint64_t ttl_ms = kTtlNone) {
    PutOptions put;
    put.ttl_ms = ttl_ms;
    return Run([&] {
      return partition->hash().Put(AsBytes(key), Hash(key), AsBytes(value), put, core->NowMs());
    });
  }
  HashOutcome Delete(Partition* partition, std::string_view key) {
    return Run(
        [&] { return partition->hash().Delete(AsBytes(key), Hash(key), Lsn(), core->NowMs()); });
  }
  // "<CODE>": there is no value.
  std::string Text(Partition* partition, std::string_view key) {
    std::string text;
    const HashOutcome got = Run([&] {
      const HashOutcome each = partition->hash().Get(AsBytes(key), Hash(key), core->NowMs());
      if (!core->blocked() && each.code == StatusCode::kOk) {
        text = WholeText(partition->store(), each);
      }
      return each;
    });
    return got.code == StatusCode::kOk ? text : "<" + std::string(StatusCodeName(got.code)) + ">";
  }
  // Shapes of values with their own segments: with and without a remainder, the last segment full
  // or not.
  static constexpr std::uint64_t kLargeShapes = 5;
  std::uint64_t LargeBytes(std::uint64_t shape) const {
    const std::uint64_t segment = options_.block_bytes;
    const std::uint64_t bytes[kLargeShapes] = {segment / 2 + 100, segment - 300, segment + 500,
                                               2 * segment, 2 * segment + segment / 3};
    return bytes[shape];
  }
  // Large or not.
  static std::string WholeText(Store& store, const StoredValue& stored) {
    const ValueReader reader = ValueReader::Pin(store, stored);
    std::string text;
    for (Bytes part; !(part = reader.Part(text.size(), stored.value_bytes)).empty();) {
      text += AsText(part);
    }
    return text;
  }
  static std::uint64_t Hash(std::string_view key) { return KeyHash(AsBytes(key)); }
  void AdvanceMs(std::uint64_t by_ms) { clock.AdvanceNs(by_ms * 1'000'000); }

  std::shared_ptr<FaultDevice> device;
  ManualClock clock;
  std::unique_ptr<Volume> volume;
  std::unique_ptr<ArenaPool> pool;
  std::unique_ptr<CoreStore> core;
  RecoveryReport report;

 private:
  template <typename Operation>
  HashOutcome RunFetched(Operation& operation) {
    HashOutcome outcome;
    if (const StatusCode lost = core->TakeLost(); lost != StatusCode::kOk) {
      outcome.code = lost;
      return outcome;
    }
    bool ran = false;
    const std::function<void()> run = [&] {
      outcome = operation();
      if (core->blocked()) {
        const StatusCode lost = core->TakeLost();
        if (lost == StatusCode::kOk) return core->Fetch(run);
        outcome.code = lost;
      }
      ran = true;
    };
    core->Fetch(run);
    while (!ran) Work();
    return outcome;
  }

  const DurableNodeOptions options_;
  VolumeOptions volume_options_;
};

}  // namespace tidepool::storage
