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
  for (const auto& clone : {Identity::Open(copy), Identity::Examine(copy)}) {
    CHECK(clone.code() == StatusCode::kFailedPrecondition);
    CHECK(clone.status().what().find("is a copy of that of node " + uuid) != std::string::npos);
    CHECK(clone.status().remedy().find("--adopt") != std::string::npos);
  }
  {
    const auto live = Identity::Open(original);
    REQUIRE(live.ok());
    // Both would live: no word of the user's makes this right.
    CHECK(Identity::Open(copy, /*adopt=*/true).code() == StatusCode::kFailedPrecondition);
  }
  const auto adopted = Identity::Open(copy, /*adopt=*/true);
  REQUIRE(adopted.ok());
  CHECK(adopted->uuid() == uuid);
  CHECK(adopted->incarnation() > Identity::Open(original, true)->incarnation() - 1'000'000);
}

TEST_CASE("AFolderMayMove") {
  const TemporaryFolder folder;
  std::string uuid;
  {
    const auto identity = Identity::Open(folder.path() + "/a");
    REQUIRE(identity.ok());
    CHECK(identity->moved().empty());
    uuid = identity->uuid();
  }
  // Like a restored folder: another path, another inode.
  std::filesystem::copy(folder.path() + "/a", folder.path() + "/b");
  std::filesystem::remove_all(folder.path() + "/a");
  CHECK_FALSE(Identity::Examine(folder.path() + "/b")->moved().empty());
  const auto moved = Identity::Open(folder.path() + "/b");
  REQUIRE(moved.ok());
  CHECK(moved->uuid() == uuid);
  CHECK_FALSE(moved->moved().empty());
}

TEST_CASE("AMarkIsNewAfterEachStartThatWasAdmitted") {
  const TemporaryFolder folder;
  std::string first;
  {
    auto identity = Identity::Open(folder.path());
    REQUIRE(identity.ok());
    first = identity->mark();
    CHECK(identity->mark_before().empty());
  }
  {
    auto identity = Identity::Open(folder.path());
    CHECK(identity->mark() == first);  // It was not admitted.
    REQUIRE(identity->RememberJoin("some cluster").ok());
    CHECK(identity->mark() == first);
  }
  const auto identity = Identity::Open(folder.path());
  CHECK(identity->mark() != first);
  CHECK(identity->mark_before() == first);
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
