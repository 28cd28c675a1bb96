// Large values that are written at the same time, on cores that share a node's memory. None is
// refused while devices have room, and each gets its turn.
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/storage/spill/spill_fixture.h"

namespace tidepool::storage {
namespace {

// Two cores of a node.
struct TwoCores {
  explicit TwoCores(std::uint64_t blocks, std::uint64_t slots) {
    ArenaPoolOptions pool_options;
    pool_options.memory_bytes = blocks * kBlockBytes;
    pool_options.block_bytes = kBlockBytes;
    pool_options.arena_first_bytes = 16 * kBlockBytes;
    pool_options.arena_bytes = 64 * kBlockBytes;
    pool = ArenaPool::Create(pool_options).value();
    VolumeOptions volume_options;
    volume_options.layout.cores = 2;
    volume_options.layout.slot_bytes = kBlockBytes;
    volume_options.layout.slots_per_core_min = slots / 2;
    volume_options.layout.catalog_area_bytes = kDeviceBlockBytes;
    volume_options.layout.ring_bytes = kDeviceBlockBytes;
    device = std::make_shared<FaultDevice>(LayoutBytesMin(volume_options.layout), 1);
    volume = Volume::OpenDevices({device}, volume_options).value();
    for (std::uint16_t i = 0; i < 2; ++i) {
      CoreStoreOptions options;
      options.core = CoreId(i);
      options.volume = volume.get();
      options.reserve_blocks = 2;
      stores.push_back(CoreStore::Create(options, pool.get(), &clock).value());
      partitions.push_back(
          stores[i]->AddPartition(PartitionId(NamespaceId(1), i), Term(1), {}).value());
    }
  }
  void Work() {
    for (const auto& store : stores) {
      store->BackgroundSlice(1'000'000);
      store->Poll();
    }
  }
  // Runs an operation like the daemon.
  template <typename Operation>
  HashOutcome Run(std::size_t core, Operation&& operation) {
    CoreStore& store = *stores[core];
    for (int turn = 0;; ++turn) {
      REQUIRE(turn < 100'000);
      HashOutcome outcome = operation();
      if (store.blocked()) {
        REQUIRE(store.TakeLost() == StatusCode::kOk);
        bool ran = false;
        const std::function<void()> run = [&] {
          outcome = operation();
          if (store.blocked() && store.TakeLost() == StatusCode::kOk) return store.Fetch(run);
          text = outcome.code == StatusCode::kOk ? TextOf(core, outcome) : std::string();
          ran = true;
        };
        store.Fetch(run);
        for (int polls = 0; !ran; ++polls) {
          REQUIRE(polls < 1'000'000);
          Work();
        }
        outcome.value = {};
        outcome.extent = nullptr;
        return outcome;
      }
      const Refusal refusal = store.TakeRefused();
      if (outcome.code != StatusCode::kResourceExhausted || !store.MayWait(refusal)) {
        text = outcome.code == StatusCode::kOk ? TextOf(core, outcome) : std::string();
        return outcome;
      }
      const auto room = store.Reserve(Reservation::Kind::kOperation, refusal.blocks);
      for (int polls = 0; room->waits(); ++polls) {
        REQUIRE(polls < 100'000);
        Work();
      }
      const RoomScope scope(store, room.get(), room->refused());
      outcome = operation();
      (void)store.TakeRefused();
      if (outcome.code != StatusCode::kResourceExhausted) return outcome;
      if (room->refused()) return outcome;
    }
  }
  HashOutcome Put(std::size_t core, const std::string& key, ValueWriter& value) {
    return Run(core, [&] {
      return partitions[core]->hash().Put(AsBytes(key), KeyHash(AsBytes(key)), value, {},
                                          stores[core]->NowMs());
    });
  }
  std::string Get(std::size_t core, const std::string& key) {
    const HashOutcome outcome = Run(core, [&] {
      return partitions[core]->hash().Get(AsBytes(key), KeyHash(AsBytes(key)),
                                          stores[core]->NowMs());
    });
    REQUIRE(outcome.code == StatusCode::kOk);
    return text;
  }
  std::string TextOf(std::size_t core, const HashOutcome& outcome) {
    if (outcome.location == 0) return {};
    if (outcome.extent == nullptr) return std::string(AsText(outcome.value));
    const ValueReader reader = ValueReader::Pin(partitions[core]->hash(), outcome);
    std::string all;
    while (all.size() < outcome.value_bytes) {
      all += AsText(reader.Part(all.size(), outcome.value_bytes));
    }
    return all;
  }
  void Check() {
    for (const auto& store : stores) store->CheckInvariants();
  }

  ManualClock clock;
  std::shared_ptr<FaultDevice> device;
  std::unique_ptr<Volume> volume;
  std::unique_ptr<ArenaPool> pool;
  std::vector<std::unique_ptr<CoreStore>> stores;
  std::vector<Partition*> partitions;
  std::string text;  // Value of the last Run.
};

std::string Pattern(std::size_t bytes, int salt) {
  std::string value(bytes, static_cast<char>('a' + salt % 26));
  for (std::size_t at = 0; at + 8 < bytes; at += 1'000) {
    value.replace(at, 8, std::to_string(10'000'000 + salt));
  }
  return value;
}

// A client that writes a value part by part.
struct Upload {
  Upload(TwoCores& node, std::size_t at, std::string of, std::string bytes)
      : core(at), key(std::move(of)), value(std::move(bytes)) {
    auto begun = ValueWriter::Begin(*node.stores[core], value.size());
    REQUIRE(begun.ok());
    writer.emplace(*std::move(begun));
  }
  // True: it has ended.
  bool Step(TwoCores& node) {
    REQUIRE_FALSE(writer->refused());
    if (writer->waits()) return false;
    if (written < value.size()) {
      const std::string_view part = std::string_view(value).substr(written, 56 * 1024);
      REQUIRE(writer->Write(written, AsBytes(part)) == StatusCode::kOk);
      written += part.size();
      return false;
    }
    REQUIRE(node.Put(core, key, *writer).code == StatusCode::kOk);
    return true;
  }

  std::size_t core;
  std::string key;
  std::string value;
  std::size_t written = 0;
  std::optional<ValueWriter> writer;
};

// Each core keeps its memory until the other core needs it.
TEST_CASE("ValuesOfHalfTheMemoryFollowEachOtherOnTwoCores") {
  TwoCores node(96, 1'024);
  for (int i = 0; i < 6; ++i) {
    const std::size_t core = static_cast<std::size_t>(i) % 2;
    Upload upload(node, core, KeyOf(i), Pattern(46 * kBlockBytes, i));
    for (int turn = 0; !upload.Step(node); ++turn) {
      REQUIRE(turn < 100'000);
      node.Work();
    }
    node.Check();
  }
  for (int i = 0; i < 6; ++i) {
    REQUIRE(node.Get(static_cast<std::size_t>(i) % 2, KeyOf(i)) == Pattern(46 * kBlockBytes, i));
  }
}

TEST_CASE("ManyLargeValuesAtOnceAllGetTheirMemory") {
  const std::uint64_t seed = TestSeed();
  INFO("TP_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  TwoCores node(96, 4'096);
  std::vector<std::unique_ptr<Upload>> uploads;
  std::map<std::string, std::pair<std::size_t, std::string>> values;
  constexpr int kValues = 120;
  int begun = 0;
  int ended = 0;
  for (int turn = 0; ended < kValues; ++turn) {
    REQUIRE(turn < 1'000'000);
    while (uploads.size() < 12 && begun < kValues) {
      const std::size_t bytes = kBlockBytes + random() % (16 * kBlockBytes);
      uploads.push_back(std::make_unique<Upload>(node, static_cast<std::size_t>(begun) % 2,
                                                 KeyOf(begun), Pattern(bytes, begun)));
      ++begun;
    }
    const std::size_t which = random() % uploads.size();
    // Every tenth client is killed in the middle.
    const bool killed = random() % 500 == 0 && ended + 20 < kValues;
    if (killed || uploads[which]->Step(node)) {
      if (killed) {
        const int again = std::stoi(uploads[which]->key.substr(3));
        const std::string value = uploads[which]->value;
        uploads.erase(uploads.begin() + static_cast<std::ptrdiff_t>(which));
        uploads.push_back(std::make_unique<Upload>(node, static_cast<std::size_t>(again) % 2,
                                                   KeyOf(again), value));
      } else {
        values[uploads[which]->key] = {uploads[which]->core, uploads[which]->value};
        uploads.erase(uploads.begin() + static_cast<std::ptrdiff_t>(which));
        ++ended;
      }
    }
    node.Work();
  }
  node.Check();
  CHECK(values.size() == kValues);
  for (const auto& [key, of] : values) REQUIRE(node.Get(of.first, key) == of.second);
}

TEST_CASE("AValueThatCanNeverFitIsRefusedAtOnceInWords") {
  TwoCores node(64, 1'024);
  const auto begun = ValueWriter::Begin(*node.stores[0], 80 * kBlockBytes);
  REQUIRE(begun.code() == StatusCode::kResourceExhausted);
  CHECK(begun.status().what().find("can never fit") != std::string::npos);
  CHECK(begun.status().remedy().find("--memory") != std::string::npos);
  const std::uint64_t fits = ValueWriter::BytesMax(*node.stores[0]);
  CHECK(fits < 64 * kBlockBytes);
  Upload upload(node, 0, "fits", Pattern(fits - 8 * kBlockBytes, 1));
  for (int turn = 0; !upload.Step(node); ++turn) {
    REQUIRE(turn < 100'000);
    node.Work();
  }
}

TEST_CASE("WhereDevicesAreFullAValueIsRefused") {
  TwoCores node(64, 128);
  int put = 0;
  bool refused = false;
  for (; !refused && put < 100; ++put) {
    const std::size_t core = static_cast<std::size_t>(put) % 2;
    const std::string value = Pattern(8 * kBlockBytes, put);
    auto writer = ValueWriter::Begin(*node.stores[core], value.size());
    REQUIRE(writer.ok());
    for (int turn = 0; writer->waits(); ++turn) {
      REQUIRE(turn < 100'000);
      node.Work();
    }
    refused = writer->refused();
    if (refused) break;
    REQUIRE(writer->Write(0, AsBytes(value)) == StatusCode::kOk);
    REQUIRE(node.Put(core, KeyOf(put), *writer).code == StatusCode::kOk);
  }
  CHECK(refused);
  CHECK(put > 10);
  for (int i = 0; i < put; ++i) {
    REQUIRE(node.Get(static_cast<std::size_t>(i) % 2, KeyOf(i)) == Pattern(8 * kBlockBytes, i));
  }
  node.Check();
}

// A client that is stopped in the middle harms itself only.
TEST_CASE("AWriterThatIsSilentLosesItsMemoryToThoseWhoWait") {
  TwoCores node(96, 1'024);
  auto silent = ValueWriter::Begin(*node.stores[0], 40 * kBlockBytes);
  REQUIRE(silent.ok());
  silent->set_revocable();
  REQUIRE_FALSE(silent->waits());
  REQUIRE(silent->Write(0, AsBytes(Pattern(kBlockBytes, 1))) == StatusCode::kOk);
  Upload other(node, 1, "other", Pattern(50 * kBlockBytes, 2));
  for (int turn = 0; turn < 1'000; ++turn) node.Work();
  REQUIRE_FALSE(other.Step(node));
  REQUIRE(other.writer->waits());
  for (int turn = 0; other.writer->waits(); ++turn) {
    REQUIRE(turn < 1'000);
    node.clock.AdvanceNs(100'000'000);
    node.Work();
  }
  CHECK(silent->Write(kBlockBytes, AsBytes("more")) == StatusCode::kAborted);
  while (!other.Step(node)) node.Work();
  node.Check();
}

// A value that was deleted keeps its memory while a slow client reads it.
TEST_CASE("AValueWaitsForTheMemoryOfOneThatIsRead") {
  TwoCores node(64, 1'024);
  Upload first(node, 0, "first", Pattern(40 * kBlockBytes, 1));
  while (!first.Step(node)) node.Work();
  HashStore& store = node.partitions[0]->hash();
  const std::uint64_t hash = KeyHash(AsBytes("first"));
  const HashOutcome found = store.Get(AsBytes("first"), hash, node.stores[0]->NowMs());
  REQUIRE(found.code == StatusCode::kOk);
  std::optional<ValueReader> reader = ValueReader::Pin(store, found);
  const auto erased = store.Delete(AsBytes("first"), hash, {}, node.stores[0]->NowMs());
  REQUIRE(erased.code == StatusCode::kOk);
  Upload second(node, 1, "second", Pattern(30 * kBlockBytes, 2));
  for (int turn = 0; turn < 1'000; ++turn) {
    REQUIRE_FALSE(second.Step(node));
    node.clock.AdvanceNs(1'000'000);
    node.Work();
  }
  CHECK(second.writer->waits());
  reader.reset();
  for (int turn = 0; !second.Step(node); ++turn) {
    REQUIRE(turn < 10'000);
    node.Work();
  }
  node.Check();
}

// Records of large values leave memory, too.
TEST_CASE("RecordsOfLargeValuesDoNotFillMemory") {
  StoreFixture fixture(Spilling(64, 1'024));
  constexpr int kValues = 300;
  const auto value = [](int i) { return Pattern(kBlockBytes + 30'000, i); };
  for (int i = 0; i < kValues; ++i) {
    REQUIRE(fixture.Put(KeyOf(i), value(i)).code == StatusCode::kOk);
    Work(fixture);
  }
  Quiesce(fixture);
  fixture.core->CheckInvariants();
  for (int i = 0; i < kValues; ++i) REQUIRE(fixture.Text(KeyOf(i)) == value(i));
  for (int i = 0; i < kValues; i += 2) {
    REQUIRE(fixture.Append(KeyOf(i), "+").code == StatusCode::kOk);
  }
  for (int i = 0; i < kValues; i += 3) REQUIRE(fixture.Delete(KeyOf(i)).code == StatusCode::kOk);
  Quiesce(fixture);
  fixture.core->CheckInvariants();
  for (int i = 1; i < kValues; i += 3) {
    REQUIRE(fixture.Text(KeyOf(i)) == value(i) + (i % 2 == 0 ? "+" : ""));
  }
}

}  // namespace
}  // namespace tidepool::storage
