#include "daemon/membership/identity.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "proto/cluster_file/random.h"
#include "tests/integration/harness.h"

namespace tidepool::daemon {
namespace {

using testing::TemporaryFolder;

TEST_CASE("ANodeKeepsItsUuidAndRaisesItsIncarnation") {
  const TemporaryFolder folder;
  std::string uuid;
  for (std::uint64_t start = 1; start <= 3; ++start) {
    const auto identity = Identity::Open(folder.path() + "/data");
    REQUIRE(identity.ok());
    CHECK(cluster_file::IsUuid(identity->uuid()));
    CHECK((uuid.empty() || uuid == identity->uuid()));
    uuid = identity->uuid();
    CHECK(identity->incarnation() == start);
  }
}

TEST_CASE("OneLiveDaemonHoldsAFolder") {
  const TemporaryFolder folder;
  auto first = Identity::Open(folder.path());
  REQUIRE(first.ok());
  const auto second = Identity::Open(folder.path());
  CHECK(second.code() == StatusCode::kAborted);
  CHECK(second.status().remedy().find("--data-dir") != std::string::npos);
  first = Status(StatusCode::kAborted, "ended");
  CHECK(Identity::Open(folder.path()).ok());
}

TEST_CASE("ACopiedFolderIsRefusedByName") {
  const TemporaryFolder folder;
  const std::string original = folder.path() + "/a";
  const std::string copy = folder.path() + "/b";
  std::string uuid;
  {
    const auto identity = Identity::Open(original);
    REQUIRE(identity.ok());
    uuid = identity->uuid();
  }
  std::filesystem::copy(original, copy);
  const auto clone = Identity::Open(copy);
  CHECK(clone.code() == StatusCode::kFailedPrecondition);
  CHECK(clone.status().what().find("is a copy of that of node " + uuid) != std::string::npos);
  CHECK(Identity::Open(original).ok());
  // As the message says.
  std::filesystem::remove(copy + "/identity.json");
  const auto fresh = Identity::Open(copy);
  REQUIRE(fresh.ok());
  CHECK(fresh->uuid() != uuid);
}

TEST_CASE("ADamagedIdentityIsSaidSo") {
  const TemporaryFolder folder;
  { REQUIRE(Identity::Open(folder.path()).ok()); }
  const std::string path = folder.path() + "/identity.json";
  for (const char* text : {"", "{", "[1]", "{\"format\": 1}", "{\"format\": 2, \"uuid\": \"x\"}"}) {
    std::ofstream(path, std::ios::trunc) << text;
    const auto identity = Identity::Open(folder.path());
    INFO(text);
    CHECK(identity.code() == StatusCode::kDataLoss);
    CHECK(identity.status().what().find(path) != std::string::npos);
  }
}

TEST_CASE("TheClusterIsRemembered") {
  const TemporaryFolder folder;
  {
    auto identity = Identity::Open(folder.path());
    REQUIRE(identity.ok());
    CHECK(identity->cluster_uuid().empty());
    REQUIRE(identity->RememberCluster("some cluster").ok());
  }
  CHECK(Identity::Open(folder.path())->cluster_uuid() == "some cluster");
}

TEST_CASE("DaemonsOfOneMachineTakeTheFirstFreeFolder") {
  const TemporaryFolder folder;
  auto first = Identity::OpenFirstFree(folder.path());
  const auto second = Identity::OpenFirstFree(folder.path());
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  CHECK(first->folder() != second->folder());
  const std::string uuid = first->uuid();
  first = Status(StatusCode::kAborted, "ended");
  // Started again, it is the node that it was.
  CHECK(Identity::OpenFirstFree(folder.path())->uuid() == uuid);
}

TEST_CASE("AFolderThatCannotBeMadeIsNamed") {
  const TemporaryFolder folder;
  std::ofstream(folder.path() + "/file") << "x";
  const auto identity = Identity::Open(folder.path() + "/file/data");
  CHECK_FALSE(identity.ok());
  CHECK(identity.status().what().find(folder.path() + "/file") != std::string::npos);
}

}  // namespace
}  // namespace tidepool::daemon
