// Copies between two stores over the real transport, without daemons: what arrives is what the
// source holds, whatever changes meanwhile.
#include "daemon/copies/copies.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <ctime>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "proto/base/key_hash.h"
#include "proto/transport/node_transport.h"
#include "tests/storage/store_fixture.h"

namespace tidepool::daemon {
namespace {

using Stage = CopyJob::Stage;

const PartitionId kPartition(NamespaceId(1), 0);
constexpr std::uint64_t kSliceOfTest = 50'000;
constexpr int kRoundsMax = 200'000;

// One core: a worker, a store, its copies.
struct Side final : transport::Receiver {
  Side(storage::CoreStore* of_store, transport::TransportUse use, const std::string& folder)
      : store(*of_store),
        copies(store, {[this](PartitionId id, Term) {
                         store.Find(id)->Freeze();
                         return true;
                       },
                       [this](PartitionId id, Term term) {
                         storage::Partition* held = store.Find(id);
                         if (held != nullptr && held->term() == term) held->Thaw();
                       }}) {
    transport::NodeTransportSettings settings;
    settings.use = use;
    settings.ring.folder = folder;
    settings.ring.memory_bytes = 64 << 20;
    context = *transport::MakeNodeContext(settings);
    worker = *context->MakeWorker(this);
    copies.Start(worker.get(), &pool);
  }
  ~Side() override {
    copies.Stop();
    worker.reset();
  }

  void OnFrame(Bytes frame) override {
    if (wire::IsCopyFrame(frame)) copies.OnFrame(frame, Clock::Real().MonotonicNs());
  }
  void OnPeerLost(transport::Endpoint* endpoint, const Status&) override {
    (void)copies.OnPeerLost(endpoint);
  }
  void Pump() {
    worker->Progress();
    if (copies.active()) (void)copies.Slice(kSliceOfTest);
    copies.OnTimer(Clock::Real().MonotonicNs());
    store.BackgroundSlice(10'000);
  }

  storage::CoreStore& store;
  transport::BufferPool pool;
  Copies copies;
  std::unique_ptr<transport::Context> context;
  std::unique_ptr<transport::Worker> worker;
};

struct Pair {
  explicit Pair(transport::TransportUse use = transport::TransportUse::kAuto,
                std::uint64_t target_bytes = 256ull << 20) {
    storage::StoreOptions options;
    options.memory_bytes = 256ull << 20;
    source_store = std::make_unique<storage::StoreFixture>(options);
    storage::ArenaPoolOptions pool_options;
    pool_options.memory_bytes = target_bytes;
    target_pool = storage::ArenaPool::Create(pool_options).value();
    target_store = storage::CoreStore::Create({}, target_pool.get(), &source_store->clock).value();
    source = std::make_unique<Side>(source_store->core.get(), use, "/tmp");
    target = std::make_unique<Side>(target_store.get(), use, "/tmp");
  }

  // As the mover does it.
  void Begin(std::uint64_t version, std::uint64_t link = 77) {
    const CopyPeer peer{NodeId(1), 1, CoreId(0)};
    if (const std::uint64_t found = source->copies.FindLink(peer); found != 0) link = found;
    const Status opened =
        target->copies.Open(kPartition, Term(1), version, target_options, link, NodeId(0),
                            CoreId(0), transport::TagAddress(source->worker->Address(), link));
    INFO(opened.ToString());
    REQUIRE(opened.ok());
    job =
        std::make_shared<CopyJob>(kPartition, Term(1), version, link, target_options.has_replicas);
    const Status begun =
        source->copies.Begin(job, peer, transport::TagAddress(target->worker->Address(), link));
    INFO(begun.ToString());
    REQUIRE(begun.ok());
  }
  void Pump() {
    source->Pump();
    if (target != nullptr) target->Pump();
  }
  bool PumpUntil(Stage stage) {
    for (int i = 0; i < kRoundsMax && job->stage.load() != stage; ++i) Pump();
    return job->stage.load() == stage;
  }

