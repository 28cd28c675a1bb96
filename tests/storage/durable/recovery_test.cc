// Data that a core finds again after a crash.
#include "storage/durable/recovery.h"

#include <catch2/catch.hpp>

#include "tests/storage/durable/durable_node.h"

namespace tidepool::storage {
namespace {

const PartitionId kId(NamespaceId(1), 0);

PartitionOptions Async() {
  PartitionOptions options;
  options.durability = Durability::kAsync;
  return options;
}

std::vector<RecoverablePartition> One(std::uint32_t term) { return {{kId, Term(term), Async()}}; }

std::string KeyOf(int i) { return "key" + std::to_string(i); }

Partition* First(DurableNode& node) {
  REQUIRE(node.Start({}).ok());
  return node.core->AddPartition(kId, Term(1), Async()).value();
}

Partition* Again(DurableNode& node, std::uint32_t term = 1) {
  const Status started = node.Start(One(term));
  INFO(started.ToString());
  REQUIRE(started.ok());
  REQUIRE(node.report.partitions.size() == 1);
  Partition* partition = node.core->Adopt(kId, Term(term + 1));
  REQUIRE(partition != nullptr);
  node.core->CheckInvariants();
  return partition;
}

// Its slots are published before their commit: answers wait for that, direct readers would not.
TEST_CASE("OfDurablePartitionsOnlyThoseThatWaitForNothingAreReadDirectly") {
  DurableNode node({});
  PartitionOptions sync;
  sync.durability = Durability::kSync;
  const Partition* const async = First(node);
  const Partition* const waiting =
      node.core->AddPartition(PartitionId(NamespaceId(1), 1), Term(1), sync).value();
  CHECK(node.core->ViewOf(*async).has_value());
  CHECK(!node.core->ViewOf(*waiting).has_value());
}

TEST_CASE("WhatWasMarkedIsThereAfterACrash") {
  DurableNode node({});
  Partition* partition = First(node);
  for (int i = 0; i < 500; ++i) {
    REQUIRE(node.Put(partition, KeyOf(i), "value" + std::to_string(i)).code == StatusCode::kOk);
  }
  for (int i = 0; i < 500; i += 3) node.Delete(partition, KeyOf(i));
  REQUIRE(node.Persist().ok());
  CHECK(node.core->last_durable_at_ms() == node.core->NowMs());
  const Lsn last = partition->last_lsn();
  node.Crash();
  partition = Again(node);
  CHECK(node.report.partitions[0].records == 333);
  CHECK(node.report.partitions[0].last_lsn == last);
  CHECK(node.report.partitions[0].lost == StatusCode::kOk);
  for (int i = 0; i < 500; ++i) {
    const std::string value = "value" + std::to_string(i);
    REQUIRE(node.Text(partition, KeyOf(i)) == (i % 3 == 0 ? "<NOT_FOUND>" : value));
  }
}

// No record in DRAM could leave it, and hardly a slot is free. A writer waits for slots that
// compaction frees.
TEST_CASE("AfterARestartWhatIsDeadOnAFullDeviceMakesRoom") {
  DurableNode node({});
  Partition* partition = First(node);
  int puts = 0;
  const auto put = [&] {
    const std::string value(3'000, static_cast<char>('a' + puts % 26));
    return node.Put(partition, KeyOf(puts++ % 7), value).code;
  };
  for (std::uint32_t life = 1; life < 20; ++life) {
    INFO("life " << life << ", put " << puts);
    for (int i = 0; i < 500 && node.volume->slots_free() > 6; ++i) {
      REQUIRE(put() == StatusCode::kOk);
    }
    REQUIRE(node.Persist().ok());
    node.Crash();
    partition = Again(node, life);
    const std::string large(node.LargeBytes(3), static_cast<char>('A' + life));
    REQUIRE(node.Put(partition, "large", large).code == StatusCode::kOk);
  }
}

// Each kill leaves a hardly used segment with a record or two that count. In the end these segments
// were the whole device, because none of them had many dead bytes.
TEST_CASE("SegmentsThatKillsHaveLeftHalfEmptyMakeRoom") {
  DurableNode node({});
  Partition* partition = First(node);
  const std::uint64_t slots = node.volume->slot_count();
  for (std::uint32_t life = 1; life < slots + 20; ++life) {
    INFO("life " << life);
    // All of these records stay alive, so that few bytes are dead.
    const std::string key = KeyOf(static_cast<int>(life));
    REQUIRE(node.Put(partition, key, "value").code == StatusCode::kOk);
    REQUIRE(node.Persist().ok());
    node.Crash();
    partition = Again(node, life);
  }
  const std::string large(node.LargeBytes(3), 'l');
  CHECK(node.Put(partition, "large", large).code == StatusCode::kOk);
}

TEST_CASE("CheckpointsComeByThemselves") {
  DurableNode node({});
  Partition* partition = First(node);
  node.Put(partition, "key", "value");
  const std::uint64_t put_at_ms = node.core->NowMs();
  for (int i = 0; i < 200 && node.core->last_durable_at_ms() < put_at_ms + 1; ++i) {
    node.AdvanceMs(10);
    node.Work();
  }
  REQUIRE(node.core->last_durable_at_ms() >= put_at_ms);
  node.Crash();
  CHECK(node.Text(Again(node), "key") == "value");
}

TEST_CASE("WhatWasNotMarkedIsGoneForGood") {
  DurableNode node({});
  Partition* partition = First(node);
  node.Put(partition, "key", "marked");
  REQUIRE(node.Persist().ok());
  const std::uint64_t checkpoints = node.core->counters().checkpoint.checkpoints;
  // Some of it is written, as its segments are full.
  for (int i = 0; i < 300; ++i) {
    node.Put(partition, KeyOf(i), std::string(200, 'n'));
    node.Put(partition, "key", "not marked");
    node.Work();
  }
  REQUIRE(node.core->counters().checkpoint.checkpoints == checkpoints);
  node.Crash();
  partition = Again(node, 1);
  CHECK(node.report.partitions[0].records == 1);
  CHECK(node.Text(partition, "key") == "marked");
  node.Put(partition, "other", "of the second life");
  REQUIRE(node.Persist().ok());
  node.Crash();
  partition = Again(node, 2);
  CHECK(node.report.partitions[0].records == 2);
  CHECK(node.Text(partition, "key") == "marked");
  CHECK(node.Text(partition, "other") == "of the second life");
}

// Keys that come once, among some that stay: else deletes would fill the device.
TEST_CASE("TombstonesGoWhenWhatTheyAreKeptForIsGone") {
  DurableNode node({});
  Partition* partition = First(node);
  const std::string value(300, 'v');
  for (int i = 0; i < 100; ++i) node.Put(partition, "stays" + KeyOf(i), value);
  const std::string long_key(200, 'k');
  std::uint64_t largest = 0;
  for (int i = 0; i < 5'000; ++i) {
    REQUIRE(node.Put(partition, long_key + KeyOf(i), value).code == StatusCode::kOk);
    REQUIRE(node.Delete(partition, long_key + KeyOf(i)).code == StatusCode::kOk);
    node.AdvanceMs(20);
    for (int n = 0; n < 4; ++n) node.Work();
    largest = std::max(largest, node.core->usage().tombstone_bytes);
  }
  // All of them would be 1.2 MB.
  CHECK(largest > 0);
  CHECK(largest < 200'000);
  node.core->CheckInvariants();
  REQUIRE(node.Persist().ok());
  node.Crash();
  partition = Again(node);
  CHECK(node.report.partitions[0].records == 100);
}

TEST_CASE("UpdatesInPlaceLeaveWhatIsMarkedAlone") {
  DurableNode node({});
  Partition* partition = First(node);
  node.Put(partition, "key", "one");
  node.Put(partition, "key", "two");  // In place.
  const std::uint64_t used = node.core->usage().live_bytes;
  REQUIRE(node.Persist().ok());
  node.Put(partition, "key", "six");  // Not in place any more.
  CHECK(node.core->usage().live_bytes == used);
  node.Crash();
  CHECK(node.Text(Again(node), "key") == "two");
}

TEST_CASE("MoreThanMemoryComesBack") {
  DurableNodeOptions options;
  options.slots = 200;
  options.blocks = 40;
  DurableNode node(options);
  Partition* partition = First(node);
  for (int i = 0; i < 1'500; ++i) {
    REQUIRE(node.Put(partition, KeyOf(i), std::string(1'000, 'v') + std::to_string(i)).code ==
            StatusCode::kOk);
    node.Work();
  }
  REQUIRE(node.core->usage().spilled_bytes > 0);
  REQUIRE(node.Persist().ok());
  node.Crash();
  partition = Again(node);
  for (int i = 0; i < 1'500; ++i) {
    REQUIRE(node.Text(partition, KeyOf(i)) == std::string(1'000, 'v') + std::to_string(i));
  }
}

TEST_CASE("LargeValuesComeBack") {
  DurableNode node({});
  Partition* partition = First(node);
  std::vector<std::string> texts;
  for (std::uint64_t shape = 0; shape < DurableNode::kLargeShapes; ++shape) {
    texts.emplace_back(node.LargeBytes(shape), static_cast<char>('a' + shape));
    REQUIRE(node.Put(partition, KeyOf(static_cast<int>(shape)), texts.back()).code ==
            StatusCode::kOk);
  }
  node.Put(partition, "deleted", texts.back());
  REQUIRE(node.Persist().ok());
  const std::uint64_t slots_free = node.volume->slots_free();
  node.Delete(partition, "deleted");
  // In pieces that none of the marked ones may be changed for.
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::string suffix(700, static_cast<char>('A' + i));
    const std::string key = KeyOf(static_cast<int>(i));
    REQUIRE(node.Run([&] {
                  return partition->hash().Append(AsBytes(key), DurableNode::Hash(key),
                                                  AsBytes(suffix), node.core->NowMs());
                })
                .code == StatusCode::kOk);
  }
  SECTION("as they were marked") {
    for (int i = 0; i < 100; ++i) node.Work();
    node.Crash();
    partition = Again(node);
    CHECK(node.Text(partition, "deleted") == texts.back());
    CHECK(node.volume->slots_free() == slots_free);
  }
  SECTION("as they were changed before the checkpoint") {
    REQUIRE(node.Persist().ok());
    node.Crash();
    partition = Again(node);
    for (std::size_t i = 0; i < texts.size(); ++i)
      texts[i] += std::string(700, static_cast<char>('A' + i));
    CHECK(node.Text(partition, "deleted") == "<NOT_FOUND>");
  }
  for (int life = 2; life < 4; ++life) {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      CHECK(node.Text(partition, KeyOf(static_cast<int>(i))) == texts[i]);
    }
    node.Crash();
    partition = Again(node, static_cast<std::uint32_t>(life));
  }
}

TEST_CASE("ALargeValueWhoseSegmentIsGoneIsLostByItsKey") {
  DurableNode node({});
  Partition* partition = First(node);
  node.Put(partition, "large", "older");
  const std::string text(node.LargeBytes(0), 'v');
  node.Put(partition, "large", text);
  node.Put(partition, "small", "value");
  REQUIRE(node.Persist().ok());
  const DeviceLayout layout = node.volume->layout(0);
  node.Crash();
  const auto kind_at = [&](std::uint64_t slot) {
    return node.device->content()[layout.SlotOffset(slot) + offsetof(SegmentHeader, kind)];
  };
  std::uint64_t slot = 0;
  while (kind_at(slot) != static_cast<std::byte>(SegmentKind::kExtent)) ++slot;
  node.device->FlipBit(layout.SlotOffset(slot) + GENERATE(0u, 5'000u), 3);
  const auto checked = node.Check(One(1));
  REQUIRE(checked.ok());
  CHECK(checked->partitions[0].lost_values == 1);
  for (int life = 1; life < 3; ++life) {
    partition = Again(node, static_cast<std::uint32_t>(life));
    CHECK(node.report.partitions[0].lost == StatusCode::kOk);
    CHECK(node.Text(partition, "large") == "<DATA_LOSS>");
    CHECK(node.Text(partition, "small") == "value");
    REQUIRE(node.Persist().ok());
    node.Crash();
  }
  partition = Again(node, 3);
  SECTION("until it is put") {
    REQUIRE(node.Put(partition, "large", "newer").code == StatusCode::kOk);
    CHECK(node.Text(partition, "large") == "newer");
  }
  SECTION("until it is deleted") {
    node.Delete(partition, "large");
    CHECK(node.Text(partition, "large") == "<NOT_FOUND>");
  }
  const std::string now = node.Text(partition, "large");
  REQUIRE(node.Persist().ok());
  node.Crash();
  CHECK(node.Text(Again(node, 4), "large") == now);
}

TEST_CASE("ADroppedPartitionDoesNotComeBackWithItsId") {
  DurableNode node({});
  Partition* partition = First(node);
  node.Put(partition, "old", "value");
  REQUIRE(node.Persist().ok());
  SECTION("in one life") {
    node.core->DropPartition(kId);
    partition = node.core->AddPartition(kId, Term(1), Async()).value();
  }
  SECTION("over lives") {
    node.Crash();
    REQUIRE(node.Start({}).ok());
    node.Crash();
    REQUIRE(node.Start({}).ok());
    partition = node.core->AddPartition(kId, Term(1), Async()).value();
  }
  node.Put(partition, "new", "value");
  REQUIRE(node.Persist().ok());
  node.Crash();
  partition = Again(node);
  CHECK(node.report.partitions[0].records == 1);
  CHECK(node.Text(partition, "old") == "<NOT_FOUND>");
  CHECK(node.Text(partition, "new") == "value");
}

TEST_CASE("VolatilePartitionsLeaveNothing") {
  DurableNode node({});
  REQUIRE(node.Start({}).ok());
  Partition* partition = node.core->AddPartition(kId, Term(1), {}).value();
  for (int i = 0; i < 200; ++i) node.Put(partition, KeyOf(i), std::string(500, 'v'));
  REQUIRE(node.Persist().ok());
  CHECK(node.device->counters().bytes_written < 300'000);
  node.Crash();
  REQUIRE(node.Start(One(1)).ok());
  CHECK(node.report.partitions[0].records == 0);
  CHECK(node.volume->slots_free() == node.volume->slot_count());
}

TEST_CASE("AFailedWriteEndsDurabilityAndIsTold") {
  DurableNode node({});
  Partition* partition = First(node);
  node.Put(partition, "key", "durable");
  REQUIRE(node.Persist().ok());
  FaultRule rule;
  rule.operation =
      GENERATE(DeviceOperation::kWrite, DeviceOperation::kFlush, DeviceOperation::kWriteThrough);
  rule.error = EIO;
  node.device->AddRule(rule);
  node.Put(partition, "key", "not durable");
  CHECK(node.Persist().code() == StatusCode::kDeviceError);
  CHECK(node.core->commit_failed() == StatusCode::kDeviceError);
  CHECK(node.Persist().code() == StatusCode::kDeviceError);
  // Reads go on, writes do not.
  CHECK(node.Text(partition, "key") == "not durable");
  CHECK(node.Put(partition, "key", "refused").code == StatusCode::kResourceExhausted);
  CHECK(node.Text(partition, "key") == "not durable");
  node.core->CheckInvariants();
  node.Crash();
  const std::string text = node.Text(Again(node), "key");
  // A checkpoint whose write failed may be there, or not.
  if (rule.operation == DeviceOperation::kWriteThrough && text != "durable") {
    CHECK(text == "not durable");
  } else {
    CHECK(text == "durable");
  }
}

// The first place of `text` on the device.
std::uint64_t Find(const DurableNode& node, const std::string& text) {
  const std::vector<std::byte> content = node.device->content();
  const std::size_t at = AsText(content).find(text);
  REQUIRE(at != std::string_view::npos);
  return at;
}

// So many values, of which each fills a thirtieth of a segment, and older ones of the same keys.
void PutTwice(DurableNode& node, Partition* partition, int keys) {
  for (const char letter : {'o', 'v'}) {
    for (int i = 0; i < keys; ++i) {
      const std::string value = KeyOf(i) + std::string(500, letter);
      REQUIRE(node.Put(partition, KeyOf(i), value).code == StatusCode::kOk);
    }
  }
  REQUIRE(node.Persist().ok());
}

TEST_CASE("OfSealedSegmentsFootersAreRead") {
  DurableNodeOptions options;
  options.block_bytes = 256 * 1024;
  DurableNode node(options);
  Partition* partition = First(node);
  PutTwice(node, partition, 2'000);
  for (int i = 0; i < 2'000; i += 7)
    REQUIRE(node.Delete(partition, KeyOf(i)).code == StatusCode::kOk);
  REQUIRE(node.Put(partition, "expires", "soon", 1'000).code == StatusCode::kOk);
  REQUIRE(node.Persist().ok());
  node.Crash();
  for (std::uint32_t life = 1; life < 4; ++life) {
    partition = Again(node, life);
    CHECK(node.report.segments >= 4);
    CHECK(node.report.from_footers >= node.report.segments - 2);
    CHECK(node.report.bytes_read < node.report.segments * options.block_bytes / 2);
    CHECK(node.report.partitions[0].records == 2'000 - 286 + 1);
    for (int i = 0; i < 2'000; ++i) {
      const std::string value = KeyOf(i) + std::string(500, 'v');
      REQUIRE(node.Text(partition, KeyOf(i)) == (i % 7 == 0 ? "<NOT_FOUND>" : value));
    }
    CHECK(node.Text(partition, "expires") == "soon");
    node.Crash();
  }
  node.AdvanceMs(1'000);
  CHECK(node.Text(Again(node, 4), "expires") == "<NOT_FOUND>");
}

TEST_CASE("ADamagedFooterCostsTimeOnly") {
  DurableNode node({});
  Partition* partition = First(node);
  PutTwice(node, partition, 200);
  node.Crash();
  const std::uint64_t segment =
      Find(node, KeyOf(3) + std::string(500, 'v')) & ~std::uint64_t{16'383};
  const auto from = GENERATE(std::uint64_t{8}, std::uint64_t{200});  // The end: trailer, entries.
  node.device->FlipBit(segment + 16 * 1024 - from, 2);
  const auto checked = node.Check(One(1));
  REQUIRE(checked.ok());
  CHECK(checked->partitions[0].lost_values == 0);
  CHECK(checked->partitions[0].records == 200);
  partition = Again(node);
  CHECK(node.report.partitions[0].lost == StatusCode::kOk);
  CHECK(node.report.from_footers > 0);
  for (int i = 0; i < 200; ++i) {
    REQUIRE(node.Text(partition, KeyOf(i)) == KeyOf(i) + std::string(500, 'v'));
  }
}

TEST_CASE("ADamagedRecordIsALossOfItsKeyAndNoOlderCopy") {
  DurableNode node({});
  Partition* partition = First(node);
  PutTwice(node, partition, 200);
  node.Crash();
  node.device->FlipBit(Find(node, KeyOf(3) + std::string(500, 'v')) + GENERATE(0u, 100u), 3);
  const auto checked = node.Check(One(1));
  REQUIRE(checked.ok());
  CHECK(checked->partitions[0].lost == StatusCode::kOk);
  CHECK(checked->partitions[0].lost_values == 1);
  for (std::uint32_t life = 1; life < 3; ++life) {
    partition = Again(node, life);
    CHECK(node.report.partitions[0].lost == StatusCode::kOk);
    CHECK(node.Text(partition, KeyOf(3)) == "<DATA_LOSS>");
    CHECK(node.Text(partition, KeyOf(4)) == KeyOf(4) + std::string(500, 'v'));
    node.Crash();
  }
  partition = Again(node, 3);
  const bool deletes = GENERATE(false, true);
  if (deletes) {
    REQUIRE(node.Delete(partition, KeyOf(3)).code == StatusCode::kOk);
  } else {
    REQUIRE(node.Put(partition, KeyOf(3), "healed").code == StatusCode::kOk);
  }
  REQUIRE(node.Persist().ok());
  node.Crash();
  CHECK(node.Text(Again(node, 4), KeyOf(3)) == (deletes ? "<NOT_FOUND>" : "healed"));
}

// Neither its records nor its footer can be trusted.
TEST_CASE("ADamagedSegmentIsALossAndNoOlderCopy") {
  DurableNode node({});
  Partition* partition = First(node);
  for (int i = 0; i < 200; ++i) node.Put(partition, KeyOf(i), std::string(500, 'v'));
  REQUIRE(node.Persist().ok());
  node.Crash();
  REQUIRE(node.Start(One(1)).ok());
  const std::uint64_t at = node.volume->layout(0).SlotOffset(2);
  const std::uint64_t bytes = node.options().block_bytes;
  node.Crash();
  node.device->FlipBit(at + 3'000, 3);
  node.device->FlipBit(at + bytes - 8, 3);
  REQUIRE(node.Start(One(1)).ok());
  REQUIRE(node.report.partitions.size() == 1);
  CHECK(node.report.partitions[0].lost == StatusCode::kDataLoss);
  // It is reported again, until the partition is made again.
  node.Crash();
  REQUIRE(node.Start(One(1)).ok());
  CHECK(node.report.partitions[0].lost == StatusCode::kDataLoss);
  node.core->DropIncoming(kId);
  partition = node.core->AddPartition(kId, Term(2), Async()).value();
  node.Put(partition, "new", "value");
  REQUIRE(node.Persist().ok());
  node.Crash();
  partition = Again(node, 2);
  CHECK(node.report.partitions[0].lost == StatusCode::kOk);
  CHECK(node.report.partitions[0].records == 1);
}

}  // namespace
}  // namespace tidepool::storage
