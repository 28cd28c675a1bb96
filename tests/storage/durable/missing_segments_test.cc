// A device that lacks data of its last checkpoint: the loss is reported, and only for partitions
// that were there.
#include <catch2/catch.hpp>
#include <cstring>

#include "storage/device/device_io.h"
#include "storage/durable/recovery.h"
#include "tests/storage/durable/durable_node.h"

namespace tidepool::storage {
namespace {

const PartitionId kId(NamespaceId(1), 0);
const PartitionId kLaterId(NamespaceId(2), 0);

std::string KeyOf(int i) { return "key" + std::to_string(i); }

struct Fixture {
  explicit Fixture(Durability durability = Durability::kAsync, std::uint64_t slots = 48)
      : node({.blocks = 2 * slots, .slots = slots}) {
    options.durability = durability;
    REQUIRE(node.Start({}).ok());
    partition = node.core->AddPartition(kId, Term(1), options).value();
    PutAll('v');
  }
  void PutAll(char letter) {
    for (int i = 0; i < 200; ++i) {
      node.Put(partition, KeyOf(i), KeyOf(i) + std::string(500, letter));
      node.Work();
    }
    REQUIRE(node.Persist().ok());
  }
  std::vector<RecoverablePartition> Wanted() const {
    std::vector<RecoverablePartition> wanted = {{kId, Term(term), options}};
    if (has_later) wanted.push_back({kLaterId, Term(term), options});
    return wanted;
  }
  // Returns the losses of each partition by check and recovery, which must agree.
  std::vector<StatusCode> Losses() {
    const auto check = node.Check(Wanted());
    REQUIRE(check.ok());
    REQUIRE(node.Start(Wanted()).ok());
    std::vector<StatusCode> losses;
    for (std::size_t i = 0; i < node.report.partitions.size(); ++i) {
      losses.push_back(node.report.partitions[i].lost);
      CHECK(check->partitions[i].lost == losses.back());
    }
    return losses;
  }
  // Begins like a daemon that has reported to the coordinator.
  Partition* BeginAnew(PartitionId id) {
    node.core->DropIncoming(id);
    return node.core->AddPartition(id, Term(++term), options).value();
  }
  std::uint64_t SlotAt(std::uint64_t slot) const { return layout().SlotOffset(slot); }
  DeviceLayout layout() const {
    const auto superblock = ReadSuperblock(node.device->OpenQueue(1)->get());
    REQUIRE(superblock.ok());
    return superblock->layout;
  }
  std::vector<std::byte> ReadSlot(std::uint64_t slot) const {
    const auto begin = node.device->content().begin() + static_cast<std::ptrdiff_t>(SlotAt(slot));
    return {begin, begin + static_cast<std::ptrdiff_t>(layout().slot_bytes)};
  }
  void WriteSlot(std::uint64_t slot, const std::vector<std::byte>& bytes) {
    BlockBuffer buffer(bytes.size());
    std::memcpy(buffer.data(), bytes.data(), bytes.size());
    const auto queue = node.device->OpenQueue(1);
    REQUIRE(WriteBlocks(queue->get(), SlotAt(slot), buffer.bytes()).ok());
    REQUIRE(FlushDevice(queue->get()).ok());
  }

