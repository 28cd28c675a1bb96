// Durable filters: after a crash each has at least its bits at the begin of the last checkpoint,
// and only bits that it ever had.
#include <catch2/catch.hpp>

#include <set>
#include <vector>

#include "proto/base/log.h"
#include "tests/storage/durable/durable_node.h"
#include "tests/support/random.h"

namespace tidepool::storage {
namespace {

constexpr std::uint64_t kFilterBytes = 64 * 1024;

PartitionId IdOf(std::uint32_t i) { return PartitionId(NamespaceId(1), i); }

PartitionOptions FilterOptions() {
  PartitionOptions options;
  options.kind = Kind::kBloom;
  options.filter = FilterShape{kFilterBytes / kSplitBlockBytes};
  options.durability = Durability::kAsync;
  return options;
}

Partition* First(DurableNode& node, std::uint32_t i = 0) {
  if (node.core == nullptr) REQUIRE(node.Start({}).ok());
  return node.core->AddPartition(IdOf(i), Term(1), FilterOptions()).value();
}

Partition* Again(DurableNode& node, std::uint32_t term) {
  const Status started = node.Start({{IdOf(0), Term(term), FilterOptions()}});
  INFO(started.ToString());
  REQUIRE(started.ok());
  Partition* const partition = node.core->Adopt(IdOf(0), Term(term + 1));
  REQUIRE(partition != nullptr);
  node.core->CheckInvariants();
  return partition;
}

std::uint64_t HashOf(std::uint64_t i) { return DurableNode::Hash("value" + std::to_string(i)); }

void Insert(Partition* partition, std::uint64_t begin, std::uint64_t end) {
  for (std::uint64_t i = begin; i < end; ++i) partition->bloom().InsertAndTell(HashOf(i));
}

std::uint64_t Contained(Partition* partition, std::uint64_t begin, std::uint64_t end) {
  std::uint64_t count = 0;
  for (std::uint64_t i = begin; i < end; ++i) {
    if (partition->bloom().Contains(HashOf(i))) ++count;
  }
  return count;
}

TEST_CASE("AFilterHasAfterACrashWhatWasPersisted") {
  DurableNode node({});
  Partition* partition = First(node);
  Insert(partition, 0, 500);
  REQUIRE(node.Persist().ok());
  const std::uint64_t bits = partition->bloom().filter().bits_set();
  Insert(partition, 500, 510);  // Into pieces that no checkpoint has.
  node.Crash();
  partition = Again(node, 1);
  CHECK(partition->bloom().filter().bits_set() == bits);
  CHECK(Contained(partition, 0, 500) == 500);
  Insert(partition, 500, 600);
  REQUIRE(node.Persist().ok());
  node.Crash();
  partition = Again(node, 2);
  CHECK(Contained(partition, 0, 600) == 600);
}

TEST_CASE("WhatIsUnitedOrImportedIsPersistedToo") {
  DurableNode node({});
  Partition* partition = First(node);
  PartitionOptions options = FilterOptions();
  options.durability = Durability::kVolatile;
  Partition* const other = node.core->AddPartition(IdOf(1), Term(1), options).value();
  Insert(other, 0, 300);
  std::uint64_t block = 0;
  while (partition->bloom().UnionSlice(other->bloom(), &block, 1)) {
  }
  REQUIRE(node.Persist().ok());
  node.Crash();
  partition = Again(node, 1);
  CHECK(Contained(partition, 0, 300) == 300);
}

TEST_CASE("AFilterThatChangesForeverTakesItsOwnRoomOnly") {
  DurableNode node({});
  Partition* partition = First(node);
  // 16 pieces of 4 KiB, of which a device of 48 slots of 16 KiB holds some 140.
  for (std::uint64_t round = 0; round < 200; ++round) {
    Insert(partition, round * 40, round * 40 + 40);
    REQUIRE(node.Persist().ok());
    for (int i = 0; i < 5; ++i) node.Work();
  }
  node.core->CheckInvariants();
  node.Crash();
  partition = Again(node, 1);
  CHECK(Contained(partition, 0, 8'000) == 8'000);
}

TEST_CASE("ADroppedFilterIsGone") {
  DurableNode node({});
  Partition* partition = First(node);
  Insert(partition, 0, 500);
  REQUIRE(node.Persist().ok());
  node.core->DropPartition(IdOf(0));
  for (int i = 0; i < 50; ++i) node.Work();
  node.core->CheckInvariants();
  CHECK(node.core->usage().live_bytes == node.core->usage().tombstone_bytes);
  partition = node.core->AddPartition(IdOf(0), Term(2), FilterOptions()).value();
  partition->bloom().InsertAndTell(HashOf(7));
  REQUIRE(node.Persist().ok());
  node.Crash();
  partition = Again(node, 3);
  CHECK(partition->bloom().filter().EstimatedItems() == Approx(1).epsilon(0.1));
}

// Without some of its bits, it would deny values that were inserted.
TEST_CASE("AFilterOfWhichAPieceIsDamagedIsLost") {
  DurableNode node({});
  Partition* partition = First(node);
  Insert(partition, 0, 500);
  REQUIRE(node.Persist().ok());
  node.Crash();
  const auto opened = Volume::OpenDevicesForReading({node.device});
  REQUIRE(opened.ok());
  const std::uint64_t at = (*opened)->layout(0).SlotOffset(0) + 9'000;
  node.device->FlipBit(at, 3);
  const std::vector<RecoverablePartition> wanted = {{IdOf(0), Term(1), FilterOptions()}};
  const auto check = node.Check(wanted);
  REQUIRE(check.ok());
  CHECK(check->partitions[0].lost == StatusCode::kDataLoss);
  REQUIRE(node.Start(wanted).ok());
  CHECK(node.report.partitions[0].lost == StatusCode::kDataLoss);
  node.core->CheckInvariants();
  node.core->DropIncoming(IdOf(0));
  for (int i = 0; i < 50; ++i) node.Work();
  node.core->CheckInvariants();
}

TEST_CASE("AFilterCannotBeSync") {
  DurableNode node({});
  REQUIRE(node.Start({}).ok());
  PartitionOptions options = FilterOptions();
  options.durability = Durability::kSync;
  CHECK(node.core->AddPartition(IdOf(0), Term(1), options).code() == StatusCode::kInvalidArgument);
}

// While the device has no room, durability is not acknowledged.
TEST_CASE("AFilterThatFindsNoRoomIsNotCalledDurable") {
  DurableNodeOptions options;
  options.slots = 12;
  DurableNode node(options);
  Partition* const records = [&] {
    REQUIRE(node.Start({}).ok());
    PartitionOptions hash;
    hash.durability = Durability::kAsync;
    return node.core->AddPartition(IdOf(1), Term(1), hash).value();
  }();
  Partition* partition = First(node);
  int keys = 0;
  while (node.Put(records, "key" + std::to_string(keys), std::string(1'000, 'v')).code ==
         StatusCode::kOk) {
    ++keys;
  }
  REQUIRE(keys > 50);
  Insert(partition, 0, 500);
  bool ended = false;
  Status outcome;
  node.core->Persist([&](Status status) {
    outcome = std::move(status);
    ended = true;
  });
  const std::uint64_t before_ms = node.core->last_durable_at_ms();
  for (int i = 0; i < 300 && !ended; ++i) {
    node.AdvanceMs(10);
    node.Work();
  }
  if (!ended) {
    CHECK(node.core->last_durable_at_ms() == before_ms);
    for (int i = 0; i < keys; ++i) node.Delete(records, "key" + std::to_string(i));
    for (int i = 0; i < 5'000 && !ended; ++i) {
      node.AdvanceMs(10);
      node.Work();
    }
  }
  REQUIRE(ended);
  CHECK(outcome.ok());
  node.Crash();
  REQUIRE(node.Start({{IdOf(0), Term(1), FilterOptions()}}).ok());
  CHECK(Contained(node.core->Adopt(IdOf(0), Term(2)), 0, 500) == 500);
}

// Histories with crashes at any write, torn and lost writes, records and compaction beside.
class FilterHistory {
 public:
  explicit FilterHistory(test::Random& random) : random_(random), node_(Options(random.Word())) {}

  void Run() {
    REQUIRE(node_.Start({}).ok());
    filter_ = node_.core->AddPartition(IdOf(0), Term(++term_), FilterOptions()).value();
    records_ = node_.core->AddPartition(IdOf(1), Term(term_), HashOptions()).value();
    for (int life = 0; life < 4; ++life) {
      if (random_.OneIn(2)) node_.device->PowerOffAfterWrites(random_.Below(60));
      for (std::uint64_t left = random_.Below(80); left > 0 && !node_.device->powered_off();
           --left) {
        Step();
      }
      const std::vector<std::uint64_t> bits = Bits();
      node_.Crash();
      Recover(bits);
    }
    node_.core->CheckInvariants();
  }

 private:
  static DurableNodeOptions Options(std::uint64_t seed) {
    DurableNodeOptions options;
    options.device_seed = seed;
    options.slots = 40 + seed % 20;
    options.core.checkpoint_interval_ms = 100;
    return options;
  }
  static PartitionOptions HashOptions() {
    PartitionOptions options;
    options.durability = Durability::kAsync;
    return options;
  }

  void Step() {
    switch (random_.Below(8)) {
      case 0:
        node_.AdvanceMs(random_.Below(200));
        break;
      case 1:
        // The bits at its begin are the present bits of `inserted_`.
        if (!persisting_) {
          persisting_ = true;
          persist_of_ = inserted_;
          node_.core->Persist([this](const Status& status) {
            persisting_ = false;
            if (status.ok()) durable_.insert(persist_of_.begin(), persist_of_.end());
          });
        }
        break;
      case 2:
        (void)node_.Put(records_, "key" + std::to_string(random_.Below(50)),
                        std::string(random_.Below(3'000), 'v'));
        break;
      default:
        for (std::uint64_t left = random_.Below(30); left > 0; --left) {
          const std::uint64_t hash = random_.Word();
          filter_->bloom().InsertAndTell(hash);
          inserted_.insert(hash);
        }
    }
    if (random_.OneIn(2)) node_.Work();
  }

  std::vector<std::uint64_t> Bits() const {
    const BlockFilter& filter = filter_->bloom().filter();
    std::vector<std::uint64_t> bits;
    for (std::uint64_t at = 0; at < kFilterBytes; at += sizeof(std::uint64_t)) {
      bits.push_back(LoadUnaligned<std::uint64_t>(filter.Part(at, sizeof(std::uint64_t)).data()));
    }
    return bits;
  }

  void Recover(const std::vector<std::uint64_t>& had) {
    persisting_ = false;
    const std::vector<RecoverablePartition> wanted = {{IdOf(0), Term(term_), FilterOptions()},
                                                      {IdOf(1), Term(term_), HashOptions()}};
    const auto check = node_.Check(wanted);
    REQUIRE(check.ok());
    CHECK(check->partitions[0].lost == StatusCode::kOk);
    const Status started = node_.Start(wanted);
    INFO(started.ToString());
    REQUIRE(started.ok());
    CHECK(node_.report.partitions[0].lost == StatusCode::kOk);
    filter_ = node_.core->Adopt(IdOf(0), Term(++term_));
    records_ = node_.core->Adopt(IdOf(1), Term(term_));
    node_.core->CheckInvariants();
    for (const std::uint64_t hash : durable_) REQUIRE(filter_->bloom().Contains(hash));
    const std::vector<std::uint64_t> has = Bits();
    for (std::size_t i = 0; i < has.size(); ++i) REQUIRE((has[i] & ~had[i]) == 0);
    inserted_ = durable_;
  }

  test::Random& random_;
  DurableNode node_;
  Partition* filter_ = nullptr;
  Partition* records_ = nullptr;
  std::uint32_t term_ = 0;
  std::set<std::uint64_t> inserted_;    // Values of this life, and durable values.
  std::set<std::uint64_t> durable_;     // Acknowledged as durable.
  std::set<std::uint64_t> persist_of_;  // Values that the present Persist must cover.
  bool persisting_ = false;
};

TEST_CASE("HistoriesOfFiltersWithCrashes") {
  test::Random random("HistoriesOfFiltersWithCrashes");
  const log::Level level = log::GetLevel();
  log::SetLevel(log::Level::kOff);  // Each crash is an error of the device.
  for (int i = 0; i < 300; ++i) FilterHistory(random).Run();
  log::SetLevel(level);
}

}  // namespace
}  // namespace tidepool::storage
