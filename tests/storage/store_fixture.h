// A store of one core with a clock that the test moves, and short forms of its operations.
#pragma once

#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <string_view>

#include "proto/base/clock.h"
#include "proto/base/key_hash.h"
#include "storage/core_store.h"

namespace tidepool::storage {

struct StoreOptions {
  std::uint64_t memory_bytes = 64ull << 20;
  std::uint64_t block_bytes = 2ull << 20;
  std::uint64_t arena_first_bytes = 16ull << 20;
  std::uint64_t arena_bytes = 256ull << 20;
  CoreStoreOptions core;
  PartitionOptions partition;
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
    core = CoreStore::Create(options.core, pool.get(), &clock).value();
    partition =
        core->AddPartition(PartitionId(NamespaceId(1), 0), Term(1), options.partition).value();
    if (partition->IsOneOf(kRecordKinds)) store = &partition->hash();
  }

  HashOutcome Put(std::string_view key, std::string_view value, const PutOptions& options = {}) {
    return store->Put(AsBytes(key), Hash(key), AsBytes(value), options, core->NowMs());
  }
  HashOutcome Get(std::string_view key) {
    return store->Get(AsBytes(key), Hash(key), core->NowMs());
  }
  HashOutcome Delete(std::string_view key, Lsn if_version = {}) {
    return store->Delete(AsBytes(key), Hash(key), if_version, core->NowMs());
  }
  HashOutcome Take(std::string_view key) {
    return store->Take(AsBytes(key), Hash(key), core->NowMs());
  }
  HashOutcome Append(std::string_view key, std::string_view suffix) {
    return store->Append(AsBytes(key), Hash(key), AsBytes(suffix), core->NowMs());
  }
  HashOutcome Swap(std::string_view key, std::string_view expected, std::string_view desired) {
    return store->CompareAndSwap(AsBytes(key), Hash(key), AsBytes(expected), AsBytes(desired),
                                 core->NowMs());
  }
  HashOutcome Expire(std::string_view key, std::uint64_t ttl_ms) {
    return store->Expire(AsBytes(key), Hash(key), ttl_ms, core->NowMs());
  }
  HashOutcome Ttl(std::string_view key) {
    return store->Ttl(AsBytes(key), Hash(key), core->NowMs());
  }
  HashOutcome Add(std::string_view key, std::int64_t by) {
    return store->FetchUpdate(AsBytes(key), Hash(key), UpdateKind::kAdd, CounterType::kI64,
                              static_cast<std::uint64_t>(by), core->NowMs());
  }
  // The value's text, extents included; "<CODE>" when there is none.
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
  // Background work until none is left (the test's clock stands still, so slices do not end by
  // time).
  void Settle() {
    while (core->BackgroundSlice(1'000'000)) {
    }
  }
  static std::uint64_t Hash(std::string_view key) { return KeyHash(AsBytes(key)); }

  ManualClock clock;
  std::unique_ptr<ArenaPool> pool;
  std::unique_ptr<CoreStore> core;
  Partition* partition = nullptr;
  HashStore* store = nullptr;  // Null if the partition is of another kind.
};

// The seed of a random test: TIDEPOOL_TEST_SEED or a fresh one. The caller prints it.
inline std::uint64_t TestSeed() {
  if (const char* given = std::getenv("TIDEPOOL_TEST_SEED"))
    return std::strtoull(given, nullptr, 10);
  return std::random_device{}();
}

}  // namespace tidepool::storage
