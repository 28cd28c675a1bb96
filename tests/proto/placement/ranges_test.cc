#include "proto/placement/ranges.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "proto/base/limits.h"
#include "tests/support/random.h"

namespace tidepool::placement {
namespace {

TEST_CASE("EveryKeyBelongsToOneRangeInTheOrderOfUnsignedBytes") {
  // Partitions in the order in which splits have made them.
  const Ranges ranges = *Ranges::Create({"", "m", "\x80", "c", std::string("m\0", 2)});
  CHECK(ranges.order() == std::vector<std::uint32_t>{0, 3, 1, 4, 2});
  const auto index = [&](std::string_view key) { return ranges.IndexOf(AsBytes(key)); };
  CHECK(index("") == 0);
  CHECK(index("bzz") == 0);
  CHECK(index("c") == 3);
  CHECK(index("m") == 1);
  CHECK(index(std::string_view("m\0", 2)) == 4);
  CHECK(index("mm") == 4);
  CHECK(index("\x7f") == 4);
  CHECK(index("\xff") == 2);
  CHECK(*ranges.EndOf(0) == "c");
  CHECK(*ranges.EndOf(4) == "\x80");
  CHECK(ranges.EndOf(2) == nullptr);
}

TEST_CASE("WhatIsBelowABoundBelongsToTheRangeThatEndsThere") {
  const Ranges ranges = *Ranges::Create({"", "m", "c"});
  CHECK(ranges.IndexBelow(std::nullopt) == 1);
  CHECK(ranges.IndexBelow(AsBytes(std::string_view("m"))) == 2);
  CHECK(ranges.IndexBelow(AsBytes(std::string_view("ma"))) == 1);
  CHECK(ranges.IndexBelow(AsBytes(std::string_view("c"))) == 0);
  CHECK(ranges.IndexBelow(AsBytes(std::string_view(""))) == 0);
}

TEST_CASE("RandomRangesAgreeWithASearch") {
  test::Random random("RandomRangesAgreeWithASearch");
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> begins = {""};
    for (std::uint64_t i = random.Below(20); i > 0; --i) {
      std::string key(1 + random.Below(3), ' ');
      for (char& byte : key) byte = static_cast<char>(random.Below(4) * 85);
      if (std::find(begins.begin(), begins.end(), key) == begins.end()) begins.push_back(key);
    }
    const Ranges ranges = *Ranges::Create(begins);
    for (int i = 0; i < 100; ++i) {
      std::string key(random.Below(4), ' ');
      for (char& byte : key) byte = static_cast<char>(random.Below(4) * 85);
      std::uint32_t expected = 0;
      for (std::uint32_t at = 0; at < begins.size(); ++at) {
        if (begins[at] <= key && begins[at] >= begins[expected]) expected = at;
      }
      REQUIRE(ranges.IndexOf(AsBytes(key)) == expected);
    }
  }
}

TEST_CASE("WhatIsNoPartitionOfAllKeysIsRefused") {
  CHECK_FALSE(Ranges::Create({}).ok());
  CHECK_FALSE(Ranges::Create({"a"}).ok());
  CHECK_FALSE(Ranges::Create({"", ""}).ok());
  CHECK_FALSE(Ranges::Create({"", "a", "a"}).ok());
  CHECK_FALSE(Ranges::Create({"", std::string(limits::kSplitKeyBytesMax + 1, 'a')}).ok());
  std::vector<std::string> many = {""};
  for (int i = 0; i < 600; ++i) many.push_back(std::to_string(1000 + i) + std::string(1000, 'a'));
  CHECK_FALSE(Ranges::Create(many).ok());
}

}  // namespace
}  // namespace tidepool::placement
