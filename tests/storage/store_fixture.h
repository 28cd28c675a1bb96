// A store of a core with a clock that the test moves, and short forms of its operations.
#pragma once

#include <catch2/catch.hpp>

#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <type_traits>

#include "proto/base/clock.h"
#include "proto/base/key_hash.h"
#include "storage/core_store.h"
#include "storage/device/fault_device.h"
#include "storage/nvm/volume.h"

namespace tidepool::storage {

struct StoreOptions {
  std::uint64_t memory_bytes = 64ull << 20;
  std::uint64_t block_bytes = 2ull << 20;
  std::uint64_t arena_first_bytes = 16ull << 20;
  std::uint64_t arena_bytes = 256ull << 20;
  CoreStoreOptions core;
  PartitionOptions partition;
  // Above 0: records go to a device in memory with this number of slots.
  std::uint64_t slots = 0;
  std::uint64_t device_seed = 1;
  // Null: the fixture's own, which the test moves. Must outlive it.
  const Clock* clock = nullptr;
};

// Tiny segments: many rolls, compactions and index blocks with little data.
inline StoreOptions TinyStore(std::uint64_t memory_bytes, std::uint64_t block_bytes = 4096) {
  StoreOptions options;
  options.memory_bytes = memory_bytes;
  options.block_bytes = block_bytes;
  options.arena_first_bytes = 16 * block_bytes;
  options.arena_bytes = 64 * block_bytes;
  return options;
}

struct StoreFixture {
  explicit StoreFixture(const StoreOptions& options = {}) {
    ArenaPoolOptions pool_options;
    pool_options.memory_bytes = options.memory_bytes;
    pool_options.block_bytes = options.block_bytes;
    pool_options.arena_first_bytes = options.arena_first_bytes;
    pool_options.arena_bytes = options.arena_bytes;
    pool = ArenaPool::Create(pool_options).value();
    CoreStoreOptions core_options = options.core;
    if (options.slots > 0) core_options.volume = OpenVolume(options);
    core = CoreStore::Create(core_options, pool.get(),
                             options.clock != nullptr ? options.clock : &clock)
               .value();
    partition =
        core->AddPartition(PartitionId(NamespaceId(1), 0), Term(1), options.partition).value();
    if (partition->IsOneOf(kRecordKinds)) store = &partition->hash();
  }

