#include "daemon/control/node_catalog.h"

#include <catch2/catch.hpp>
#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "storage/device/fault_device.h"
#include "tests/storage/nvm/samples.h"

namespace tidepool::daemon {
namespace {

using placement::PartitionState;

constexpr const char* kCluster = "3f2b8c1e-9d4a-4c6f-8a51-0d7e6b2c9f10";

// A node's device, and a map of two nodes.
struct Fixture {
  Fixture() : device(std::make_shared<storage::FaultDevice>(4 << 20, 1)) {
    options.layout = storage::test::SmallLayout(2);
    options.layout.catalog_area_bytes = 256 * 1024;
    map.cluster_uuid = kCluster;
    Start();
  }
  // Starts like after a crash of the machine.
  void Start() {
    volume.reset();
    device->Crash();
    ++options.incarnation;
    auto opened = storage::Volume::OpenDevices({device}, options);
    REQUIRE(opened.ok());
    volume = *std::move(opened);
    auto read = NodeCatalog::Open(volume.get());
    INFO(read.status().ToString());
    REQUIRE(read.ok());
    catalog = std::make_unique<NodeCatalog>(*std::move(read));
  }
  // Partitions of both nodes in turns, on core 1.
  std::shared_ptr<placement::Namespace> Add(std::uint32_t id, const std::string& durability,
                                            std::uint32_t partitions = 4) {
    auto space = std::make_shared<placement::Namespace>();
    space->id = NamespaceId(id);
    space->name = "n" + std::to_string(id);
    space->options.durability = durability;
    space->options.ttl_ms = 7;
    space->options.partitions = partitions;
    for (std::uint32_t i = 0; i < partitions; ++i) {
      space->partitions.push_back({NodeId(static_cast<std::uint16_t>(i % 2)), CoreId(1), Term(3),
                                   PartitionState::kActive, Term(2)});
    }
    map.namespaces[space->id] = space;
    return space;
  }
  Status Save() { return catalog->Save(map, NodeId(1)); }
  std::uint64_t writes() const { return device->counters().writes; }

  storage::VolumeOptions options;
  std::shared_ptr<storage::FaultDevice> device;
  std::unique_ptr<storage::Volume> volume;
  std::unique_ptr<NodeCatalog> catalog;
  placement::PlacementMap map;
};

TEST_CASE("TheNextStartFindsWhatIsServedDurably") {
  Fixture node;
  node.Add(1, "volatile");
  node.Add(2, "async");
  REQUIRE(node.Save().ok());
  node.Start();
  CHECK(node.catalog->cluster_uuid() == kCluster);
  const auto& found = node.catalog->found();
  REQUIRE(found.size() == 2);
  CHECK(found[0].id == PartitionId(NamespaceId(2), 1));
  CHECK(found[1].id == PartitionId(NamespaceId(2), 3));
  CHECK(found[0].term == Term(3));
  CHECK(found[0].core == CoreId(1));
  CHECK(found[0].options.durability == storage::Durability::kAsync);
  CHECK(found[0].options.ttl_ms == 7);
  CHECK(found[0].options.partition_count == 4);
}

TEST_CASE("ANodeThatServesNothingDurablyWritesNothing") {
  Fixture node;
  node.Add(1, "volatile");
  const std::uint64_t before = node.writes();
  REQUIRE(node.Save().ok());
  CHECK(node.writes() == before);
  node.Start();
  CHECK(node.catalog->found().empty());
  CHECK(node.catalog->cluster_uuid().empty());
}

TEST_CASE("OnlyWhatConcernsTheNodeIsWritten") {
  Fixture node;
  auto space = node.Add(2, "async");
  REQUIRE(node.Save().ok());
  const std::uint64_t before = node.writes();
  node.Add(3, "volatile");
  space->partitions[0].term = Term(9);  // Another node's.
  space->changed = Epoch(8);
  REQUIRE(node.Save().ok());
  CHECK(node.writes() == before);
  space->partitions[1].term = Term(4);
  REQUIRE(node.Save().ok());
  CHECK(node.writes() > before);
  node.Start();
  CHECK(node.catalog->found()[0].term == Term(4));
}

TEST_CASE("WhatIsLostOrDroppedIsForgotten") {
  Fixture node;
  auto space = node.Add(2, "async");
  node.Add(3, "async");
  REQUIRE(node.Save().ok());
  space->partitions[1].state = PartitionState::kLost;
  node.map.namespaces.erase(NamespaceId(3));
  REQUIRE(node.Save().ok());
  node.Start();
  REQUIRE(node.catalog->found().size() == 1);
  CHECK(node.catalog->found()[0].id == PartitionId(NamespaceId(2), 3));
}

TEST_CASE("ANamespaceOfTheMostPartitionsFits") {
  Fixture node;
  node.Add(2, "sync", limits::kPartitionsPerNamespaceMax);
  REQUIRE(node.Save().ok());
  node.Start();
  CHECK(node.catalog->found().size() == limits::kPartitionsPerNamespaceMax / 2);
}

TEST_CASE("ADeviceThatFailsLeavesTheOldCatalogAndSaysSo") {
  Fixture node;
  auto space = node.Add(2, "async");
  REQUIRE(node.Save().ok());
  node.device->AddRule({.operation = storage::DeviceOperation::kWrite, .error = EIO});
  space->partitions[1].term = Term(5);
  CHECK(node.Save().code() == StatusCode::kDeviceError);
  // Not taken for written either.
  CHECK(node.Save().code() == StatusCode::kDeviceError);
  node.device->ClearRules();
  node.Start();
  CHECK(node.catalog->found()[0].term == Term(3));
}

TEST_CASE("ACatalogThatIsNotOursToReadIsRefused") {
  Fixture node;
  storage::Catalog other;
  other.namespaces.push_back({NamespaceId(2), "x", Kind::kHash, "no message"});
  REQUIRE(node.volume->WriteCatalog(storage::EncodeCatalog(other)).ok());
  const auto read = NodeCatalog::Open(node.volume.get());
  CHECK(read.code() == StatusCode::kDataLoss);
  CHECK(read.status().ToString().find("'x'") != std::string::npos);
}

}  // namespace
}  // namespace tidepool::daemon
