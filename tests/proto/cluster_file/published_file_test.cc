#include "proto/cluster_file/published_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <thread>

#include "proto/cluster_file/job_token.h"
#include "proto/cluster_file/random.h"
#include "tests/integration/harness.h"

namespace tidepool::cluster_file {
namespace {

using testing::TemporaryFolder;

ClusterFile Example(const std::string& folder) {
  ClusterFile file;
  file.cluster_uuid = MakeUuid();
  file.token_file = folder + "/t.token";
  file.nodes = {{MakeUuid(), "127.0.0.1:1", "host"}};
  return file;
}

Probe Nobody() {
  return [](const ClusterFile&, const std::string&) { return false; };
}

TEST_CASE("ThePublishedFileIsReadableByItsOwnerOnly") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/c.json";
  const ClusterFile file = Example(folder.path());
  const auto published = PublishedFile::Create(path, file);
  REQUIRE(published.ok());
  struct stat info {};
  REQUIRE(stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  REQUIRE(Read(path).ok());
  CHECK(*Read(path) == file);
}

TEST_CASE("OfManyStartersExactlyOneWins") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/c.json";
  std::atomic<int> wins{0};
  std::atomic<int> losses{0};
  std::vector<std::thread> starters;
  for (int i = 0; i < 16; ++i) {
    starters.emplace_back([&] {
      const auto published = PublishedFile::Create(path, Example(folder.path()));
      if (published.ok()) ++wins;
      if (published.code() == StatusCode::kAlreadyExists) ++losses;
    });
  }
  for (auto& starter : starters) starter.join();
  CHECK(wins == 1);
  CHECK(losses == 15);
  // Nothing of the losers is left.
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("AFileWhoseCoordinatorLivesIsLiveThoughNobodyAnswers") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/c.json";
  auto published = PublishedFile::Create(path, Example(folder.path()));
  REQUIRE(published.ok());
  auto found = Examine(path, "", Nobody());
  REQUIRE(found.ok());
  CHECK(found->finding == Finding::kLive);
  // After an update the new file has the lock.
  ClusterFile next = published->content();
  next.nodes.push_back({MakeUuid(), "127.0.0.1:2", "host"});
  REQUIRE(published->Update(next).ok());
  CHECK(Examine(path, "", Nobody())->finding == Finding::kLive);
}

TEST_CASE("AFileThatNobodyAnswersForIsStale") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/c.json";
  { REQUIRE(PublishedFile::Create(path, Example(folder.path())).ok()); }
  const auto found = Examine(path, "", Nobody());
  REQUIRE(found.ok());
  CHECK(found->finding == Finding::kStale);
}

TEST_CASE("AFileIsLiveWhileAnyOfItsNodesAnswers") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/c.json";
  ClusterFile file = Example(folder.path());
  file.nodes.push_back({MakeUuid(), "127.0.0.1:2", "host"});
  file.nodes_expected = 2;
  { REQUIRE(PublishedFile::Create(path, file).ok()); }
  const auto found = Examine(path, "", [&](const ClusterFile& of, const std::string& address) {
    return address == "127.0.0.1:2" && of.cluster_uuid == file.cluster_uuid;
  });
  CHECK(found->finding == Finding::kLive);
}

TEST_CASE("AFileOfAnotherJobIsStaleWhoeverAnswers") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/c.json";
  ClusterFile file = Example(folder.path());
  file.job_id = "17";
  const auto published = PublishedFile::Create(path, file);
  REQUIRE(published.ok());
  const auto all = [](const ClusterFile&, const std::string&) { return true; };
  CHECK(Examine(path, "18", all)->finding == Finding::kStale);
  CHECK(Examine(path, "17", all)->finding == Finding::kLive);
}

TEST_CASE("NothingIsFoundWhereNoFileIs") {
  const TemporaryFolder folder;
  const auto found = Examine(folder.path() + "/c.json", "", Nobody());
  REQUIRE(found.ok());
  CHECK(found->finding == Finding::kNothing);
}

