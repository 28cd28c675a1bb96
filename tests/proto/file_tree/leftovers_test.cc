#include "proto/file_tree/leftovers.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include <csignal>

#include "tests/support/scratch_directory.h"

namespace tidepool::file_tree {
namespace {

struct Fixture {
  test::ScratchDirectory scratch;
  UniqueFd root{open(scratch.path().c_str(), O_RDONLY | O_DIRECTORY)};

  bool Has(const char* name) const { return std::filesystem::exists(scratch / name); }
};

TEST_CASE_METHOD(Fixture, "WhatAJobThatDiedLeftIsRemovedAndNothingElse") {
  // A process that makes its marker and is killed.
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const UniqueFd own(open(scratch.path().c_str(), O_RDONLY | O_DIRECTORY));
    const auto marker = JobMarker::Make(own.get(), "dead");
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(Has(".tidepool-stage-job-dead"));
  scratch.Write("d/.tidepool-stage-dead-0-1", "half");
  scratch.Write(".tidepool-stage-dead-2-7", "half");
  scratch.Write(".tidepool-stage-other-0-1", "of a job that runs");
  scratch.Write("d/file", "x");
  RemoveLeftovers(root.get());
  CHECK_FALSE(Has(".tidepool-stage-job-dead"));
  CHECK_FALSE(Has("d/.tidepool-stage-dead-0-1"));
  CHECK_FALSE(Has(".tidepool-stage-dead-2-7"));
  CHECK(Has(".tidepool-stage-other-0-1"));
  CHECK(Has("d/file"));
}

TEST_CASE_METHOD(Fixture, "AJobThatRunsKeepsItsFiles") {
  auto marker = JobMarker::Make(root.get(), "alive");
  REQUIRE(marker.ok());
  scratch.Write(".tidepool-stage-alive-0-1", "under way");
  RemoveLeftovers(root.get());
  CHECK(Has(".tidepool-stage-alive-0-1"));
  CHECK(Has(".tidepool-stage-job-alive"));
  marker->Remove();
  CHECK_FALSE(Has(".tidepool-stage-job-alive"));
}

}  // namespace
}  // namespace tidepool::file_tree