  // Runs an operation as the daemon does: again when its records have been fetched, or when there
  // is room. The value of an outcome that was fetched is copied, and lives until the next call.
  static constexpr int kPollsMax = 1'000'000;
  static constexpr int kPollsUntilRefusal = 20'000;
  template <typename Operation>
  auto Run(Operation&& operation) {
    auto outcome = operation();
    bool lacks_room = core->refused();
    bool ran = false;
    const std::function<void()> again = [&] {
      outcome = operation();
      if (core->blocked() && (lost = core->TakeLost()) == StatusCode::kOk) {
        return core->Fetch(again);
      }
      if constexpr (std::is_same_v<decltype(outcome), HashOutcome>) KeepFetched(&outcome);
      lacks_room = core->refused();
      ran = true;
    };
    for (;;) {
      ran = false;
      if (core->blocked()) {
        lost = core->TakeLost();
        if (lost != StatusCode::kOk) return outcome;
        core->Fetch(again);
        PollUntil([&] { return ran; });
        ++fetches;
      } else if (IsRefused(outcome) && lacks_room) {
        RunWithRoom(again);
        PollUntil([&] { return ran; });
        ++waits_for_room;
      } else {
        (void)core->TakeRefused();
        return outcome;
      }
    }
  }
  template <typename Outcome>
  static bool IsRefused(const Outcome& outcome) {
    if constexpr (requires { outcome.version; }) {
      return outcome.code == StatusCode::kResourceExhausted;
    }
    return false;
  }
  // A loop without a reservation would not end on a full device: only the line of reservations
  // finds out that no core can make room.
  void RunWithRoom(const std::function<void()>& run) {
    const Refusal refusal = core->TakeRefused();
    const bool has_own = refusal.waits != nullptr;  // A value's, which its writer holds.
    const std::shared_ptr<Reservation> room =
        has_own ? refusal.waits : core->Reserve(Reservation::Kind::kOperation, refusal.blocks);
    for (int polls = 1; room->waits(); ++polls) {
      REQUIRE(polls < kPollsMax);
      if (core->Poll() == 0) core->BackgroundSlice(1'000'000);
      if (clock_goes_on && polls % 1'000 == 0) AdvanceMs(10);
      // Like the operation's deadline.
      if (!clock_goes_on && polls == kPollsUntilRefusal) room->Cancel();
    }
    const RoomScope scope(*core, has_own ? nullptr : room.get(), room->refused());
    run();
  }
  template <typename IsDone>
  void PollUntil(IsDone&& is_done) {
    // The clock stands still here: nothing that waits too long is given up.
    for (int polls = 0; !is_done(); ++polls) {
      REQUIRE(polls < kPollsMax);
      if (core->Poll() == 0) core->BackgroundSlice(1'000'000);
    }
  }

  HashOutcome Put(std::string_view key, std::string_view value, const PutOptions& options = {}) {
    return Run([&] {
      return store->Put(AsBytes(key), Hash(key), AsBytes(value), options, core->NowMs());
    });
  }
  HashOutcome Get(std::string_view key) {
    return Run([&] { return store->Get(AsBytes(key), Hash(key), core->NowMs()); });
  }
  HashOutcome Delete(std::string_view key, Lsn if_version = {}) {
    return Run([&] { return store->Delete(AsBytes(key), Hash(key), if_version, core->NowMs()); });
  }
  HashOutcome Take(std::string_view key) {
    return Run([&] { return store->Take(AsBytes(key), Hash(key), core->NowMs()); });
  }
  HashOutcome Append(std::string_view key, std::string_view suffix) {
    return Run(
        [&] { return store->Append(AsBytes(key), Hash(key), AsBytes(suffix), core->NowMs()); });
  }
  HashOutcome Swap(std::string_view key, std::string_view expected, std::string_view desired) {
    return Run([&] {
      return store->CompareAndSwap(AsBytes(key), Hash(key), AsBytes(expected), AsBytes(desired),
                                   core->NowMs());
    });
  }
  HashOutcome Expire(std::string_view key, std::uint64_t ttl_ms) {
    return Run([&] { return store->Expire(AsBytes(key), Hash(key), ttl_ms, core->NowMs()); });
  }
  HashOutcome Ttl(std::string_view key) {
    return Run([&] { return store->Ttl(AsBytes(key), Hash(key), core->NowMs()); });
  }
  HashOutcome Add(std::string_view key, std::int64_t by) {
    return Run([&] {
      return store->FetchUpdate(AsBytes(key), Hash(key), UpdateKind::kAdd, CounterType::kI64,
                                static_cast<std::uint64_t>(by), core->NowMs());
    });
  }
  // The value's text, extents included; "<CODE>" if there is none.
  std::string Text(std::string_view key) {
    const HashOutcome outcome = Get(key);
    if (outcome.code != StatusCode::kOk) {
      return "<" + std::string(StatusCodeName(outcome.code)) + ">";
    }
    return Text(outcome);
  }
  std::string Text(const HashOutcome& outcome) {
    if (outcome.extent == nullptr) return std::string(AsText(outcome.value));
    const ValueReader reader = ValueReader::Pin(*store, outcome);
    std::string text;
    while (text.size() < outcome.value_bytes) {
      text += AsText(reader.Part(text.size(), outcome.value_bytes));
    }
    return text;
  }
  void AdvanceMs(std::uint64_t by_ms) { clock.AdvanceNs(by_ms * 1'000'000); }
  // Runs background work until none is left (the test's clock stands still, so slices do not end by
  // time).
  void Settle() {
    while (core->BackgroundSlice(1'000'000)) {
    }
  }
  static std::uint64_t Hash(std::string_view key) { return KeyHash(AsBytes(key)); }

  Volume* OpenVolume(const StoreOptions& options) {
    VolumeOptions volume_options;
    volume_options.layout.cores = 1;
    volume_options.layout.slot_bytes = options.block_bytes;
    volume_options.layout.slots_per_core_min = options.slots;
    volume_options.layout.catalog_area_bytes = kDeviceBlockBytes;
    volume_options.layout.ring_bytes = kDeviceBlockBytes;
    device =
        std::make_shared<FaultDevice>(LayoutBytesMin(volume_options.layout), options.device_seed);
    volume = Volume::OpenDevices({device}, volume_options).value();
    return volume.get();
  }
  void KeepFetched(HashOutcome* outcome) {
    if (outcome->extent != nullptr) return;
    fetched_value.assign(AsText(outcome->value));
    outcome->value = AsBytes(fetched_value);
  }

  ManualClock clock;
  // The clock runs while an operation waits for room, because a core seals hardly used segments
  // only each 100 ms. False, for models that count the time: the operation is refused instead.
  bool clock_goes_on = false;
  std::shared_ptr<FaultDevice> device;  // With slots only.
  std::unique_ptr<Volume> volume;
  std::uint64_t fetches = 0;         // Times that an operation had to be run again,
  std::uint64_t waits_for_room = 0;  // and that it had to wait for memory.
  // Reason why the last operation on an unreadable record failed.
  StatusCode lost = StatusCode::kOk;
  std::string fetched_value;
  std::unique_ptr<ArenaPool> pool;
  std::unique_ptr<CoreStore> core;
  Partition* partition = nullptr;
  HashStore* store = nullptr;  // Null if the partition is of another kind.
};

// Returns the seed of a random test: TP_TEST_SEED or a fresh seed. The caller prints it.
inline std::uint64_t TestSeed() {
  if (const char* given = std::getenv("TP_TEST_SEED")) return std::strtoull(given, nullptr, 10);
  return std::random_device{}();
}

}  // namespace tidepool::storage