TEST_CASE("AStaleFileIsMovedAsideWithItsTokenRemoved") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/c.json";
  const ClusterFile file = Example(folder.path());
  REQUIRE(WriteTokenFile(file.token_file, MakeToken()).ok());
  { REQUIRE(PublishedFile::Create(path, file).ok()); }
  REQUIRE(MoveAside(path, file).ok());
  CHECK_FALSE(std::filesystem::exists(path));
  CHECK_FALSE(std::filesystem::exists(file.token_file));
  CHECK(std::filesystem::exists(path + ".stale-" + file.cluster_uuid.substr(0, 8)));
}

TEST_CASE("ANewFileIsNotMovedAsideInPlaceOfAStaleOne") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/c.json";
  const ClusterFile stale = Example(folder.path());
  const ClusterFile fresh = Example(folder.path());
  const auto published = PublishedFile::Create(path, fresh);
  REQUIRE(published.ok());
  REQUIRE(MoveAside(path, stale).ok());
  CHECK(Read(path)->cluster_uuid == fresh.cluster_uuid);
}

TEST_CASE("AnUpdateLeavesTheFileOfAnotherClusterAlone") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/c.json";
  auto published = PublishedFile::Create(path, Example(folder.path()));
  REQUIRE(published.ok());
  unlink(path.c_str());
  const ClusterFile other = Example(folder.path());
  const auto others = PublishedFile::Create(path, other);
  REQUIRE(others.ok());
  const Status updated = published->Update(published->content());
  CHECK(updated == StatusCode::kFailedPrecondition);
  published->Remove();
  CHECK(*Read(path) == other);
}

TEST_CASE("ACoordinatorThatComesBackTakesOverItsFile") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/c.json";
  ClusterFile file = Example(folder.path());
  { REQUIRE(PublishedFile::Create(path, file).ok()); }
  file.nodes[0].control_address = "127.0.0.1:9";
  const auto adopted = PublishedFile::Adopt(path, file);
  REQUIRE(adopted.ok());
  CHECK(*Read(path) == file);
  CHECK(Examine(path, "", Nobody())->finding == Finding::kLive);
  CHECK(PublishedFile::Adopt(path, Example(folder.path())).code() ==
        StatusCode::kFailedPrecondition);
}

TEST_CASE("ARemovedFileTakesItsTokenAlong") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/c.json";
  const ClusterFile file = Example(folder.path());
  REQUIRE(WriteTokenFile(file.token_file, MakeToken()).ok());
  auto published = PublishedFile::Create(path, file);
  REQUIRE(published.ok());
  published->Remove();
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("TheFileOfAnEndedClusterGoesWithItsSecretsUnlessAnotherStandsThere") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/c.json";
  const ClusterFile ended = Example(folder.path());
  const ClusterFile next = Example(folder.path());
  REQUIRE(WriteTokenFile(next.token_file, MakeToken()).ok());
  { REQUIRE(PublishedFile::Create(path, next).ok()); }
  RemoveEnded(path, ended);
  CHECK(*Read(path) == next);
  RemoveEnded(path, next);
  CHECK(std::filesystem::is_empty(folder.path()));
  RemoveEnded(path, next);  // Again changes nothing.
}

TEST_CASE("AFileInAMissingFolderNamesTheFolder") {
  const TemporaryFolder folder;
  const auto made = PublishedFile::Create(folder.path() + "/no/c.json", Example(folder.path()));
  CHECK(made.code() == StatusCode::kNotFound);
  CHECK(made.status().remedy().find(folder.path() + "/no") != std::string::npos);
}

TEST_CASE("OneStarterAtATimeHoldsTheStartLock") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/c.json";
  auto first = TakeStartLock(path, 1000);
  REQUIRE(first.ok());
  CHECK(TakeStartLock(path, 50).code() == StatusCode::kDeadlineExceeded);
  first = Status(StatusCode::kAborted, "given back");
  CHECK(TakeStartLock(path, 1000).ok());
}

}  // namespace
}  // namespace tidepool::cluster_file
