// A bloom partition on its core: versions, accounts, union in pieces, and its end.
#include "storage/bloom_store.h"

#include <catch2/catch.hpp>

#include <set>
#include <vector>

#include "tests/storage/store_fixture.h"
#include "tests/support/random.h"

namespace tidepool::storage {
namespace {

PartitionOptions BloomOptions(std::uint64_t bytes) {
  PartitionOptions options;
  options.kind = Kind::kBloom;
  options.filter = FilterShape{bytes / kSplitBlockBytes};
  return options;
}

Partition* AddBloom(StoreFixture& fixture, std::uint32_t space, std::uint64_t bytes) {
  return fixture.core
      ->AddPartition(PartitionId(NamespaceId(space), 0), Term(1), BloomOptions(bytes))
      .value();
}

TEST_CASE("EachDistinctValueIsToldNewOnceAndChangesTheVersion") {
  test::Random random("EachDistinctValueIsToldNewOnceAndChangesTheVersion");
  StoreFixture fixture;
  Partition* const partition = AddBloom(fixture, 2, 1 << 20);
  BloomStore& store = partition->bloom();
  std::vector<std::uint64_t> values(10'000);
  for (std::uint64_t& value : values) value = random.Word();
  std::set<std::uint64_t> told;
  std::uint64_t distinct = 0;
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 20'000; ++i) {
    const std::uint64_t hash = values[random.Below(values.size())];
    const Lsn before = partition->last_lsn();
    const bool is_new = store.InsertAndTell(hash);
    REQUIRE((partition->last_lsn() > before) == is_new);
    if (is_new) REQUIRE(told.insert(hash).second);
    distinct += seen.insert(hash).second ? 1 : 0;
    REQUIRE(store.Contains(hash));
  }
  // 800 bits per value: a filter that errs once here is broken.
  REQUIRE(told.size() == distinct);
  REQUIRE(store.size() == Approx(double(distinct)).epsilon(0.02));
  fixture.core->CheckInvariants();
}

TEST_CASE("OneValueIsEnoughForAStoreThatIsNotEmpty") {
  StoreFixture fixture;
  for (const std::uint64_t bytes : {4096ull, 65536ull, 8ull << 20}) {
    Partition* const partition = AddBloom(fixture, 2, bytes);
    REQUIRE(partition->store().size() == 0);
    partition->bloom().InsertAndTell(12345);
    REQUIRE(partition->store().size() == 1);
    fixture.core->DropPartition(partition->id());
    fixture.Settle();
  }
}

TEST_CASE("AFilterIsInTheAccountsUntilItsPartitionIsDroppedAndFreed") {
  StoreFixture fixture;
  fixture.Settle();
  const MemoryUsage before = fixture.core->usage();
  constexpr std::uint64_t kBytes = (5 << 20) + 3 * 65536;
  Partition* const partition = AddBloom(fixture, 2, kBytes);
  partition->bloom().InsertAndTell(99);
  fixture.Put("key", "value");
  fixture.core->CheckInvariants();
  const MemoryUsage with = fixture.core->usage();
  REQUIRE(with.index_bytes - before.index_bytes == kBytes);
  REQUIRE(partition->store().payload_bytes() == kBytes);
  fixture.Settle();  // Zeroes the rest.
  REQUIRE(partition->bloom().filter().BlockOffset(0) != 0);
  REQUIRE(partition->bloom().Contains(99));
  fixture.core->CheckInvariants();
  fixture.core->DropPartition(partition->id());
  fixture.core->CheckInvariants();
  fixture.Settle();
  fixture.core->CheckInvariants();
  REQUIRE(fixture.core->usage().index_bytes == before.index_bytes);
  REQUIRE(fixture.Text("key") == "value");
}

TEST_CASE("APartitionWhoseFilterDoesNotFitIsRefused") {
  StoreFixture fixture;  // 64 MiB.
  const MemoryUsage before = fixture.core->usage();
  const auto refused =
      fixture.core->AddPartition(PartitionId(NamespaceId(2), 0), Term(1), BloomOptions(80 << 20));
  REQUIRE(refused.code() == StatusCode::kResourceExhausted);
  REQUIRE(fixture.core->usage().used_bytes == before.used_bytes);
  REQUIRE(fixture.core->Find(PartitionId(NamespaceId(2), 0)) == nullptr);
}

TEST_CASE("UnionInPiecesIsTheUnionAndMayBeRepeated") {
  test::Random random("UnionInPiecesIsTheUnionAndMayBeRepeated");
  StoreFixture fixture;
  BloomStore& to = AddBloom(fixture, 2, 2 << 20)->bloom();
  Partition* const from = AddBloom(fixture, 3, 2 << 20);
  std::vector<std::uint64_t> hashes;
  for (int i = 0; i < 300; ++i) {
    hashes.push_back(random.Word());
    (i < 150 ? to : from->bloom()).InsertAndTell(hashes.back());
  }
  for (int repeat = 0; repeat < 2; ++repeat) {
    const Lsn before = fixture.core->Find(PartitionId(NamespaceId(2), 0))->last_lsn();
    std::uint64_t block = 0;
    int pieces = 1;
    while (to.UnionSlice(from->bloom(), &block, 5)) ++pieces;
    REQUIRE(block == to.filter().block_count());
    REQUIRE(pieces > 1);
    const Lsn after = fixture.core->Find(PartitionId(NamespaceId(2), 0))->last_lsn();
    REQUIRE((after > before) == (repeat == 0));
  }
  for (const std::uint64_t hash : hashes) REQUIRE(to.Contains(hash));
  REQUIRE(to.size() == Approx(300).margin(3));
  fixture.core->CheckInvariants();
}

}  // namespace
}  // namespace tidepool::storage
