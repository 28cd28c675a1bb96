#include "client/cache/read_cache.h"

#include <catch2/catch.hpp>
#include <string>

namespace tidepool::testing {
namespace {

using internal::ReadCache;

ReadCache::Read Found(std::string bytes) {
  ReadCache::Read read;
  read.found = true;
  read.bytes = std::move(bytes);
  return read;
}

TEST_CASE("WhatWasReadIsFoundUntilTheRoundEnds") {
  ReadCache cache(1 << 20);
  CHECK(cache.Find("k") == nullptr);
  cache.Insert("k", cache.writes(), Found("v"));
  cache.Insert("gone", cache.writes(), {});
  REQUIRE(cache.Find("k") != nullptr);
  CHECK(cache.Find("k")->bytes == "v");
  REQUIRE(cache.Find("gone") != nullptr);
  CHECK_FALSE(cache.Find("gone")->found);
  cache.Clear();
  CHECK(cache.Find("k") == nullptr);
}

TEST_CASE("AWriteForgetsItsKeyAndWhatIsBeingRead") {
  ReadCache cache(1 << 20);
  cache.Insert("k", cache.writes(), Found("old"));
  cache.Insert("other", cache.writes(), Found("o"));
  const std::uint64_t before = cache.writes();  // A read begins,
  cache.NoteWrite("k");                         // a write comes between,
  CHECK(cache.Find("k") == nullptr);
  cache.Insert("k", before, Found("old"));  // The read may have found the earlier value.
  CHECK(cache.Find("k") == nullptr);
  CHECK(cache.Find("other") != nullptr);
  cache.Insert("k", cache.writes(), Found("new"));
  CHECK(cache.Find("k")->bytes == "new");
}

TEST_CASE("AFullCacheForgetsWhatWasReadLongestAgo") {
  constexpr int kKeys = 20'000;
  ReadCache cache(1 << 20);
  const std::string value(100, 'v');
  for (int i = 0; i < kKeys; ++i) {
    cache.Insert("k" + std::to_string(i), cache.writes(), Found(value));
    REQUIRE(cache.Find("k0") != nullptr);  // It is in use.
  }
  int kept = 0;
  for (int i = 0; i < kKeys; ++i) kept += cache.Find("k" + std::to_string(i)) != nullptr ? 1 : 0;
  // With 100 B of value alone 1 MiB holds 10,486; half of it is kept at least, 192 B of entry each.
  CHECK(kept > 1'500);
  CHECK(kept < 3'700);
  CHECK(cache.Find("k" + std::to_string(kKeys - 1)) != nullptr);
  CHECK(cache.Find("k1") == nullptr);
}

TEST_CASE("AValueAboveItsShareIsNotKept") {
  ReadCache cache(1 << 20);
  cache.Insert("k", cache.writes(), Found(std::string(200'000, 'v')));
  CHECK(cache.Find("k") == nullptr);
}

}  // namespace
}  // namespace tidepool::testing
