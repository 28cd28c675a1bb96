#include "cli/walltime.h"

#include <unistd.h>

#include <catch2/catch.hpp>

#include "proto/base/clock.h"

namespace tidepool::cli {
namespace {

TEST_CASE("SavingBeginsInTimeForTheBytesAtHalfTheSpeedAndTheMargin") {
  const Walltime walltime{.end_ms = 1'000'000, .bytes_per_second = 1e6};
  CHECK(walltime.SavingMs(10'000'000) == 20'000);
  CHECK(walltime.SaveAtMs(10'000'000) == 1'000'000 - 20'000 - Walltime::kMarginMs);
  CHECK(walltime.SaveAtMs(0) == 1'000'000 - Walltime::kMarginMs);
}

TEST_CASE("MoreThanThereIsTimeForIsSavedAtOnce") {
  const Walltime walltime{.end_ms = 30'000, .bytes_per_second = 1e6};
  CHECK(walltime.SaveAtMs(100'000'000) == 0);
}

TEST_CASE("DirectoriesThatTakeNothingDivideByNothing") {
  const Walltime walltime{.end_ms = 30'000, .bytes_per_second = 0};
  CHECK(walltime.SaveAtMs(100'000'000) == 0);
}

TEST_CASE("ADeadlineIsADurationOrADate") {
  CHECK(ParseDeadlineMs("1764000000").value() == 1'764'000'000'000);
  const std::uint64_t before_ms = Clock::Real().WallMs();
  const std::uint64_t end_ms = ParseDeadlineMs("90m").value();
  CHECK(end_ms >= before_ms + 5'400'000);
  CHECK(end_ms <= Clock::Real().WallMs() + 5'400'000);
  for (const char* wrong : {"", "tomorrow", "-5m"}) {
    CAPTURE(wrong);
    CHECK(ParseDeadlineMs(wrong).code() == StatusCode::kInvalidArgument);
  }
}

TEST_CASE("TheSpeedOfAFolderIsMeasuredAndNothingStays") {
  char folder[] = "/tmp/walltime_test.XXXXXX";
  REQUIRE(mkdtemp(folder) != nullptr);
  CHECK(MeasureWriting(folder).value() > 0);
  CHECK(rmdir(folder) == 0);
  CHECK(MeasureWriting(folder).code() == StatusCode::kNotFound);
}

}  // namespace
}  // namespace tidepool::cli
