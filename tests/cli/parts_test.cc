// The smaller parts: progress lines, Zipf's ranks, texts of single operations, keys of staged
// files.
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "cli/commands/data/record_call.h"
#include "cli/progress.h"
#include "cli/zipf.h"
#include "proto/convert/staged_keys.h"

namespace tidepool::cli {
namespace {

TEST_CASE("AProgressLineShowsPartRateAndTimeLeft") {
  const ProgressState state{"moving", 20, 40, 1 << 20, 4 << 20, 2'000};
  CHECK(ProgressLine(state, 200) ==
        "moving [======>                 ] 25%  20 of 40 files  1.0 MiB of 4.0 MiB  512.0 KiB/s  "
        "ETA 6.0s");
  CHECK(ProgressLine(state, 20).size() == 20);
}

TEST_CASE("AProgressLineWithoutTotalsClaimsNothing") {
  CHECK(ProgressLine({"walking", 7, 0, 0, 0, 100}, 200) == "walking  7 files  0 B");
}

TEST_CASE("AProgressLineOfNothingButEmptyFilesGoesByFiles") {
  CHECK(ProgressLine({"moving", 1, 2, 0, 0, 0}, 200).find("50%") != std::string::npos);
}

TEST_CASE("ZipfRanksFollowTheirWeights") {
  const auto seed = std::random_device()();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  constexpr std::uint64_t kCount = 50;
  constexpr int kDraws = 200'000;
  for (const double exponent : {0.0, 0.5, 0.99, 1.0, 2.0}) {
    const Zipf zipf(kCount, exponent);
    std::vector<int> seen(kCount, 0);
    for (int i = 0; i < kDraws; ++i) {
      const std::uint64_t rank = zipf(random);
      REQUIRE(rank < kCount);
      ++seen[rank];
    }
    double sum = 0;
    for (std::uint64_t i = 1; i <= kCount; ++i) sum += std::pow(i, -exponent);
    for (const std::uint64_t rank : {0, 1, 9, 49}) {
      const double expected = kDraws * std::pow(rank + 1, -exponent) / sum;
      CAPTURE(exponent, rank, expected, seen[rank]);
      // 7 standard deviations: fails by chance once in 10^11 draws of a rank.
      CHECK(std::abs(seen[rank] - expected) < 7 * std::sqrt(expected) + 7);
    }
  }
}

TEST_CASE("ZipfOfOneKeyIsThatKey") {
  std::mt19937_64 random(1);
  CHECK(Zipf(1, 0.99)(random) == 0);
}

TEST_CASE("ARemedyInATextIsTakenApart") {
  const Status split = SplitRemedy(StatusCode::kNotFound, "no namespace 'x' (create it (now))");
  CHECK(split.what() == "no namespace 'x'");
  CHECK(split.remedy() == "create it (now)");
  const Status middle =
      SplitRemedy(StatusCode::kUnavailable, "node 1 (here a:1), is down (start it)");
  CHECK(middle.what() == "node 1 (here a:1), is down");
  for (const char* text : {"", "plain", "f(x)", "odd)", "(all)", "a (b"}) {
    CAPTURE(text);
    CHECK(SplitRemedy(StatusCode::kInternal, text).what() == text);
    CHECK(SplitRemedy(StatusCode::kInternal, text).remedy().empty());
  }
}

TEST_CASE("AMissingKeyIsToldFromAMissingNamespace") {
  v1::Operation get;
  get.set_kind(v1::OPERATION_KIND_GET);
  get.set_key("k\n");
  v1::OperationStatus status;
  status.set_code(static_cast<std::uint32_t>(StatusCode::kNotFound));
  CHECK(StatusOf(status, get, "space").what() == "key 'k\\n' of namespace 'space' does not exist");
  status.set_message("no namespace 'space' (create it)");
  CHECK(StatusOf(status, get, "space").what() == "no namespace 'space'");
}

TEST_CASE("ACodeThatNobodyKnowsIsUnknown") {
  v1::OperationStatus status;
  status.set_code(4711);
  CHECK(StatusOf(status, {}, "s").code() == StatusCode::kUnknown);
}

TEST_CASE("KeysOfStagedFilesAreRecognised") {
  using convert::StagedRole;
  const std::string part = convert::StagedPartKey("a/b.bin", 0x1234, 7);
  CHECK(part == std::string("a/b.bin\0"
                            "0000000000001234\0"
                            "00000007",
                            33));
  CHECK(convert::ParseStagedKey(part).role == StagedRole::kPart);
  CHECK(convert::ParseStagedKey(part).path == "a/b.bin");
  const std::string file = convert::StagedFileKey("a/b.bin");
  CHECK(convert::ParseStagedKey(file).role == StagedRole::kFile);
  CHECK(convert::ParseStagedKey(file).path == "a/b.bin");
  CHECK(convert::ParseStagedKey(std::string(convert::kManifestPrefix) + "x").role ==
        StagedRole::kManifest);
}

TEST_CASE("OrdinaryKeysAreNotTakenForStagedOnes") {
  using convert::StagedRole;
  const std::string keys[] = {"",
                              "a",
                              std::string("\0", 1),
                              std::string("\0file", 5),
                              "afile",
                              std::string("a\0b", 3),
                              "run1/a.txt",
                              "manifest",
                              convert::StagedPartKey("", 1, 2),
                              std::string("x\0"
                                          "000000000000123G\0"
                                          "00000007",
                                          27)};
  for (const std::string& key : keys) {
    CAPTURE(key);
    CHECK(convert::ParseStagedKey(key).role == StagedRole::kPlain);
  }
}

}  // namespace
}  // namespace tidepool::cli
