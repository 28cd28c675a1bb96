#include "daemon/membership/embedded_store.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "daemon/membership/cluster_state.h"
#include "proto/base/key_hash.h"
#include "tests/daemon/membership/example_state.h"
#include "tests/integration/harness.h"

namespace tidepool::daemon {
namespace {

using testing::TemporaryFolder;

std::string ReadText(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

void WriteText(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

TEST_CASE("RangesAreKept") {
  ClusterState state = ExampleState(5);
  auto space = std::make_shared<placement::Namespace>(*state.map.Find("name"));
  space->kind = placement::Kind::kOrdered;
  space->options.split_keys = {"m"};
  space->options.split = "manual";
  space->ranges = std::make_shared<const placement::Ranges>(
      *placement::Ranges::Create({"", std::string("\xff\0\"", 3)}));
  state.map.namespaces[space->id] = space;
  const auto back = DecodeState(EncodeState(state), "path");
  REQUIRE(back.ok());
  const auto kept = back->map.Find("name");
  CHECK(kept->options == space->options);
  REQUIRE(kept->ranges != nullptr);
  CHECK(kept->ranges->BeginOf(1) == space->ranges->BeginOf(1));
  space->ranges = std::make_shared<const placement::Ranges>(*placement::Ranges::Create({""}));
  CHECK(DecodeState(EncodeState(state), "path").status() == StatusCode::kDataLoss);
}

TEST_CASE("EveryTruncationIsNoticed") {
  const TemporaryFolder folder;
  EmbeddedStore store(folder.path());
  REQUIRE(store.Save(ExampleState(1), Epoch(0)).ok());
  const std::string path = store.Describe();
  const std::string good = ReadText(path);
  for (std::size_t size = 0; size < good.size(); ++size) {
    const auto state = DecodeState(good.substr(0, size), path);
    REQUIRE(state.code() == StatusCode::kDataLoss);
    REQUIRE(state.status().what().find(path) != std::string::npos);
  }
}

TEST_CASE("EveryFlippedBitIsNoticed") {
  const std::string good = EncodeState(ExampleState(1));
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    REQUIRE(DecodeState(bad, "x").code() == StatusCode::kDataLoss);
  }
}

std::string WithHeader(const std::string& body, char version = '2') {
  char checksum[17];
  std::snprintf(checksum, sizeof checksum, "%016llx",
                static_cast<unsigned long long>(KeyHash(AsBytes(body))));
  return "tidepool-cluster-state " + std::string(1, version) + " " + std::string(checksum) + " " +
         std::to_string(body.size()) + "\n" + body;
}

TEST_CASE("LossesAndWhoHasDevicesAreKept") {
  const ClusterState state = ExampleState(3);
  const auto read = DecodeState(EncodeState(state), "x");
  REQUIRE(read.ok());
  CHECK(read->nodes == state.nodes);
  CHECK(read->map.Find("name")->losses == state.map.Find("name")->losses);
  CHECK(read->map.Find("name")->partitions == state.map.Find("name")->partitions);
}

TEST_CASE("AStateFromBeforeThereWereTypesIsRead") {
  const std::string written = EncodeState(ExampleState(3));
  std::string body = written.substr(written.find('\n') + 1);
  for (const std::string member :
       {"\"key_type\":\"string\",", ",\"value_type\":\"raw<Particle,48>\""}) {
    const std::size_t at = body.find(member);
    REQUIRE(at != std::string::npos);
    body.erase(at, member.size());
  }
  const auto state = DecodeState(WithHeader(body), "x");
  REQUIRE(state.ok());
  const auto space = state->map.Find("name");
  REQUIRE(space != nullptr);
  CHECK(space->options.ttl_ms == 123);
  CHECK(space->options.key_type.empty());
  CHECK(space->options.value_type.empty());
}

TEST_CASE("AStateOfVersionOneIsRead") {
  std::string body = EncodeState(ExampleState(3));
  body = body.substr(body.find('\n') + 1);
  const std::size_t entries = body.find("\"entries\":");
  REQUIRE(entries != std::string::npos);
  const std::string end = "\"version\":6}],";
  body.erase(entries, body.find(end, entries) + end.size() - entries);
  const auto state = DecodeState(WithHeader(body, '1'), "x");
  INFO(state.status().ToString());
  REQUIRE(state.ok());
  CHECK(state->entries.empty());
  CHECK(state->map.Find("name")->partitions == ExampleState(3).map.Find("name")->partitions);
  CHECK(DecodeState(WithHeader(body, '3'), "x").code() == StatusCode::kDataLoss);
}

TEST_CASE("EntriesAreKept") {
  ClusterState state = ExampleState(3);
  state.entries.begin()->second.copies = {{NodeId(0), 2, CoreId(3), true}};
  const auto read = DecodeState(EncodeState(state), "x");
  REQUIRE(read.ok());
  CHECK(read->entries == state.entries);
}

TEST_CASE("GarbageWithARightChecksumIsStillRefused") {
  // Bytes that a later version or a forger might write.
  const auto seed = std::random_device()();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const std::string good = EncodeState(ExampleState(1));
  const std::string body = good.substr(good.find('\n') + 1);
  int accepted = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string bad = body;
    bad[random() % bad.size()] = static_cast<char>(random());
    const auto state = DecodeState(WithHeader(bad), "x");
    if (!state.ok()) continue;
    ++accepted;  // A letter of a name, for example.
    for (const auto& [id, space] : state->map.namespaces) {
      REQUIRE(id < state->next_namespace);
      for (const auto& place : space->partitions) {
        REQUIRE(place.node.value() < state->map.nodes.size());
      }
    }
  }
  CHECK(accepted > 0);
}

TEST_CASE("ADamagedStateIsReportedAndLeftAlone") {
  const TemporaryFolder folder;
  EmbeddedStore store(folder.path());
  WriteText(store.Describe(), "garbage");
  const auto loaded = store.Load();
  CHECK(loaded.code() == StatusCode::kDataLoss);
  CHECK(loaded.status().remedy().find("restore") != std::string::npos);
  CHECK(ReadText(store.Describe()) == "garbage");
}

TEST_CASE("ALeftOverTemporaryFileDoesNoHarm") {
  const TemporaryFolder folder;
  EmbeddedStore store(folder.path());
  REQUIRE(store.Save(ExampleState(1), Epoch(0)).ok());
  WriteText(store.Describe() + ".tmp-0123456789abcdef", "half a sta");
  CHECK(EmbeddedStore(folder.path()).Load()->has_value());
}

// Three states of a cluster: a namespace is made, then another namespace is dropped and a node
// changes.
std::vector<ClusterState> ThreeStates() {
  std::vector<ClusterState> states(3, ExampleState(1));
  auto made = std::make_shared<placement::Namespace>(*states[0].map.Find("name"));
  made->id = NamespaceId(9);
  made->name = "made";
  made->changed = Epoch(2);
  states[1].map.epoch = Epoch(2);
  states[1].next_namespace = NamespaceId(10);
  states[1].map.namespaces.emplace(made->id, made);
  states[2] = states[1];
  states[2].map.epoch = Epoch(3);
  states[2].map.namespaces.erase(NamespaceId(8));
  states[2].entries.clear();
  states[2].map.nodes[0].incarnation = 8;
  states[2].nodes[0].mark = "other";
  return states;
}

std::string SaveAll(const std::string& folder, const std::vector<ClusterState>& states) {
  EmbeddedStore store(folder);
  Epoch previous(0);
  for (const ClusterState& state : states) {
    REQUIRE(store.Save(state, previous).ok());
    previous = state.map.epoch;
  }
  return store.Describe() + ".log";
}

TEST_CASE("ChangesAreAppendedAndComeBack") {
  const TemporaryFolder folder;
  const std::vector<ClusterState> states = ThreeStates();
  const std::string log = SaveAll(folder.path(), states);
  // The whole state was written once.
  CHECK(DecodeState(ReadText(EmbeddedStore(folder.path()).Describe()), "x")->map.epoch == Epoch(1));
  CHECK(!ReadText(log).empty());
  EmbeddedStore store(folder.path());
  const auto loaded = store.Load();
  REQUIRE(loaded.ok());
  CHECK(EncodeState(**loaded) == EncodeState(states[2]));
  // It goes on where it was.
  ClusterState next = **loaded;
  next.map.epoch = Epoch(4);
  REQUIRE(store.Save(next, Epoch(3)).ok());
  CHECK((*EmbeddedStore(folder.path()).Load())->map.epoch == Epoch(4));
}

TEST_CASE("ACutOffChangeIsTakenForNone") {
  const TemporaryFolder folder;
  const std::vector<ClusterState> states = ThreeStates();
  const std::string log = SaveAll(folder.path(), states);
  const std::string changes = ReadText(log);
  for (std::size_t size = 0; size < changes.size(); ++size) {
    WriteText(log, changes.substr(0, size));
    EmbeddedStore store(folder.path());
    const auto loaded = store.Load();
    REQUIRE(loaded.ok());
    const std::uint64_t epoch = (*loaded)->map.epoch.value();
    REQUIRE(epoch <= 2);
    REQUIRE(EncodeState(**loaded) == EncodeState(states[epoch - 1]));
    // The cut-off rest does not spoil new appends.
    if (size % 50 != 0) continue;
    ClusterState next = **loaded;
    next.map.epoch = Epoch(7);
    REQUIRE(store.Save(next, Epoch(epoch)).ok());
    REQUIRE((*EmbeddedStore(folder.path()).Load())->map.epoch == Epoch(7));
  }
}

TEST_CASE("ADamagedChangeInTheMiddleIsNoticed") {
  const TemporaryFolder folder;
  const std::string log = SaveAll(folder.path(), ThreeStates());
  const std::string changes = ReadText(log);
  const std::size_t second = changes.find("tidepool-cluster-state", 1);
  REQUIRE(second != std::string::npos);
  for (std::size_t i = 0; i < second; ++i) {
    std::string bad = changes;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    WriteText(log, bad);
    REQUIRE(EmbeddedStore(folder.path()).Load().code() == StatusCode::kDataLoss);
  }
}

TEST_CASE("TheWholeStateIsWrittenWhenItsChangesHaveOutgrownIt") {
  const TemporaryFolder folder;
  ClusterState state = ExampleState(1);
  EmbeddedStore store(folder.path());
  REQUIRE(store.Save(state, Epoch(0)).ok());
  std::uint64_t most = 0;
  for (std::uint64_t epoch = 2; epoch < 1'000; ++epoch) {
    auto space = std::make_shared<placement::Namespace>(*state.map.Find("name"));
    space->changed = Epoch(epoch);
    state.map.namespaces[space->id] = space;
    state.map.epoch = Epoch(epoch);
    REQUIRE(store.Save(state, Epoch(epoch - 1)).ok());
    std::error_code none;
    const auto bytes = std::filesystem::file_size(store.Describe() + ".log", none);
    if (!none) most = std::max<std::uint64_t>(most, bytes);
  }
  CHECK(most < 300 * 1024);
  CHECK(EncodeState(**EmbeddedStore(folder.path()).Load()) == EncodeState(state));
}

TEST_CASE("ASaveThatFailsLeavesTheOldState") {
  const TemporaryFolder folder;
  EmbeddedStore store(folder.path() + "/gone");
  CHECK(store.Save(ExampleState(1), Epoch(0)) == StatusCode::kNotFound);
  std::filesystem::create_directory(folder.path() + "/gone");
  REQUIRE(store.Save(ExampleState(1), Epoch(0)).ok());
}

}  // namespace
}  // namespace tidepool::daemon
