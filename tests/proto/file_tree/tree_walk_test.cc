#include "proto/file_tree/tree_walk.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <catch2/catch.hpp>

#include <map>
#include <string>
#include <vector>

#include "proto/base/unique_fd.h"
#include "tests/support/scratch_directory.h"

namespace tidepool::file_tree {
namespace {

struct Walked {
  std::map<std::string, FoundFile> found;
  std::map<std::string, Status> failed;
  std::map<std::string, Status> skipped;
  std::vector<std::string> own;
  std::vector<std::string> order;
};

Walked Walk(const test::ScratchDirectory& scratch) {
  Walked walked;
  const UniqueFd root(open(scratch.path().c_str(), O_RDONLY | O_DIRECTORY));
  WalkTree(root.get(),
           {[&](FoundFile file) {
              walked.order.push_back(file.path);
              walked.found[file.path] = file;
              return true;
            },
            [&](std::string_view path, const Status& why) { walked.failed.emplace(path, why); },
            [&](std::string_view path, const Status& why) { walked.skipped.emplace(path, why); },
            [&](std::string_view path) { walked.own.emplace_back(path); }});
  return walked;
}

TEST_CASE("AWalkFindsEveryKindWithItsAttributes") {
  const test::ScratchDirectory scratch;
  scratch.Write("d/empty", "");
  scratch.Write("d/e/odd\nname\xff", "12345");
  std::filesystem::create_directory(scratch / "nothing");
  std::filesystem::create_symlink("../dangling", scratch / "d/link");
  chmod((scratch / "d/empty").c_str(), 04751);
  const timespec times[2] = {{0, UTIME_OMIT}, {1'000'000'000, 123'456'789}};
  utimensat(AT_FDCWD, (scratch / "d/empty").c_str(), times, 0);
  const Walked walked = Walk(scratch);
  CHECK(walked.failed.empty());
  CHECK(walked.found.size() == 7);
  CHECK(walked.order.front() == ".");
  CHECK(walked.found.at("d/empty").mode == 04751);
  CHECK(walked.found.at("d/empty").mtime == FileTime{1'000'000'000, 123'456'789});
  CHECK(walked.found.at("d/e/odd\nname\xff").size == 5);
  CHECK(walked.found.at("nothing").type == FoundFile::Type::kDirectory);
  CHECK(walked.found.at("d/link").link_target == "../dangling");
}

TEST_CASE("WhatIsNoFileAndOurOwnNamesAreSkippedByName") {
  const test::ScratchDirectory scratch;
  scratch.Write("file", "x");
  scratch.Write(".tidepool-stage-probe", "x");
  REQUIRE(mkfifo((scratch / "pipe").c_str(), 0600) == 0);
  const Walked walked = Walk(scratch);
  CHECK(walked.found.size() == 2);
  CHECK(walked.failed.empty());
  REQUIRE(walked.skipped.size() == 1);
  CHECK(walked.skipped.begin()->first == "pipe");
  CHECK(walked.own == std::vector<std::string>{".tidepool-stage-probe"});
}

TEST_CASE("AWalkDoesNotFollowLinksToDirectories") {
  const test::ScratchDirectory scratch;
  scratch.Write("d/file", "x");
  std::filesystem::create_directory_symlink(".", scratch / "d/loop");
  const Walked walked = Walk(scratch);
  CHECK(walked.found.size() == 4);
  CHECK(walked.found.at("d/loop").type == FoundFile::Type::kSymlink);
}

}  // namespace
}  // namespace tidepool::file_tree
