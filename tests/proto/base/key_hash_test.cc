#include "proto/base/key_hash.h"

#include <catch2/catch.hpp>

namespace tidepool {
namespace {

std::string_view Tag(std::string_view key) { return AsText(PlacementTag(AsBytes(key))); }

// Fixed vectors (XXH3-64, seed 0): a change of the hash would move every key of every cluster.
TEST_CASE("TheKeyHashNeverChanges") {
  CHECK(KeyHash(AsBytes("")) == 0x2d06800538d394c2ull);
  CHECK(KeyHash(AsBytes("a")) == 0xe6c632b61e964e1full);
  CHECK(KeyHash(AsBytes("abc")) == 0x78af5f94892f3950ull);
}

TEST_CASE("KeysWithTheSameTagArePlacedTogether") {
  CHECK(PlacementHash(AsBytes("{job7}/a")) == PlacementHash(AsBytes("x{job7}y")));
  CHECK(PlacementHash(AsBytes("{job7}/a")) != PlacementHash(AsBytes("{job8}/a")));
}

TEST_CASE("TheTagIsWhatStandsBetweenTheFirstBraces") {
  CHECK(Tag("plain") == "plain");
  CHECK(Tag("a{b}c{d}") == "b");
  CHECK(Tag("a{}c") == "a{}c");
  CHECK(Tag("a{b") == "a{b");
  CHECK(Tag("}a{b}") == "b");
  CHECK(Tag("{{b}}") == "{b");
  CHECK(Tag("") == "");
}

TEST_CASE("AManifestKeyIsPlacedWithTheKeyThatItIsAbout") {
  const std::string prefix(kManifestKeyPrefix);
  CHECK(prefix.size() == 10);
  CHECK(Tag(prefix + "a/b") == "a/b");
  CHECK(Tag(prefix + "a{b}c") == "b");
  CHECK(Tag(prefix).empty());
  CHECK(Tag(std::string("\0manifes", 8)) == std::string("\0manifes", 8));
}

}  // namespace
}  // namespace tidepool
