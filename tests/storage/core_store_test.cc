// Partitions that come and go, the ledger, shared words, several cores on one pool.
#include "storage/core_store.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/storage/store_fixture.h"

namespace tidepool::storage {
namespace {

PartitionId Id(std::uint32_t space, std::uint32_t index) {
  return PartitionId(NamespaceId(space), index);
}

void Fill(Partition& partition, int count, std::size_t value_bytes, std::uint64_t now_ms) {
  const std::string value(value_bytes, 'v');
  for (int i = 0; i < count; ++i) {
    const std::string key = "key" + std::to_string(i);
    REQUIRE(partition.hash()
                .Put(AsBytes(key), KeyHash(AsBytes(key)), AsBytes(value), {}, now_ms)
                .code == StatusCode::kOk);
  }
}

TEST_CASE("PartitionIsFoundUntilItIsDropped") {
  StoreFixture fixture;
  REQUIRE(fixture.core->Find(Id(1, 0)) == fixture.partition);
  REQUIRE(fixture.core->Find(Id(1, 1)) == nullptr);
  REQUIRE(fixture.core->AddPartition(Id(1, 0), Term(2), {}).code() == StatusCode::kAlreadyExists);
  fixture.core->DropPartition(Id(1, 0));
  REQUIRE(fixture.core->Find(Id(1, 0)) == nullptr);
  fixture.core->DropPartition(Id(1, 0));
  fixture.Settle();
  fixture.core->CheckInvariants();
}

TEST_CASE("PartitionsOfOneLogKeepTheirKeysApart") {
  StoreFixture fixture(TinyStore(1 << 20));
  Partition* other = fixture.core->AddPartition(Id(2, 3), Term(4), {}).value();
  fixture.Put("key", "one");
  other->hash().Put(AsBytes("key"), StoreFixture::Hash("key"), AsBytes("two"), {}, 1);
  REQUIRE(fixture.Text("key") == "one");
  const HashOutcome got = other->hash().Get(AsBytes("key"), StoreFixture::Hash("key"), 1);
  REQUIRE(AsText(got.value) == "two");
  REQUIRE(got.version.term() == Term(4));
}

TEST_CASE("DurablePartitionsNeedADevice") {
  StoreFixture fixture;
  PartitionOptions options;
  for (const Durability durability : {Durability::kAsync, Durability::kSync}) {
    options.durability = durability;
    REQUIRE(fixture.core->AddPartition(Id(2, 0), Term(1), options).code() ==
            StatusCode::kFailedPrecondition);
    REQUIRE(fixture.core->AddIncoming(Id(2, 0), Term(1), options).code() ==
            StatusCode::kFailedPrecondition);
  }
}

TEST_CASE("SmallPartitionsAreSmall") {
  StoreFixture fixture;
  for (std::uint32_t i = 0; i < 1'000; ++i) {
    REQUIRE(fixture.core->AddPartition(Id(5, i), Term(1), {}).ok());
  }
  // 4 KiB of buckets each, and a word.
  REQUIRE(fixture.core->usage().used_bytes < 1'000 * 4096 + (4 << 20));
}

TEST_CASE("DroppedPartitionGivesItsMemoryBackInSlices") {
  StoreFixture fixture(TinyStore(2 << 20));
  const std::uint64_t before = fixture.core->usage().used_bytes;
  Partition* partition = fixture.core->AddPartition(Id(2, 0), Term(1), {}).value();
  Fill(*partition, 3'000, 200, 1);
  Fill(*partition, 3, 20'000, 1);  // Extents.
  REQUIRE(fixture.core->usage().used_bytes > before + 600'000);
  fixture.core->DropPartition(Id(2, 0));
  int slices = 0;
  while (fixture.core->BackgroundSlice(0)) {
    if (++slices % 16 == 0) fixture.core->CheckInvariants();
    REQUIRE(slices < 1'000'000);
  }
  REQUIRE(slices > 10);
  const MemoryUsage usage = fixture.core->usage();
  REQUIRE(usage.live_bytes == 0);
  REQUIRE(usage.used_bytes - usage.ready_bytes <= before + 4 * 4096);
}

TEST_CASE("PartitionThatComesBackIsNotTheDroppedOne") {
  StoreFixture fixture(TinyStore(2 << 20));
  fixture.Put("key", "old");
  Fill(*fixture.partition, 2'000, 300, 1);
  fixture.core->DropPartition(Id(1, 0));
  fixture.partition = fixture.core->AddPartition(Id(1, 0), Term(7), {}).value();
  fixture.store = &fixture.partition->hash();
  REQUIRE(fixture.Get("key").code == StatusCode::kNotFound);
  // Old records of the same partition number are still in the log and in the way of compaction.
  for (int i = 0; i < 5'000; ++i) {
    REQUIRE(fixture.Put("new" + std::to_string(i % 500), std::string(200 + i % 300, 'n')).code ==
            StatusCode::kOk);
    if (i % 4 == 0) fixture.core->BackgroundSlice(0);
    if (i % 500 == 0) fixture.core->CheckInvariants();
  }
  fixture.Settle();
  REQUIRE(fixture.store->size() == 500);
  REQUIRE(fixture.Get("key0").code == StatusCode::kNotFound);
  fixture.core->CheckInvariants();
}

TEST_CASE("UnpromisableReserveIsRefused") {
  ArenaPoolOptions options;
  options.memory_bytes = 6 * options.block_bytes;
  const auto pool = ArenaPool::Create(options).value();
  const auto first = CoreStore::Create({}, pool.get(), &Clock::Real());
  REQUIRE(first.ok());
  REQUIRE(CoreStore::Create({}, pool.get(), &Clock::Real()).code() ==
          StatusCode::kResourceExhausted);
}

TEST_CASE("ReserveIsNotTakenByPuts") {
  StoreFixture fixture(TinyStore(64 * 4096));
  int i = 0;
  while (fixture.Put("key" + std::to_string(i), std::string(500, 'v')).code == StatusCode::kOk) ++i;
  const MemoryUsage usage = fixture.core->usage();
  REQUIRE(usage.used_bytes + usage.reserve_bytes <= usage.limit_bytes);
}

constexpr auto kAllGranted = [](const Partition&) { return true; };

TEST_CASE("LeaseThatIsExtendedInTimeLeavesTheGuards") {
  StoreFixture fixture;
  REQUIRE(fixture.core->shown_lease_ns() == 0);
  fixture.core->ShowLease(100, 50, kAllGranted);
  const std::uint64_t guard = fixture.partition->guard();
  fixture.core->ShowLease(200, 99, kAllGranted);
  REQUIRE(fixture.core->shown_lease_ns() == 200);
  REQUIRE(fixture.partition->guard() == guard);
}

TEST_CASE("LeaseThatHadRunOutChangesEachGuardAndOpensWhatIsGranted") {
  StoreFixture fixture;
  Partition* const other =
      fixture.core->AddPartition(PartitionId(NamespaceId(1), 9), Term(1), {}).value();
  fixture.core->ShowLease(100, 50, kAllGranted);
  const std::uint64_t guard = fixture.partition->guard();
  fixture.core->ShowLease(200, 100, [&](const Partition& each) { return &each != other; });
  REQUIRE(fixture.partition->guard() != guard);
  REQUIRE(fixture.partition->guard() != kGuardGone);
  REQUIRE(other->guard() == kGuardGone);
  REQUIRE(!fixture.core->ViewOf(*other).has_value());
}

TEST_CASE("FrozenPartitionStaysShutWhenALeaseComesBack") {
  StoreFixture fixture;
  fixture.partition->Freeze();
  fixture.core->ShowLease(200, 100, kAllGranted);
  REQUIRE(fixture.partition->guard() == kGuardGone);
}

// Its memory goes to other cores of the node, and readers may hold on to its roots.
TEST_CASE("CoreThatEndsShutsItsGuardsAndTakesItsLeaseBack") {
  StoreFixture fixture;
  fixture.core->ShowLease(~0ull, 1, kAllGranted);
  const DirectView view = fixture.core->ViewOf(*fixture.partition).value();
  const auto* root = reinterpret_cast<const SharedRoot*>(fixture.pool->base() + view.root);
  const auto* core = reinterpret_cast<const SharedRoot*>(fixture.pool->base() + view.core_root);
  REQUIRE(ServingEpochOf(root->word) == view.serving_epoch);
  fixture.core.reset();
  REQUIRE(root->word == kGuardGone);
  REQUIRE(core->word == 0);
}

// Under a term under which a client may have read it before.
TEST_CASE("IncomingPartitionIsShutFromItsFirstMoment") {
  StoreFixture fixture;
  const std::uint64_t serving_epoch = ServingEpochOf(fixture.partition->guard());
  const PartitionId id(NamespaceId(1), 9);
  Partition* const incoming = fixture.core->AddIncoming(id, Term(1), {}).value();
  REQUIRE(incoming->guard() == kGuardGone);
  REQUIRE(!fixture.core->ViewOf(*incoming).has_value());
  fixture.partition->SetTerm(Term(2));
  REQUIRE(ServingEpochOf(fixture.partition->guard()) == serving_epoch + 1);  // No epoch in between.
  Partition* const adopted = fixture.core->Adopt(id, Term(2));
  REQUIRE(fixture.core->ViewOf(*adopted).value().serving_epoch == ServingEpochOf(adopted->guard()));
}

TEST_CASE("TimeNeverGoesBack") {
  class Backwards : public Clock {
   public:
    std::uint64_t MonotonicNs() const override { return 1; }
    std::uint64_t WallMs() const override { return now_ms_--; }
    mutable std::uint64_t now_ms_ = 1'000;
  };
  const Backwards clock;
  const auto pool = ArenaPool::Create({}).value();
  const auto core = CoreStore::Create({}, pool.get(), &clock).value();
  const std::uint64_t first = core->NowMs();
  REQUIRE(core->NowMs() == first);
}

TEST_CASE("CoresWithTheirOwnThreadsShareOnePool") {
  ArenaPoolOptions options;
  options.block_bytes = 8192;
  options.memory_bytes = 1024 * 8192;
  options.arena_first_bytes = 32 * 8192;
  options.arena_bytes = 256 * 8192;
  const auto pool = ArenaPool::Create(options).value();
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (std::uint16_t number = 0; number < 3; ++number) {
    threads.emplace_back([&, number] {
      CoreStoreOptions core_options;
      core_options.core = CoreId(number);
      const auto core = CoreStore::Create(core_options, pool.get(), &Clock::Real()).value();
      Partition* partition = core->AddPartition(Id(1, number), Term(1), {}).value();
      for (int i = 0; i < 15'000; ++i) {
        const std::string key = "key" + std::to_string(i % 1'500);
        const std::string value(100 + static_cast<std::size_t>(i % 700), static_cast<char>(number));
        const HashOutcome put =
            partition->hash().Put(AsBytes(key), KeyHash(AsBytes(key)), AsBytes(value), {}, 1);
        if (put.code == StatusCode::kOk) {
          const HashOutcome got = partition->hash().Get(AsBytes(key), KeyHash(AsBytes(key)), 1);
          if (AsText(got.value) != value) ++wrong;
        } else if (put.code != StatusCode::kResourceExhausted) {
          ++wrong;
        }
        if (i % 32 == 0) core->BackgroundSlice(20'000);
      }
      core->CheckInvariants();
    });
  }
  for (std::thread& thread : threads) thread.join();
  REQUIRE(wrong == 0);
  REQUIRE(pool->usage().used_bytes == 0);
  REQUIRE(pool->usage().promised_bytes == 0);
}

}  // namespace
}  // namespace tidepool::storage
