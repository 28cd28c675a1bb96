#include "daemon/membership/founding.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <map>

#include "proto/cluster_file/random.h"
#include "tests/integration/harness.h"

namespace tidepool::daemon {
namespace {

using cluster_file::ClusterFile;
using cluster_file::PublishedFile;
using testing::TemporaryFolder;

struct FoundingFixture {
  FoundingFixture() {
    auto opened = Identity::Open(folder.path() + "/data");
    REQUIRE(opened.ok());
    identity.emplace(*std::move(opened));
    context.path = folder.path() + "/cluster.json";
    context.options = &options;
    context.identity = &*identity;
    context.environment = [this](const std::string& name) -> std::optional<std::string> {
      const auto found = variables.find(name);
      if (found == variables.end()) return std::nullopt;
      return found->second;
    };
    context.probe = [this](const cluster_file::ClusterFile&, const std::string& address) {
      return answers && address != silent;
    };
    context.stopped = [] { return false; };
    options.join_timeout_ms = 100;
  }
  // A cluster of `expected` nodes of which `joined` are in the file.
  ClusterFile MakeFile(std::uint32_t expected, std::size_t joined) {
    ClusterFile file;
    file.cluster_uuid = cluster_file::MakeUuid();
    file.nodes_expected = expected;
    file.token_file = folder.path() + "/t";
    for (std::size_t i = 0; i < joined; ++i) {
      file.nodes.push_back({cluster_file::MakeUuid(), "127.0.0.1:" + std::to_string(i + 1), "h"});
    }
    return file;
  }
  PublishedFile Publish(const ClusterFile& file) {
    auto published = PublishedFile::Create(context.path, file);
    REQUIRE(published.ok());
    return *std::move(published);
  }
  Result<Part> Decide() { return DecidePart(context); }