  // One change of the source, noted in `model`.
  void Change(std::mt19937* random) {
    const std::string key = "key" + std::to_string((*random)() % 3'000);
    constexpr std::size_t kSizes[] = {0, 8, 100, 4'000, 32'768, 32'769, 200'000, 1'200'000};
    const std::size_t bytes = kSizes[(*random)() % ((*random)() % 20 == 0 ? 8 : 4)];
    const std::string value(bytes, static_cast<char>('a' + (*random)() % 26));
    const unsigned what = (*random)() % 8;
    if (what == 0) {
      (void)source_store->Delete(key);
      model.erase(key);
    } else if (what == 1 && value.size() <= 4'000) {
      REQUIRE(source_store->Append(key, value).code == StatusCode::kOk);
      model[key] += value;
    } else if (bytes > 1'048'576) {
      auto writer = storage::ValueWriter::Begin(*source_store->core, bytes);
      REQUIRE(writer.ok());
      REQUIRE(writer->Write(0, AsBytes(value)) == StatusCode::kOk);
      REQUIRE(
          source_store->store
              ->Put(AsBytes(key), KeyHash(AsBytes(key)), *writer, {}, source_store->core->NowMs())
              .code == StatusCode::kOk);
      model[key] = value;
    } else {
      REQUIRE(source_store->Put(key, value).code == StatusCode::kOk);
      model[key] = value;
    }
  }
  // The copy is adopted, and has what the source has, under the same versions.
  void ExpectEqual() {
    storage::Partition* adopted = target_store->Adopt(kPartition, Term(2));
    REQUIRE(adopted != nullptr);
    CHECK(adopted->records() == model.size());
    for (const auto& [key, value] : model) {
      const std::uint64_t hash = KeyHash(AsBytes(key));
      const auto found = adopted->hash().Get(AsBytes(key), hash, target_store->NowMs());
      INFO(key);
      REQUIRE(found.code == StatusCode::kOk);
      REQUIRE(found.version == source_store->Get(key).version);
      REQUIRE(found.value_bytes == value.size());
      auto reader = storage::ValueReader::Pin(adopted->hash(), found);
      for (std::uint64_t at = 0; at < value.size();) {
        const Bytes part = reader.Part(at, value.size());
        REQUIRE(AsText(part) == std::string_view(value).substr(at, part.size()));
        at += part.size();
      }
    }
    target_store->CheckInvariants();
  }

  std::unique_ptr<storage::StoreFixture> source_store;
  std::unique_ptr<storage::ArenaPool> target_pool;
  std::unique_ptr<storage::CoreStore> target_store;
  std::unique_ptr<Side> source;
  std::unique_ptr<Side> target;
  std::shared_ptr<CopyJob> job;
  std::map<std::string, std::string> model;
  storage::PartitionOptions target_options;
};

// What the source did to a key, and what an answer about it would wait for.
struct Done {
  std::string value;  // Empty: it was deleted, or is empty.
  bool there = false;
  CopyWaits waits;
};

// A pair whose target is a replica: answers wait for it.
struct ReplicaPair : Pair {
  explicit ReplicaPair(std::uint64_t target_bytes = 256ull << 20)
      : Pair(transport::TransportUse::kAuto, target_bytes) {
    target_options.has_replicas = true;
  }
  // A map whose entry names the copy `version`, or none.
  placement::PlacementMap MapWith(std::optional<std::uint64_t> version, Term term = Term(1),
                                  NodeId owner = NodeId(0)) {
    auto space = std::make_shared<placement::Namespace>();
    space->id = kPartition.space();
    space->options.replicas = 2;
    space->partitions.push_back({owner, CoreId(0), term});
    if (version.has_value()) {
      space->partitions[0].copies.push_back({NodeId(1), 1, CoreId(0), true, *version});
    }
    placement::PlacementMap map;
    map.namespaces.emplace(space->id, space);
    return map;
  }
  void ChangeNoting(std::mt19937* random) {
    const std::map<std::string, std::string> before = model;
    Change(random);
    for (const auto& [key, value] : model) {
      const auto found = before.find(key);
      if (found == before.end() || found->second != value) Note(key, &value);
    }
    for (const auto& [key, value] : before) {
      if (!model.contains(key)) Note(key, nullptr);
    }
  }
  void Note(const std::string& key, const std::string* value) {
    Done done{value == nullptr ? "" : *value, value != nullptr, {}};
    source->copies.AddWaits(kPartition, &done.waits);
    history[key].push_back(std::move(done));
  }
  // The target takes over: each key is as its last settled change left it, or as a later one did.
  void ExpectSettled(std::size_t* settled) {
    storage::Partition* adopted = target_store->Adopt(kPartition, Term(2));
    REQUIRE(adopted != nullptr);
    for (auto& [key, changes] : history) {
      std::size_t first = 0;
      bool any_settled = false;
      for (std::size_t i = 0; i < changes.size(); ++i) {
        if (changes[i].waits.state() != CopyWaits::State::kSettled) continue;
        first = i;
        any_settled = true;
        ++*settled;
      }
      const std::uint64_t hash = KeyHash(AsBytes(key));
      const auto found = adopted->hash().Get(AsBytes(key), hash, target_store->NowMs());
      std::string value;
      if (found.code == StatusCode::kOk) {
        auto reader = storage::ValueReader::Pin(adopted->hash(), found);
        while (value.size() < found.value_bytes) {
          value += AsText(reader.Part(value.size(), found.value_bytes));
        }
      }
      const bool is_one =
          std::any_of(changes.begin() + static_cast<std::ptrdiff_t>(first), changes.end(),
                      [&](const Done& done) {
                        return done.there == (found.code == StatusCode::kOk) && done.value == value;
                      });
      INFO(key << " has " << value.size() << " bytes");
      const bool is_untouched = !any_settled && found.code == StatusCode::kNotFound;
      CHECK((is_one || is_untouched));
    }
    target_store->CheckInvariants();
  }

