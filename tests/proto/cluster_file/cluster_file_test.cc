#include "proto/cluster_file/cluster_file.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <random>

#include "tests/integration/harness.h"

namespace tidepool::cluster_file {
namespace {

using testing::TemporaryFolder;

ClusterFile Example() {
  ClusterFile file;
  file.cluster_uuid = "3f2b8c1e-9d4a-4c6f-8a51-0d7e6b2c9f10";
  file.job_id = "4711";
  file.nodes_expected = 2;
  file.token_file = "/x/cluster.3f2b8c1e.token";
  file.insecure = true;
  file.nodes = {{"00000000-0000-4000-8000-000000000001", "127.0.0.1:4410", "a"},
                {"00000000-0000-4000-8000-000000000002", "[::1]:4411", "b"}};
  return file;
}

void Write(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
  chmod(path.c_str(), 0600);
}

TEST_CASE("AClusterFileIsReadAsItWasWritten") {
  const ClusterFile file = Example();
  const auto read = Parse(Serialize(file, "/x/cluster.json"), "/x/cluster.json");
  REQUIRE(read.ok());
  CHECK(*read == file);
}

TEST_CASE("TheTokenFileIsFoundWhereTheFolderIsMountedElsewhere") {
  const auto read = Parse(Serialize(Example(), "/x/cluster.json"), "/y/z/cluster.json");
  REQUIRE(read.ok());
  CHECK(read->token_file == "/y/z/cluster.3f2b8c1e.token");
}

TEST_CASE("UnknownMembersAreIgnored") {
  std::string text = Serialize(Example(), "/x/c.json");
  text.insert(1, "\"later\": {\"a\": [1]},");
  CHECK(Parse(text, "/x/c.json").ok());
}

TEST_CASE("ANewerFormatIsRefusedByItsNumber") {
  std::string text = Serialize(Example(), "/x/c.json");
  text.replace(text.find("\"format\": 1"), 11, "\"format\": 7");
  const auto read = Parse(text, "/x/c.json");
  CHECK(read.code() == StatusCode::kUnimplemented);
  CHECK(read.status().what().find("format 7") != std::string::npos);
}

TEST_CASE("DamagedTextsAreRefusedByName") {
  const std::string good = Serialize(Example(), "/x/c.json");
  const std::vector<std::string> damaged = {"",
                                            "{",
                                            "[]",
                                            "null",
                                            "{\"format\":1}",
                                            good.substr(0, good.size() / 2),
                                            "\x00",
                                            "{\"format\":1,\"cluster_uuid\":\"x\"}"};
  for (const std::string& text : damaged) {
    const auto read = Parse(text, "/x/c.json");
    INFO(text);
    CHECK(read.code() == StatusCode::kInvalidArgument);
    CHECK(read.status().what().find("'/x/c.json' is damaged") != std::string::npos);
  }
}

TEST_CASE("AnyBytesGiveAFileOrAStatus") {
  const auto seed = std::random_device()();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const std::string good = Serialize(Example(), "/x/c.json");
  int accepted = 0;
  for (int i = 0; i < 5000; ++i) {
    std::string text = good;
    for (int flips = 1 + static_cast<int>(random() % 4); flips > 0; --flips) {
      text[random() % text.size()] = static_cast<char>(random());
    }
    const auto read = Parse(text, "/x/c.json");
    if (!read.ok()) continue;
    ++accepted;
    REQUIRE(!read->nodes.empty());
    REQUIRE(read->coordinator < read->nodes.size());
  }
  CHECK(accepted > 0);
}

TEST_CASE("AFileThatOthersCanWriteIsNotTrusted") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/c.json";
  Write(path, Serialize(Example(), path));
  REQUIRE(Read(path).ok());
  chmod(path.c_str(), 0622);
  const auto read = Read(path);
  CHECK(read.code() == StatusCode::kPermissionDenied);
  CHECK(read.status().remedy().find("chmod 600") != std::string::npos);
}

TEST_CASE("AFolderIsNoClusterFile") {
  const TemporaryFolder folder;
  CHECK(Read(folder.path()).code() == StatusCode::kInvalidArgument);
}

TEST_CASE("AMissingFileIsNotFound") {
  const TemporaryFolder folder;
  CHECK(Read(folder.path() + "/none.json").code() == StatusCode::kNotFound);
}

}  // namespace
}  // namespace tidepool::cluster_file
