// client.ReadFile against real daemons: files as staging leaves them, whole and in parts.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "proto/base/limits.h"
#include "proto/convert/staged_keys.h"
#include "proto/manifest/entry.h"
#include "proto/manifest/keys.h"
#include "tests/integration/staging_fixture.h"
#include "tidepool/tidepool.h"
#include "tidepool/v1/staging.pb.h"

namespace tidepool::testing {
namespace {

// Two parts: no two MiB of them are the same.
std::string LargeContent() {
  std::string content(limits::kStagedFileWholeBytesMax + 12'345, 'x');
  for (std::size_t at = 0; at < content.size(); at += 1 << 20) {
    const std::string number = std::to_string(at);
    content.replace(at, number.size(), number);
  }
  return content;
}

// Returns the key of a part of "run/large".
std::string LargePartKey(StagingCluster& staging) {
  for (const std::string& key : staging.Keys("tree", true)) {
    if (convert::ParseStagedKey(key).role == convert::StagedRole::kPart) return key;
  }
  FAIL("there are no parts");
  return {};
}

TEST_CASE("A staged file is read by its path, whole or in parts", "[sdk]") {
  StagingCluster staging({.nodes = 3, .memory = "256MiB"});
  staging.CreateNamespace("tree");
  const std::string large = LargeContent();
  const test::ScratchDirectory source;
  source.Write("run/small", "content");
  source.Write("run/empty", "");
  source.Write("run/large", large);
  std::filesystem::create_symlink("run/small", source / "link");
  const v1::StageProgress in = staging.Run(kIn, "tree", source.path());
  INFO(Failures(in));
  REQUIRE(in.code() == 0);

  ConnectOptions options;
  options.cluster_file = staging.cluster().file();
  auto client = Client::Connect(options);
  REQUIRE(client.ok());
  const auto read = [&](std::string_view path) { return client->ReadFile("tree", path); };

  CHECK(*read("run/small") == "content");
  CHECK(read("run/empty")->empty());
  const auto content = read("run/large");
  INFO(content.status().ToString());
  REQUIRE(content.ok());
  CHECK((*content == large));
  // Through a namespace that is open already.
  auto space = client->OpenNamespace("tree", NamespaceKind::kHash);
  REQUIRE(space.ok());
  CHECK(*client->ReadFile(*space, "run/small") == "content");
  // Written by key: that is the file now.
  staging.Put("tree", "run/small", "new");
  CHECK(*read("run/small") == "new");

  CHECK(read("run/none").code() == StatusCode::kNotFound);
  CHECK(client->ReadFile("nope", "run/small").code() == StatusCode::kNotFound);
  CHECK(read("run").code() == StatusCode::kInvalidArgument);
  CHECK(read("link").code() == StatusCode::kInvalidArgument);
  CHECK(read("link").status().ToString().find("run/small") != std::string::npos);
  staging.Delete("tree", "run/empty");
  CHECK(read("run/empty").code() == StatusCode::kNotFound);

  const std::string part = LargePartKey(staging);
  staging.Put("tree", part, "something else");
  CHECK(read("run/large").code() == StatusCode::kDataLoss);
  staging.Delete("tree", part);
  CHECK(read("run/large").code() == StatusCode::kDataLoss);
  CHECK(read("run/large").status().ToString().find("is missing") != std::string::npos);
}

TEST_CASE("A sparse file is read with its holes", "[sdk]") {
  StagingCluster staging({.nodes = 2, .memory = "128MiB"});
  staging.CreateNamespace("tree");
  const test::ScratchDirectory source;
  source.Write("sparse", "begin");
  constexpr std::uint64_t kBytes = (std::uint64_t{200} << 20) + 3;
  std::filesystem::resize_file(source / "sparse", kBytes);
  const v1::StageProgress in = staging.Run(kIn, "tree", source.path());
  INFO(Failures(in));
  REQUIRE(in.code() == 0);

  ConnectOptions options;
  options.cluster_file = staging.cluster().file();
  auto client = Client::Connect(options);
  REQUIRE(client.ok());
  const auto content = client->ReadFile("tree", "sparse");
  INFO(content.status().ToString());
  REQUIRE(content.ok());
  REQUIRE(content->size() == kBytes);
  CHECK(content->substr(0, 5) == "begin");
  CHECK(content->find_first_not_of('\0', 5) == std::string::npos);
}

TEST_CASE("A list of files shows them by their paths and nothing of staging", "[sdk]") {
  StagingCluster staging({.nodes = 2, .memory = "256MiB"});
  staging.CreateNamespace("tree");
  const test::ScratchDirectory source;
  source.Write("run/small", "content");
  source.Write("run/large", LargeContent());
  std::filesystem::create_symlink("run/small", source / "link");
  REQUIRE(staging.Run(kIn, "tree", source.path()).code() == 0);
  staging.Put("tree", "by key", "12");

  ConnectOptions options;
  options.cluster_file = staging.cluster().file();
  auto client = Client::Connect(options);
  REQUIRE(client.ok());
  auto files = client->ListFiles("tree");
  REQUIRE(files.ok());
  std::sort(files->begin(), files->end(),
            [](const ListedFile& a, const ListedFile& b) { return a.path < b.path; });
  CHECK(*files == std::vector<ListedFile>{
                      {"by key", 2}, {"run/large", LargeContent().size()}, {"run/small", 7}});
  CHECK(client->ListFiles("nope").code() == StatusCode::kNotFound);
}

TEST_CASE("A file that an incomplete stage-in may still bring is not simply absent", "[sdk]") {
  StagingCluster staging({.nodes = 1, .memory = "192MiB"});
  staging.CreateNamespace("tree");
  const test::ScratchDirectory source;
  source.Write("large", std::string(std::size_t{256} << 20, 'x'));
  REQUIRE(staging.Run(kIn, "tree", source.path()).code() != 0);  // The store is too small.

  ConnectOptions options;
  options.cluster_file = staging.cluster().file();
  auto client = Client::Connect(options);
  REQUIRE(client.ok());
  const auto absent = client->ReadFile("tree", "large");
  CHECK(absent.code() == StatusCode::kFailedPrecondition);
  CHECK(absent.status().ToString().find(source.path().string()) != std::string::npos);
}

}  // namespace
}  // namespace tidepool::testing