  std::map<std::string, std::vector<Done>> history;
};

TEST_CASE("ACopyEqualsItsSourceThatChangesMeanwhile") {
  const auto use = GENERATE(transport::TransportUse::kAuto, transport::TransportUse::kUcx);
  const auto seed = std::random_device()();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  Pair pair(use);
  for (int i = 0; i < 4'000; ++i) pair.Change(&random);
  pair.Begin(1);
  for (int i = 0; i < 3'000; ++i) {
    pair.Change(&random);
    if (i % 3 == 0) pair.Pump();
  }
  REQUIRE(pair.PumpUntil(Stage::kFollowing));
  for (int i = 0; i < 300; ++i) {
    pair.Change(&random);
    pair.Pump();
  }
  REQUIRE(pair.source->copies.Hold(*pair.job) == StatusCode::kOk);
  CHECK(pair.source_store->partition->frozen());
  REQUIRE(pair.PumpUntil(Stage::kWhole));
  pair.source->copies.End(*pair.job, Copies::Ending::kMoved);
  CHECK(pair.source_store->partition->frozen());  // Until a map comes.
  pair.ExpectEqual();
}

TEST_CASE("WhatIsLeftOfACopyThatWasGivenUpDoesNotReachTheNextOne") {
  const auto seed = std::random_device()();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  Pair pair;
  for (int i = 0; i < 3'000; ++i) pair.Change(&random);
  for (std::uint64_t version = 1; version <= 6; ++version) {
    pair.Begin(version);
    for (unsigned i = random() % 200; i > 0; --i) {
      pair.Change(&random);
      pair.Pump();
    }
    // Messages, and later the drop, are still on their way when the next copy is opened.
    pair.source->copies.End(*pair.job, Copies::Ending::kStays);
    CHECK_FALSE(pair.source_store->partition->frozen());
    for (int i = 0; i < 50; ++i) pair.Change(&random);
  }
  pair.Begin(7);
  REQUIRE(pair.PumpUntil(Stage::kFollowing));
  REQUIRE(pair.source->copies.Hold(*pair.job) == StatusCode::kOk);
  REQUIRE(pair.PumpUntil(Stage::kWhole));
  pair.ExpectEqual();
}

TEST_CASE("AHoldThatEndsServesOnAndTheCopyIsDropped") {
  Pair pair;
  std::mt19937 random(1);
  for (int i = 0; i < 500; ++i) pair.Change(&random);
  pair.Begin(1);
  REQUIRE(pair.PumpUntil(Stage::kFollowing));
  REQUIRE(pair.source->copies.Hold(*pair.job) == StatusCode::kOk);
  REQUIRE(pair.PumpUntil(Stage::kWhole));
  pair.source->copies.End(*pair.job, Copies::Ending::kStays);
  CHECK_FALSE(pair.source_store->partition->frozen());
  for (int i = 0; i < kRoundsMax && pair.target_store->FindIncoming(kPartition) != nullptr; ++i) {
    pair.Pump();
  }
  CHECK(pair.target_store->FindIncoming(kPartition) == nullptr);
  for (int i = 0; i < 500; ++i) pair.Change(&random);
}

TEST_CASE("ALostTargetEndsTheCopyAndALostSourceDropsIt") {
  Pair pair;
  std::mt19937 random(1);
  for (int i = 0; i < 3'000; ++i) pair.Change(&random);
  pair.Begin(1);
  for (int i = 0; i < 20; ++i) pair.Pump();
  const bool source_ends = GENERATE(false, true);
  if (source_ends) {
    pair.source.reset();
    for (int i = 0; i < kRoundsMax && pair.target_store->FindIncoming(kPartition) != nullptr; ++i) {
      pair.target->Pump();
    }
    CHECK(pair.target_store->FindIncoming(kPartition) == nullptr);
    CHECK(pair.job->stage.load() == Stage::kFailed);
  } else {
    pair.target.reset();
    CHECK(pair.target_store->FindIncoming(kPartition) == nullptr);
    REQUIRE(pair.PumpUntil(Stage::kFailed));
    CHECK(pair.job->code.load() == StatusCode::kUnavailable);
    pair.source->copies.End(*pair.job, Copies::Ending::kStays);
  }
  for (int i = 0; i < 100; ++i) pair.Change(&random);
}

TEST_CASE("ATargetWithoutMemorySaysSo") {
  Pair pair(transport::TransportUse::kAuto, 32ull << 20);
  const std::string value(100'000, 'v');
  for (int i = 0; i < 600; ++i) {
    REQUIRE(pair.source_store->Put("key" + std::to_string(i), value).code == StatusCode::kOk);
  }
  pair.Begin(1);
  REQUIRE(pair.PumpUntil(Stage::kFailed));
  CHECK(pair.job->code.load() == StatusCode::kResourceExhausted);
  CHECK(pair.target_store->FindIncoming(kPartition) == nullptr);
}

TEST_CASE("FramesOfStrangersAndGarbageDoNothing") {
  Pair pair;
  std::mt19937 random(7);
  for (int i = 0; i < 300; ++i) pair.Change(&random);
  pair.Begin(1);
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::byte> frame(sizeof(wire::CopyFrameHeader) + random() % 200);
    for (std::byte& byte : frame) byte = static_cast<std::byte>(random());
    wire::CopyFrameHeader header;
    header.link = random();  // Nobody guesses 64 bits.
    header.position = random() % 3;
    StoreUnaligned(frame.data(), header);
    pair.target->OnFrame(frame);
    pair.source->OnFrame(frame);
    wire::CopyMessages messages(Bytes(frame).subspan(sizeof header));
    wire::CopyMessage message;
    while (messages.Next(&message)) {
    }
  }
  REQUIRE(pair.PumpUntil(Stage::kFollowing));
  REQUIRE(pair.source->copies.Hold(*pair.job) == StatusCode::kOk);
  REQUIRE(pair.PumpUntil(Stage::kWhole));
  pair.ExpectEqual();
}

TEST_CASE("AReplicaHasAllThatIsSettledWheneverItsOwnerEnds") {
  for (int history = 0; history < 12; ++history) {
    const auto seed = std::random_device()();
    INFO("seed " << seed);
    std::mt19937 random(seed);
    ReplicaPair pair;
    const unsigned before = random() % 300;
    for (unsigned i = 0; i < before; ++i) pair.ChangeNoting(&random);
    pair.Begin(3);
    REQUIRE(pair.PumpUntil(Stage::kCaughtUp));
    const unsigned changes = random() % 400;
    for (unsigned i = 0; i < changes; ++i) {
      pair.ChangeNoting(&random);
      if (random() % 3 == 0) pair.source->Pump();
      if (random() % 3 == 0) pair.target->Pump();
      pair.source->copies.Flush();
    }
    for (unsigned i = random() % 6; i > 0; --i) pair.Pump();
    pair.source.reset();  // Its frames under way may come, or not.
    for (unsigned i = random() % 50; i > 0; --i) pair.target->Pump();
    REQUIRE(pair.target_store->FindIncoming(kPartition) != nullptr);
    std::size_t settled = 0;
    pair.ExpectSettled(&settled);
    CHECK(settled >= before / 2);
  }
}

TEST_CASE("AnAnswerWaitsForTheReplicaAndForNothingElse") {
  ReplicaPair pair;
  std::mt19937 random(5);
  for (int i = 0; i < 50; ++i) pair.ChangeNoting(&random);
  for (const auto& [key, changes] : pair.history) {
    for (const Done& done : changes) CHECK(done.waits.empty());  // Nobody was there.
  }
  pair.Begin(3);
  REQUIRE(pair.PumpUntil(Stage::kCaughtUp));
  CopyWaits read;
  pair.source->copies.AddWaits(kPartition, &read);
  CHECK(read.empty());
  REQUIRE(pair.source_store->Put("key", "value").code == StatusCode::kOk);
  CopyWaits put;
  pair.source->copies.AddWaits(kPartition, &put);
  CHECK(put.state() == CopyWaits::State::kWaiting);
  for (int i = 0; i < kRoundsMax && put.state() == CopyWaits::State::kWaiting; ++i) pair.Pump();
  CHECK(put.state() == CopyWaits::State::kSettled);
}

TEST_CASE("OnlyAMapWithoutTheReplicaEndsTheWaitForALostOne") {
  ReplicaPair pair;
  pair.Begin(3);
  REQUIRE(pair.PumpUntil(Stage::kCaughtUp));
  pair.target.reset();
  REQUIRE(pair.PumpUntil(Stage::kFailed));
  REQUIRE(pair.source_store->Put("key", "value").code == StatusCode::kOk);
  CopyWaits put;
  pair.source->copies.AddWaits(kPartition, &put);
  for (int i = 0; i < 1'000; ++i) pair.source->Pump();
  CHECK(put.state() == CopyWaits::State::kWaiting);
  pair.source->copies.OnMap(pair.MapWith(3), NodeId(0));
  CHECK(put.state() == CopyWaits::State::kWaiting);
  pair.source->copies.OnMap(pair.MapWith(std::nullopt), NodeId(0));
  CHECK(put.state() == CopyWaits::State::kSettled);
  CopyWaits later;
  pair.source->copies.AddWaits(kPartition, &later);
  CHECK(later.empty());
}

TEST_CASE("TheWaitForALargeValueThatIsReplacedEndsBehindItsSuccessor") {
  ReplicaPair pair;
  pair.Begin(3);
  REQUIRE(pair.PumpUntil(Stage::kCaughtUp));
  const std::string value(2 << 20, 'l');
  auto writer = storage::ValueWriter::Begin(*pair.source_store->core, value.size());
  REQUIRE(writer.ok());
  REQUIRE(writer->Write(0, AsBytes(value)) == StatusCode::kOk);
  REQUIRE(pair.source_store->store
              ->Put(AsBytes("key"), KeyHash(AsBytes("key")), *writer, {},
                    pair.source_store->core->NowMs())
              .code == StatusCode::kOk);
  CopyWaits large;
  pair.source->copies.AddWaits(kPartition, &large);
  REQUIRE(pair.source_store->Delete("key").code == StatusCode::kOk);
  CHECK(large.state() == CopyWaits::State::kWaiting);  // The replica has neither of them.
  for (int i = 0; i < kRoundsMax && large.state() == CopyWaits::State::kWaiting; ++i) pair.Pump();
  CHECK(large.state() == CopyWaits::State::kSettled);
}

TEST_CASE("AChangeBehindALinkThatWasFoundLostIsNotSettled") {
  ReplicaPair pair;
  pair.Begin(3);
  REQUIRE(pair.PumpUntil(Stage::kCaughtUp));
  // An acknowledgement of what was never sent.
  wire::CopyMessage message;
  message.kind = wire::CopyMessageKind::kAck;
  message.number = 1ull << 40;
  wire::CopyFrameHeader header;
  header.core = 0;
  header.link = 77;
  std::vector<std::byte> frame(sizeof header + wire::BytesOf(message));
  StoreUnaligned(frame.data(), header);
  (void)wire::EncodeCopyMessage(message, frame.data() + sizeof header);
  pair.source->copies.OnFrame(frame, Clock::Real().MonotonicNs());
  REQUIRE(pair.source_store->Put("key", "value").code == StatusCode::kOk);
  CopyWaits put;
  pair.source->copies.AddWaits(kPartition, &put);
  CHECK(put.state() == CopyWaits::State::kWaiting);
}

TEST_CASE("AMapWithoutTheReplicaEndsTheHoldOfItsSlowLink") {
  ReplicaPair pair;
  pair.Begin(3);
  REQUIRE(pair.PumpUntil(Stage::kCaughtUp));
  const std::string value(32'000, 'v');
  storage::Partition* const held = pair.source->store.Find(kPartition);
  for (int i = 0; i < 3'000 && !held->frozen(); ++i) {
    REQUIRE(pair.source_store->Put("key" + std::to_string(i % 100), value).code == StatusCode::kOk);
    (void)pair.source->copies.Slice(kSliceOfTest);
  }
  REQUIRE(held->frozen());
  pair.source->copies.OnMap(pair.MapWith(std::nullopt), NodeId(0));
  CHECK_FALSE(held->frozen());
}

TEST_CASE("AMapThatNamesALaterCopyEndsTheEarlierOneOnBothSides") {
  ReplicaPair pair;
  pair.Begin(3);
  REQUIRE(pair.PumpUntil(Stage::kCaughtUp));
  pair.target->copies.OnMap(pair.MapWith(3), NodeId(1));
  CHECK(pair.target_store->FindIncoming(kPartition) != nullptr);
  pair.source->copies.OnMap(pair.MapWith(5), NodeId(0));
  CHECK(pair.job->stage.load() == Stage::kGone);
  pair.target->copies.OnMap(pair.MapWith(5), NodeId(1));
  CHECK(pair.target_store->FindIncoming(kPartition) == nullptr);
  pair.Begin(5);
  REQUIRE(pair.PumpUntil(Stage::kCaughtUp));
}

TEST_CASE("WhereAnotherNodeBecameTheOwnerAnUntakenChangeIsUnknown") {
  ReplicaPair pair;
  pair.Begin(3);
  REQUIRE(pair.PumpUntil(Stage::kCaughtUp));
  REQUIRE(pair.source_store->Put("taken", "value").code == StatusCode::kOk);
  CopyWaits taken;
  pair.source->copies.AddWaits(kPartition, &taken);
  for (int i = 0; i < kRoundsMax && taken.state() == CopyWaits::State::kWaiting; ++i) pair.Pump();
  REQUIRE(pair.source_store->Put("untaken", "value").code == StatusCode::kOk);
  CopyWaits untaken;
  pair.source->copies.AddWaits(kPartition, &untaken);
  pair.source_store->core->DropPartition(kPartition);  // As Ownership::Install does.
  pair.source->copies.OnMap(pair.MapWith(std::nullopt, Term(2), NodeId(1)), NodeId(0));
  CHECK(taken.state() == CopyWaits::State::kSettled);
  CHECK(untaken.state() == CopyWaits::State::kVoid);
}

TEST_CASE("AFormerOwnerGetsNoAcknowledgementFromItsSuccessor") {
  ReplicaPair pair;
  pair.Begin(3);
  REQUIRE(pair.PumpUntil(Stage::kCaughtUp));
  REQUIRE(pair.target_store->Adopt(kPartition, Term(2)) != nullptr);
  const placement::PlacementMap taken = pair.MapWith(std::nullopt, Term(2), NodeId(1));
  pair.target->copies.OnMap(taken, NodeId(1));
  // The former owner was stopped meanwhile, and goes on.
  REQUIRE(pair.source_store->Put("late", "value").code == StatusCode::kOk);
  CopyWaits late;
  pair.source->copies.AddWaits(kPartition, &late);
  REQUIRE(pair.PumpUntil(Stage::kFailed));
  for (int i = 0; i < 1'000; ++i) pair.Pump();
  CHECK(late.state() == CopyWaits::State::kWaiting);
  pair.source_store->core->DropPartition(kPartition);
  pair.source->copies.OnMap(taken, NodeId(0));
  CHECK(late.state() == CopyWaits::State::kVoid);
}

TEST_CASE("AReplicaWithoutMemoryKeepsWhatItHasAndCountsNoMore") {
  ReplicaPair pair(32ull << 20);
  pair.Begin(3);
  REQUIRE(pair.PumpUntil(Stage::kCaughtUp));
  const std::string value(100'000, 'v');
  for (int i = 0; i < 600 && pair.job->stage.load() != Stage::kFailed; ++i) {
    const std::string key = "key" + std::to_string(i);
    REQUIRE(pair.source_store->Put(key, value).code == StatusCode::kOk);
    pair.Note(key, &value);
    for (int k = 0; k < 20; ++k) pair.Pump();
  }
  REQUIRE(pair.PumpUntil(Stage::kFailed));
  CHECK(pair.job->code.load() == StatusCode::kResourceExhausted);
  CHECK_FALSE(pair.history.contains("key599"));
  std::size_t settled = 0;
  pair.ExpectSettled(&settled);
  CHECK(settled > 10);
}

// Both sides run on one thread, so this is the processor time of source and target together.
TEST_CASE("RateOfACopy", "[.rate]") {
  const auto use = GENERATE(transport::TransportUse::kAuto, transport::TransportUse::kUcx);
  const std::size_t bytes = GENERATE(64, 4'096);
  Pair pair(use);
  const std::string value(bytes, 'v');
  const std::uint64_t records = (100u << 20) / (bytes + 64);
  for (std::uint64_t i = 0; i < records; ++i) {
    REQUIRE(pair.source_store->Put("key" + std::to_string(i), value).code == StatusCode::kOk);
  }
  const std::clock_t begin = std::clock();
  pair.Begin(1);
  REQUIRE(pair.PumpUntil(Stage::kFollowing));
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  const double payload = static_cast<double>(records * bytes);
  WARN((use == transport::TransportUse::kAuto ? "ring, " : "ucx, ")
       << bytes << " B: " << payload / seconds / 1e6 << " MB of values per processor second, "
       << static_cast<double>(records) / seconds / 1e6 << " M records");
}

}  // namespace
}  // namespace tidepool::daemon
