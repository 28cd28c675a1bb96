#include "proto/stage/source_paths.h"

#include <catch2/catch.hpp>

namespace tidepool::stage {
namespace {

TEST_CASE("PathsOfTheSourceAreKnownAndOthersAreNot") {
  SourcePaths source;
  source.Add(".", true);
  source.Add("d", true);
  source.Add("d/file", false);
  CHECK(source.Has("d"));
  CHECK(source.Has("d/file"));
  CHECK_FALSE(source.Has("d/other"));
  CHECK_FALSE(source.Has("file"));
}

TEST_CASE("OnlyAFileOrLinkOnTheWayIsInTheWay") {
  SourcePaths source;
  source.Add("d", true);
  source.Add("d/link", false);
  CHECK(source.IsBelowFile("d/link/x"));
  CHECK(source.IsBelowFile("d/link/x/y"));
  CHECK_FALSE(source.IsBelowFile("d/link"));
  CHECK_FALSE(source.IsBelowFile("d/x/y"));
  CHECK_FALSE(source.IsBelowFile("other/y"));
}

}  // namespace
}  // namespace tidepool::stage