  TemporaryFolder folder;
  Options options;
  std::optional<Identity> identity;
  std::map<std::string, std::string> variables;
  std::string silent;  // An address without a listener.
  bool answers = false;
  FoundingContext context;
};

bool Says(const Status& status, const std::string& text) {
  return status.ToString().find(text) != std::string::npos;
}

TEST_CASE("WhereNothingIsThisDaemonIsTheFirst") {
  FoundingFixture start;
  const auto part = start.Decide();
  REQUIRE(part.ok());
  CHECK(part->kind == Part::Kind::kFirst);
  CHECK(part->start_lock.is_open());
}

TEST_CASE("AFormingClusterIsJoined") {
  FoundingFixture start;
  const ClusterFile file = start.MakeFile(3, 1);
  const auto held = start.Publish(file);
  const auto part = start.Decide();
  REQUIRE(part.ok());
  CHECK(part->kind == Part::Kind::kJoin);
  CHECK(part->file->cluster_uuid == file.cluster_uuid);
  start.options.nodes = 2;
  start.options.nodes_given = true;
  const auto refused = start.Decide();
  CHECK(refused.code() == StatusCode::kFailedPrecondition);
  CHECK(Says(refused.status(), "--nodes is 2"));
}

TEST_CASE("ALiveClustersFileIsNeverTakenByASecondFirstNode") {
  FoundingFixture start;
  const ClusterFile file = start.MakeFile(1, 1);
  const auto held = start.Publish(file);
  const auto refused = start.Decide();
  CHECK(refused.code() == StatusCode::kFailedPrecondition);
  CHECK(Says(refused.status(), start.context.path));
  CHECK(Says(refused.status(), file.cluster_uuid));
  CHECK(*cluster_file::Read(start.context.path) == file);
}

TEST_CASE("AMemberOfACompleteClusterJoinsItAgain") {
  FoundingFixture start;
  ClusterFile file = start.MakeFile(2, 2);
  file.nodes[1].uuid = start.identity->uuid();
  const auto held = start.Publish(file);
  CHECK(start.Decide()->kind == Part::Kind::kJoin);
}

TEST_CASE("AStaleFileIsMovedAsideByANewcomer") {
  FoundingFixture start;
  { start.Publish(start.MakeFile(1, 1)); }
  const auto part = start.Decide();
  REQUIRE(part.ok());
  CHECK(part->kind == Part::Kind::kFirst);
  CHECK_FALSE(std::filesystem::exists(start.context.path));
}

TEST_CASE("AFormerMemberWaitsForItsCoordinatorAndNeverPromotesItself") {
  FoundingFixture start;
  ClusterFile file = start.MakeFile(2, 2);
  file.nodes[1].uuid = start.identity->uuid();
  { start.Publish(file); }
  REQUIRE(start.identity->RememberCluster(file.cluster_uuid).ok());
  const auto part = start.Decide();
  REQUIRE(part.ok());
  CHECK(part->kind == Part::Kind::kJoin);
  CHECK(std::filesystem::exists(start.context.path));
}

TEST_CASE("TheStateMakesTheCoordinatorOfItsClusterAndOfNoOther") {
  FoundingFixture start;
  const ClusterFile file = start.MakeFile(2, 2);
  start.context.state_uuid = file.cluster_uuid;
  CHECK(start.Decide()->kind == Part::Kind::kReturn);  // The file is gone.
  { start.Publish(file); }
  CHECK(start.Decide()->kind == Part::Kind::kReturn);  // It stands.
  start.answers = true;
  start.silent = file.nodes[0].control_address;
  CHECK(start.Decide()->kind == Part::Kind::kReturn);  // Other nodes of it live.
  start.silent.clear();
  const auto copy = start.Decide();  // The coordinator itself lives, in another folder.
  CHECK(copy.code() == StatusCode::kFailedPrecondition);
  CHECK(Says(copy.status(), "is a copy"));
  start.context.state_uuid = cluster_file::MakeUuid();
  const auto refused = start.Decide();
  CHECK(refused.code() == StatusCode::kFailedPrecondition);
  CHECK(Says(refused.status(), start.context.state_uuid));
  start.answers = false;
  CHECK(start.Decide()->kind == Part::Kind::kReturn);  // Another's, but stale.
  CHECK_FALSE(std::filesystem::exists(start.context.path));
}

TEST_CASE("ACoordinatorsFolderDoesNotJoinByAddress") {
  FoundingFixture start;
  start.options.join = "127.0.0.1:1";
  CHECK(start.Decide()->kind == Part::Kind::kJoin);
  start.context.state_uuid = cluster_file::MakeUuid();
  CHECK(start.Decide().code() == StatusCode::kFailedPrecondition);
}

TEST_CASE("InAJobTheOtherNodesWaitForTheFirst") {
  FoundingFixture start;
  start.variables = {{"SLURM_JOB_ID", "5"}, {"SLURM_NODEID", "1"}};
  start.options.nodes = 2;
  const auto waited = start.Decide();
  CHECK(waited.code() == StatusCode::kDeadlineExceeded);
  CHECK(Says(waited.status(), start.context.path));
  start.variables["SLURM_NODEID"] = "0";
  CHECK(start.Decide()->kind == Part::Kind::kFirst);
}

TEST_CASE("AFileOfAnEarlierJobIsStaleToTheFirstAndWaitedOutByTheOthers") {
  FoundingFixture start;
  ClusterFile file = start.MakeFile(2, 2);
  file.job_id = "4";
  const auto held = start.Publish(file);
  start.variables = {{"SLURM_JOB_ID", "5"}, {"SLURM_NODEID", "1"}};
  start.options.nodes = 2;
  CHECK(start.Decide().code() == StatusCode::kDeadlineExceeded);
  CHECK(std::filesystem::exists(start.context.path));
  start.variables["SLURM_NODEID"] = "0";
  CHECK(start.Decide()->kind == Part::Kind::kFirst);
  CHECK_FALSE(std::filesystem::exists(start.context.path));
}

TEST_CASE("AMissingFolderIsNamed") {
  FoundingFixture start;
  start.context.path = start.folder.path() + "/no/such/cluster.json";
  const auto refused = start.Decide();
  CHECK(refused.code() == StatusCode::kNotFound);
  CHECK(Says(refused.status(), start.folder.path() + "/no/such"));
}

TEST_CASE("AStopEndsTheWait") {
  FoundingFixture start;
  start.context.stopped = [] { return true; };
  CHECK(start.Decide().code() == StatusCode::kCancelled);
}

TEST_CASE("WhoKeepsDurableDataWaitsForItsCoordinatorAndBeginsNothing") {
  FoundingFixture start;
  start.context.keeps_durable = true;
  SECTION("without a file") {}
  SECTION("beside another cluster's stale file") { (void)start.Publish(start.MakeFile(1, 1)); }
  const auto part = start.Decide();
  CHECK(part.code() == StatusCode::kDeadlineExceeded);
  CHECK(Says(part.status(), "durable"));
}

}  // namespace
}  // namespace tidepool::daemon
