// Changes acknowledged by `sync` are there after a crash, without a checkpoint.
#include "storage/durable/commit_ring.h"

#include <catch2/catch.hpp>

#include "tests/storage/durable/durable_node.h"

namespace tidepool::storage {
namespace {

const PartitionId kId(NamespaceId(1), 0);

PartitionOptions Sync() {
  PartitionOptions options;
  options.durability = Durability::kSync;
  return options;
}

std::string KeyOf(int i) { return "key" + std::to_string(i); }

Partition* First(DurableNode& node) {
  REQUIRE(node.Start({}).ok());
  return node.core->AddPartition(kId, Term(1), Sync()).value();
}

Partition* Again(DurableNode& node) {
  const Status started = node.Start({{kId, Term(1), Sync()}});
  INFO(started.ToString());
  REQUIRE(started.ok());
  Partition* partition = node.core->Adopt(kId, Term(2));
  REQUIRE(partition != nullptr);
  node.core->CheckInvariants();
  return partition;
}

DurableNodeOptions WithoutCheckpoints(std::uint64_t ring_bytes = 1 << 20) {
  DurableNodeOptions options;
  options.core.checkpoint_interval_ms = 1'000'000;
  options.ring_bytes = ring_bytes;
  options.slots = 200;
  options.blocks = 100;
  return options;
}

// Waits until all changes of this partition may be acknowledged.
void Commit(DurableNode& node, const Partition& partition) {
  for (int i = 0; node.core->TakeCommitWait(partition) != 0; ++i) {
    REQUIRE(i < 100'000);
    node.Work();
  }
}

TEST_CASE("WhatWasCommittedIsThereWithoutACheckpoint") {
  DurableNode node(WithoutCheckpoints());
  Partition* partition = First(node);
  for (int i = 0; i < 300; ++i) node.Put(partition, KeyOf(i), "value" + std::to_string(i));
  for (int i = 0; i < 300; i += 3) node.Delete(partition, KeyOf(i));
  node.Put(partition, "key1", "again");
  REQUIRE(node.core->TakeCommitWait(*partition) != 0);
  Commit(node, *partition);
  CHECK(node.core->durable_position() == 401);
  CHECK(node.core->counters().checkpoint.checkpoints == 1);
  // Many changes shared a write.
  CHECK(node.core->counters().commit.commits < 100);
  const Lsn last = partition->last_lsn();
  node.Crash();
  partition = Again(node);
  CHECK(node.report.partitions[0].last_lsn == last);
  CHECK(node.report.partitions[0].records == 200);
  CHECK(node.Text(partition, "key1") == "again");
  for (int i = 2; i < 300; ++i) {
    const std::string value = "value" + std::to_string(i);
    REQUIRE(node.Text(partition, KeyOf(i)) == (i % 3 == 0 ? "<NOT_FOUND>" : value));
  }
  node.Crash();
  partition = Again(node);
  CHECK(node.report.partitions[0].records == 200);
}

TEST_CASE("AReadOfWhatIsNotCommittedWaitsToo") {
  DurableNode node(WithoutCheckpoints());
  Partition* partition = First(node);
  node.Put(partition, "key", "value");
  CHECK(node.Text(partition, "key") == "value");
  CHECK(node.core->TakeCommitWait(*partition) == 1);
  Commit(node, *partition);
  CHECK(node.core->durable_position() == 1);
  CHECK(node.core->TakeCommitWait(*partition) == 0);
}

TEST_CASE("OtherPartitionsDoNotWait") {
  DurableNode node(WithoutCheckpoints());
  Partition* partition = First(node);
  Partition* other = node.core->AddPartition(PartitionId(NamespaceId(2), 0), Term(1), {}).value();
  node.Put(partition, "key", "value");
  node.Put(other, "key", "value");
  CHECK(node.core->TakeCommitWait(*other) == 0);
}

TEST_CASE("TheRingGoesRoundAndCheckpointsGiveItsRoomBack") {
  DurableNode node(WithoutCheckpoints(64 * 1024));
  Partition* partition = First(node);
  for (int round = 0; round < 40; ++round) {
    for (int i = 0; i < 20; ++i) {
      const std::string value(static_cast<std::size_t>(100 + i * 10),
                              static_cast<char>('a' + round % 26));
      REQUIRE(node.Put(partition, KeyOf(i), value).code == StatusCode::kOk);
    }
    Commit(node, *partition);
  }
  CHECK(node.core->counters().commit.written_bytes > 3 * 64 * 1024);
  CHECK(node.core->counters().checkpoint.checkpoints > 3);
  node.Crash();
  partition = Again(node);
  for (int i = 0; i < 20; ++i) {
    CHECK(node.Text(partition, KeyOf(i)) ==
          std::string(static_cast<std::size_t>(100 + i * 10), static_cast<char>('a' + 39 % 26)));
  }
}

TEST_CASE("WhatIsTooLargeForTheRingIsDurableWithACheckpoint") {
  DurableNode node(WithoutCheckpoints(16 * 1024));
  Partition* partition = First(node);
  node.Put(partition, "large", std::string(6'000, 'l'));
  node.Put(partition, "small", "s");
  Commit(node, *partition);
  CHECK(node.core->counters().checkpoint.checkpoints == 2);
  node.Crash();
  partition = Again(node);
  CHECK(node.Text(partition, "large") == std::string(6'000, 'l'));
  CHECK(node.Text(partition, "small") == "s");
}

TEST_CASE("AFailedCommitIsNeverAcknowledged") {
  DurableNode node(WithoutCheckpoints());
  Partition* partition = First(node);
  node.Put(partition, "key", "committed");
  Commit(node, *partition);
  FaultRule rule;
  rule.operation = DeviceOperation::kWriteThrough;
  rule.error = EIO;
  node.device->AddRule(rule);
  node.Put(partition, "key", "not committed");
  for (int i = 0; i < 1'000 && node.core->commit_failed() == StatusCode::kOk; ++i) node.Work();
  CHECK(node.core->commit_failed() == StatusCode::kDeviceError);
  node.device->ClearRules();
  for (int i = 0; i < 1'000; ++i) node.Work();
  CHECK(node.core->durable_position() == 1);
  CHECK(node.core->TakeCommitWait(*partition) == 2);
  CHECK(node.Persist().code() == StatusCode::kDeviceError);
}

TEST_CASE("ADamagedCommitBeforeALaterOneIsALoss") {
  DurableNode node(WithoutCheckpoints());
  Partition* partition = First(node);
  for (int i = 0; i < 5; ++i) {
    node.Put(partition, KeyOf(i), "value");
    Commit(node, *partition);
  }
  const std::uint64_t ring = node.volume->layout(0).RingOffset(0);
  node.Crash();
  SECTION("in the middle") {
    node.device->FlipBit(ring + 2 * kDeviceBlockBytes + 100, 1);
    REQUIRE(node.Start({{kId, Term(1), Sync()}}).ok());
    CHECK(node.report.partitions[0].lost == StatusCode::kDataLoss);
  }
  SECTION("the last one is taken for a torn one") {
    node.device->FlipBit(ring + 4 * kDeviceBlockBytes + 100, 1);
    REQUIRE(node.Start({{kId, Term(1), Sync()}}).ok());
    CHECK(node.report.partitions[0].lost == StatusCode::kOk);
    CHECK(node.report.partitions[0].records == 4);
  }
}

TEST_CASE("ATornCommitStaysGoneThoughItsBytesComeBack") {
  DurableNode node(WithoutCheckpoints());
  Partition* partition = First(node);
  node.Put(partition, "key", "first");
  Commit(node, *partition);
  node.Put(partition, "key", std::string(2'000, 'x'));
  Commit(node, *partition);
  const std::uint64_t sector =
      node.volume->layout(0).RingOffset(0) + kDeviceBlockBytes + 2 * kFaultSectorBytes;
  node.Crash();
  node.device->FlipBit(sector, 1);
  partition = Again(node);
  REQUIRE(node.Text(partition, "key") == "first");
  node.Crash();
  // Like a write of the next commit of which only this sector reached the device.
  node.device->FlipBit(sector, 1);
  partition = Again(node);
  CHECK(node.Text(partition, "key") == "first");
}

TEST_CASE("ADropIsNotUndoneByWhatTheRingHasOfBefore") {
  DurableNode node(WithoutCheckpoints());
  Partition* partition = First(node);
  node.Put(partition, "old", "value");
  Commit(node, *partition);
  node.core->DropPartition(kId);
  partition = node.core->AddPartition(kId, Term(1), Sync()).value();
  CHECK(node.core->TakeCommitWait(*partition) != 0);
  node.Put(partition, "new", "value");
  Commit(node, *partition);
  for (int life = 0; life < 2; ++life) {
    node.Crash();
    partition = Again(node);
    CHECK(node.report.partitions[0].records == 1);
    CHECK(node.Text(partition, "old") == "<NOT_FOUND>");
    CHECK(node.Text(partition, "new") == "value");
  }
}

TEST_CASE("SyncNeedsARecoveredVolume") {
  DurableNode node({});
  REQUIRE(node.Start({}).ok());
  CoreStoreOptions options;
  options.core = CoreId(0);
  options.volume = node.volume.get();
  node.core.reset();
  const auto core = CoreStore::Create(options, node.pool.get(), &node.clock).value();
  CHECK(core->AddPartition(kId, Term(1), Sync()).code() == StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace tidepool::storage
