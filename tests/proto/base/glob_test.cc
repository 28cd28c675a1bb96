#include "proto/base/glob.h"

#include <catch2/catch.hpp>

namespace tidepool {
namespace {

TEST_CASE("AStarCrossesSlashes") {
  CHECK(GlobMatches("run1/*", "run1/a/b.txt"));
  CHECK(GlobMatches("*", ""));
  CHECK(GlobMatches("*.txt", "a.txt"));
  CHECK_FALSE(GlobMatches("*.txt", "a.txt2"));
  CHECK(GlobMatches("a*b*c", "aXbYbZc"));
  CHECK_FALSE(GlobMatches("a*b*c", "aXbY"));
}

TEST_CASE("AQuestionMarkIsOneByte") {
  CHECK(GlobMatches("a?c", "abc"));
  CHECK_FALSE(GlobMatches("a?c", "ac"));
}

TEST_CASE("SetsHoldRangesAndCanBeInverted") {
  CHECK(GlobMatches("[a-c]x", "bx"));
  CHECK_FALSE(GlobMatches("[a-c]x", "dx"));
  CHECK(GlobMatches("[!a-c]x", "dx"));
  CHECK(GlobMatches("[]]", "]"));
  CHECK(GlobMatches("[a-]", "-"));
}

TEST_CASE("AnOpenSetIsPlainText") {
  CHECK(GlobMatches("[abc", "[abc"));
  CHECK_FALSE(GlobMatches("[abc", "a"));
}

TEST_CASE("ABackslashTakesTheNextByteAsItIs") {
  CHECK(GlobMatches("\\*", "*"));
  CHECK_FALSE(GlobMatches("\\*", "x"));
  CHECK(GlobMatches("a\\", "a\\"));
}

TEST_CASE("KeysMayHoldAnyBytes") {
  CHECK(GlobMatches(std::string_view("a?b", 3), std::string_view("a\0b", 3)));
  CHECK(GlobMatches("*\xff", "x\xff"));
}

}  // namespace
}  // namespace tidepool
