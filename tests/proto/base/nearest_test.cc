#include "proto/base/nearest.h"

#include <catch2/catch.hpp>
#include <initializer_list>
#include <string>
#include <string_view>

namespace tidepool {
namespace {

std::string NearestOf(std::string_view name, std::initializer_list<std::string_view> candidates) {
  Nearest nearest(name);
  for (const std::string_view candidate : candidates) nearest.Consider(candidate);
  return nearest.found();
}

TEST_CASE("EditDistanceCountsSwappedNeighboursOnce") {
  CHECK(EditDistance("put", "put") == 0);
  CHECK(EditDistance("pt", "put") == 1);
  CHECK(EditDistance("ptu", "put") == 1);
  CHECK(EditDistance("", "put") == 3);
  CHECK(EditDistance("delte", "delete") == 1);
}

TEST_CASE("TheNearestNameIsFoundAndAFarNameIsNot") {
  CHECK(NearestOf("memry", {"medium", "memory"}) == "memory");
  CHECK(NearestOf("metric-port", {"port", "metrics-port"}) == "metrics-port");
  CHECK(NearestOf("xyzzy", {"memory", "cores"}).empty());
  CHECK(NearestOf("foo", {"pop", "put"}).empty());
  CHECK(NearestOf("", {"put"}).empty());
}

TEST_CASE("ABeginningOrAPartOfANameIsNear") {
  CHECK(NearestOf("cor", {"memory", "cores"}) == "cores");
  CHECK(NearestOf("items", {"lanes", "expected-items"}) == "expected-items");
  CHECK(NearestOf("metrics", {"port", "metrics-port"}) == "metrics-port");
  CHECK(NearestOf("memory-limit", {"medium", "memory"}) == "memory");
  CHECK(NearestOf("loss", {"losses", "on-loss"}) == "losses");
}

}  // namespace
}  // namespace tidepool
