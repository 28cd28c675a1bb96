#include "proto/base/file_time.h"

#include <catch2/catch.hpp>
#include <limits>

namespace tidepool {
namespace {

TEST_CASE("ATimeInNanosecondsComesBack") {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  for (const std::int64_t ns : {std::int64_t{0}, std::int64_t{1}, std::int64_t{-1}, kMax, kMin,
                                kMin + 1, std::int64_t{-1'000'000'000}}) {
    const FileTime time = FileTime::FromNs(ns);
    CHECK(time.nanoseconds < FileTime::kSecond);
    REQUIRE(time.Ns().has_value());
    CHECK(*time.Ns() == ns);
    CHECK(time.WrappedNs() == ns);
  }
  CHECK(FileTime::FromNs(-1) == FileTime{-1, 999'999'999});
}

TEST_CASE("ATimeBeyond2262HasNoNanoseconds") {
  CHECK_FALSE(FileTime{10'423'123'200, 0}.Ns().has_value());
  CHECK_FALSE(FileTime{-10'423'123'200, 0}.Ns().has_value());
}

TEST_CASE("ATimeThatWasCutOffIsTheSameAndAnyOtherIsNot") {
  const FileTime kept{7, 123'456'789};
  for (const std::uint32_t found : {123'456'789u, 123'456'700u, 123'456'000u, 123'000'000u, 0u}) {
    CHECK(IsSameFileTime(kept, {7, found}));
  }
  CHECK_FALSE(IsSameFileTime(kept, {8, 0}));
  CHECK_FALSE(IsSameFileTime(kept, {6, 0}));
  CHECK_FALSE(IsSameFileTime(kept, {7, 123'456'788}));
  CHECK_FALSE(IsSameFileTime(kept, {7, 200'000'000}));
  CHECK_FALSE(IsSameFileTime({7, 0}, kept));
}

}  // namespace
}  // namespace tidepool
