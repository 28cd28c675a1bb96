// Room that is made ahead for the records that are to come, where no filter needs the number:
// NamespaceOptions::expected_items of kinds hash and ordered, against a real daemon.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/client/sdk_fixture.h"
#include "tidepool/v1/cluster.pb.h"

namespace tidepool::testing {
namespace {

constexpr std::uint64_t kExpected = 200'000;
constexpr std::uint64_t kIndexBytes = kExpected * 16;  // See namespace.h.

std::uint64_t IndexBytes(TestCluster& cluster) {
  return cluster.StatusFrom(0).nodes(0).status().memory().index_bytes();
}

TEMPLATE_TEST_CASE("The index of an expected number of records is made before they come", "[kinds]",
                   BytesMap, BytesOrderedMap) {
  TestCluster cluster({.nodes = 1, .cores = 2, .memory = "256MiB"});
  cluster.WaitReady();
  Client client = ConnectTo(cluster);
  const NamespaceOptions expecting{.expected_items = kExpected};
  const auto grown = Open<TestType>(client, "grown");
  const std::uint64_t without = IndexBytes(cluster);
  CHECK(without < kIndexBytes / 10);
  const auto map = Open<TestType>(client, "ready", expecting);
  CHECK(WaitUntil([&] { return IndexBytes(cluster) >= without + kIndexBytes * 3 / 4; }));
  CHECK(IndexBytes(cluster) <= without + kIndexBytes * 3 / 2);

  const auto described = client.List();
  RequireOk(described.status());
  REQUIRE(described->size() >= 2);
  for (const NamespaceInfo& info : *described) {
    CHECK(info.options.expected_items == (info.name == "ready" ? kExpected : 0));
  }
  Client other = ConnectTo(cluster);
  RequireOk(other.OpenOrCreate<TestType>("ready", expecting).status());
  const auto differs = other.OpenOrCreate<TestType>("ready", {.expected_items = 1});
  INFO(differs.status().ToString());
  CHECK(differs.code() == StatusCode::kAlreadyExists);
  CHECK(differs.status().ToString().find("expected_items is 200000, not 1") != std::string::npos);

  // Half of it comes, and needs no more buckets. (An ordered map's tree is counted too.)
  const std::uint64_t ready = IndexBytes(cluster);
  for (int i = 0; i < 100; ++i) {
    const KeyList keys(1'000, std::to_string(i) + ".");
    REQUIRE(map.MultiPut(keys.With("v")).AllOk());
    REQUIRE(map.MultiGet(keys.views).AllOk());
  }
  CHECK(map.Length().value() == 100'000);
  if (TestType::kKind == NamespaceKind::kHash) {
    CHECK(IndexBytes(cluster) <= ready + kIndexBytes / 10);
  }
}

}  // namespace
}  // namespace tidepool::testing
