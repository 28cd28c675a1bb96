// The check reports a core's remains as recovery will find them, and names the damaged parts.
// (durable_history_test.cc compares both after each of its crashes.)
#include "storage/durable/log_check.h"

#include <catch2/catch.hpp>

#include "tests/storage/durable/durable_node.h"

namespace tidepool::storage {
namespace {

const PartitionId kAsyncId(NamespaceId(1), 0);
const PartitionId kSyncId(NamespaceId(1), 1);

PartitionOptions With(Durability durability) {
  PartitionOptions options;
  options.durability = durability;
  return options;
}

const std::vector<RecoverablePartition> kWanted = {{kAsyncId, Term(1), With(Durability::kAsync)},
                                                   {kSyncId, Term(1), With(Durability::kSync)}};

// Two checkpointed keys of each partition, and another key of the sync partition in the ring.
struct Fixture {
  Fixture() {
    REQUIRE(node.Start({}).ok());
    Partition* async = node.core->AddPartition(kAsyncId, Term(1), kWanted[0].options).value();
    Partition* sync = node.core->AddPartition(kSyncId, Term(1), kWanted[1].options).value();
    for (Partition* each : {async, sync}) {
      node.Put(each, "a", "1");
      node.Put(each, "b", "22");
    }
    REQUIRE(node.Persist().ok());
    node.Put(sync, "c", "4");
    for (int i = 0; node.core->TakeCommitWait(*sync) != 0; ++i) {
      REQUIRE(i < 100'000);
      node.Work();
    }
    layout = node.volume->layout(0);
    node.Crash();
  }
  CoreCheck Check() {
    auto check = node.Check(kWanted);
    REQUIRE(check.ok());
    return *std::move(check);
  }
  DurableNode node{[] {
    DurableNodeOptions options;
    options.core.checkpoint_interval_ms = 1'000'000;
    return options;
  }()};
  DeviceLayout layout;
};

TEST_CASE("ACheckCountsWhatIsThere") {
  Fixture fixture;
  const std::vector<std::byte> before = fixture.node.device->content();
  const CoreCheck check = fixture.Check();
  REQUIRE(check.checkpoints.newest.has_value());
  CHECK(check.checkpoints.unsound == 0);
  REQUIRE(check.segments.size() == 1);
  CHECK(check.segments[0].status.ok());
  CHECK(check.segments[0].records == 4);
  CHECK(check.changes == 1);
  CHECK(check.damaged_commit == 0);
  REQUIRE(check.partitions.size() == 2);
  CHECK(check.partitions[0].records == 2);
  CHECK(check.partitions[0].bytes == 5);
  CHECK(check.partitions[1].records == 3);
  CHECK(check.partitions[1].bytes == 7);
  CHECK(check.partitions[1].lost == StatusCode::kOk);
  // Nothing was changed.
  CHECK(fixture.node.device->content() == before);
}

TEST_CASE("ACheckNamesTheDamagedSegment") {
  Fixture fixture;
  const std::uint64_t slot = fixture.Check().segments[0].found.slot;
  // In the second record.
  fixture.node.device->FlipBit(fixture.layout.SlotOffset(slot) + 64 + 50, 3);
  const CoreCheck check = fixture.Check();
  CHECK(check.segments[0].status.code() == StatusCode::kDataLoss);
  CHECK(check.segments[0].records == 1);
  CHECK(check.partitions[0].lost == StatusCode::kDataLoss);
  CHECK(check.partitions[1].lost == StatusCode::kDataLoss);
}

TEST_CASE("ACheckTellsOfDamagedCheckpoints") {
  Fixture fixture;
  const std::uint64_t newest = fixture.Check().checkpoints.block;
  fixture.node.device->FlipBit(fixture.layout.CheckpointOffset(0, newest) + 20, 0);
  const CoreCheck older = fixture.Check();
  CHECK(older.checkpoints.unsound == 1);
  CHECK(older.checkpoints.newest.has_value());
  fixture.node.device->FlipBit(fixture.layout.CheckpointOffset(0, 1 - newest) + 20, 0);
  const CoreCheck none = fixture.Check();
  CHECK(none.checkpoints.unsound == 2);
  CHECK(none.partitions[0].lost == StatusCode::kDataLoss);
}

TEST_CASE("AVolumeThatWasOpenedForReadingRefusesToWrite") {
  Fixture fixture;
  const auto volume = Volume::OpenDevicesForReading({fixture.node.device});
  REQUIRE(volume.ok());
  CHECK((*volume)->Close().code() == StatusCode::kFailedPrecondition);
  CHECK((*volume)->WriteCatalog({}).code() == StatusCode::kFailedPrecondition);
  CHECK((*volume)->RememberCluster(RandomUuid()).code() == StatusCode::kFailedPrecondition);
  CHECK(Volume::OpenDevicesForReading({std::make_shared<FaultDevice>(1 << 20, 1)}).code() ==
        StatusCode::kNotFound);
}

}  // namespace
}  // namespace tidepool::storage