  DurableNode node;
  PartitionOptions options;
  Partition* partition = nullptr;
  std::uint32_t term = 1;
  bool has_later = false;
};

const std::vector<StatusCode> kWhole = {StatusCode::kOk};
const std::vector<StatusCode> kLost = {StatusCode::kDataLoss};

TEST_CASE("ASegmentWithoutItsHeaderIsALoss") {
  Fixture fixture(GENERATE(Durability::kAsync, Durability::kSync));
  fixture.node.Crash();
  SECTION("none is missing") { CHECK(fixture.Losses() == kWhole); }
  SECTION("a bit of it is another one") {
    fixture.node.device->FlipBit(fixture.SlotAt(2) + 9, 3);
    CHECK(fixture.Losses() == kLost);
  }
  SECTION("the slot is blank") {
    fixture.WriteSlot(2, std::vector<std::byte>(fixture.layout().slot_bytes));
    CHECK(fixture.Losses() == kLost);
  }
}

TEST_CASE("ALossIsToldUntilThePartitionBeginsAnewAndNotOfLaterOnes") {
  Fixture fixture(GENERATE(Durability::kAsync, Durability::kSync));
  fixture.node.Crash();
  const bool is_missing = GENERATE(true, false);
  fixture.node.device->FlipBit(fixture.SlotAt(2) + (is_missing ? 9 : 3'000), 3);
  if (!is_missing) {
    fixture.node.device->FlipBit(fixture.SlotAt(2) + fixture.layout().slot_bytes - 8, 3);
  }
  for (int life = 0; life < 3; ++life) {
    CHECK(fixture.Losses() == kLost);
    fixture.node.Crash();
  }
  CHECK(fixture.Losses() == kLost);
  Partition* anew = fixture.BeginAnew(kId);
  fixture.has_later = true;
  Partition* later = fixture.node.core->AddPartition(kLaterId, Term(1), fixture.options).value();
  for (Partition* each : {anew, later}) fixture.node.Put(each, "new", "value");
  // Until the record of their begin has been moved, and no older record is left.
  const int rounds = GENERATE(0, 12);
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < 100; ++i) {
      fixture.node.Put(anew, "busy" + KeyOf(i), std::string(700, 'b'));
      fixture.node.Put(later, "busy" + KeyOf(i % 90), std::string(700, 'b'));
      fixture.node.Work();
    }
    REQUIRE(fixture.node.Persist().ok());
    for (int i = 0; i < 200; ++i) fixture.node.Work();
  }
  // Both with changes that only the ring has, and with changes that a checkpoint covers.
  if (fixture.options.durability == Durability::kAsync || GENERATE(true, false)) {
    REQUIRE(fixture.node.Persist().ok());
  } else {
    while (fixture.node.core->TakeCommitWait(*later) != 0) fixture.node.Work();
  }
  for (int life = 0; life < 3; ++life) {
    fixture.node.Crash();
    CHECK(fixture.Losses() == std::vector<StatusCode>(2, StatusCode::kOk));
    for (const PartitionId id : {kId, kLaterId}) {
      Partition* partition = fixture.node.core->Adopt(id, Term(fixture.term + 1));
      CHECK(fixture.node.Text(partition, "new") == "value");
      CHECK(fixture.node.Text(partition, KeyOf(1)) == "<NOT_FOUND>");
    }
    ++fixture.term;
    fixture.node.core->CheckInvariants();
  }
}

// The device acknowledged a write and did not make it.
TEST_CASE("AnOlderSegmentInThePlaceOfANewerOneIsALoss") {
  Fixture fixture;
  std::vector<std::vector<std::byte>> before;
  const std::uint64_t slots = fixture.layout().slot_count;
  for (std::uint64_t slot = 0; slot < slots; ++slot) before.push_back(fixture.ReadSlot(slot));
  // Repeats until the slots were freed and reused.
  for (char letter = 'a'; letter < 'g'; ++letter) {
    fixture.PutAll(letter);
    REQUIRE(fixture.node.Persist().ok());
    for (int i = 0; i < 100; ++i) fixture.node.Work();
  }
  fixture.node.Crash();
  bool found = false;
  for (std::uint64_t slot = 0; slot < slots && !found; ++slot) {
    SegmentHeader older{};
    SegmentHeader newer{};
    std::memcpy(&older, before[slot].data(), sizeof older);
    std::memcpy(&newer, fixture.ReadSlot(slot).data(), sizeof newer);
    found = older.magic == kSegmentMagic && newer.magic == kSegmentMagic &&
            newer.number > older.number && IsDurableStream(newer.stream);
    if (found) fixture.WriteSlot(slot, before[slot]);
  }
  REQUIRE(found);
  CHECK(fixture.Losses() == kLost);
}

TEST_CASE("ACheckpointThatIsDamagedIsALossAndNoOlderState") {
  Fixture fixture;
  // A few keys, in the open segment of the previous checkpoint, or enough keys for new segments.
  const int keys = GENERATE(1, 100);
  for (int i = 0; i < keys; ++i) fixture.node.Put(fixture.partition, KeyOf(i), "newer");
  REQUIRE(fixture.node.Persist().ok());
  fixture.node.Crash();
  const auto check = fixture.node.Check(fixture.Wanted());
  REQUIRE(check.ok());
  const std::uint64_t at = fixture.layout().CheckpointOffset(0, check->checkpoints.block) + 100;
  fixture.node.device->FlipBit(at, 0);
  CHECK(fixture.Losses() == kLost);
  fixture.node.Crash();
  CHECK(fixture.Losses() == kLost);
  // A block that is bad stays bad.
  fixture.node.Crash();
  fixture.node.device->FlipBit(at, 0);
  CHECK(fixture.Losses() == kLost);
  fixture.partition = fixture.BeginAnew(kId);
  fixture.PutAll('x');
  fixture.node.Crash();
  CHECK(fixture.Losses() == kWhole);
}

TEST_CASE("ADamagedCheckpointWithNothingNewBehindTheOtherOneCostsNothing") {
  Fixture fixture;
  std::uint64_t newest = 0;
  const bool is_last = GENERATE(true, false);
  if (is_last) {
    REQUIRE(fixture.node.Persist().ok());  // A second time.
  } else {
    fixture.PutAll('w');
  }
  fixture.node.Crash();
  newest = fixture.node.Check(fixture.Wanted())->checkpoints.block;
  const std::uint64_t block = is_last ? newest : 1 - newest;
  fixture.node.device->FlipBit(fixture.layout().CheckpointOffset(0, block) + 100, 0);
  CHECK(fixture.Losses() == kWhole);
  fixture.partition = fixture.node.core->Adopt(kId, Term(2));
  const std::string value(500, is_last ? 'v' : 'w');
  for (int i = 0; i < 200; ++i) {
    REQUIRE(fixture.node.Text(fixture.partition, KeyOf(i)) == KeyOf(i) + value);
  }
}

// More segments leave than a checkpoint can name.
TEST_CASE("ManySegmentsThatGoAtOnceAreNotMissed") {
  Fixture fixture(Durability::kAsync, 160);
  constexpr int kKeys = 3'000;
  for (int i = 200; i < kKeys; ++i) {
    const std::string value(500, 'm');
    REQUIRE(fixture.node.Put(fixture.partition, KeyOf(i), value).code == StatusCode::kOk);
    fixture.node.Work();
  }
  REQUIRE(fixture.node.Persist().ok());
  REQUIRE(fixture.node.volume->usage().slots_used > 2 * kCheckpointLeavingMax);
  for (int i = 0; i < kKeys; ++i) fixture.node.Delete(fixture.partition, KeyOf(i));
  for (int i = 0; i < 20; ++i) {
    REQUIRE(fixture.node.Persist().ok());
    fixture.node.Crash();
    CHECK(fixture.Losses() == kWhole);
    fixture.partition = fixture.node.core->Adopt(kId, Term(++fixture.term));
    for (int work = 0; work < i; ++work) fixture.node.Work();
  }
}

}  // namespace
}  // namespace tidepool::storage
