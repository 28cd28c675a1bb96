#include "cli/value_source.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <string>

#include "proto/base/limits.h"

namespace tidepool::cli {
namespace {

// A file that goes with the test.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& content) {
    const int fd = mkstemp(path_);
    REQUIRE(fd >= 0);
    REQUIRE(write(fd, content.data(), content.size()) == static_cast<ssize_t>(content.size()));
    close(fd);
  }
  ~TemporaryFile() { unlink(path_); }
  std::string path() const { return path_; }

 private:
  char path_[32] = "/tmp/kvctl_value.XXXXXX";
};

TEST_CASE("AnArgumentIsItsOwnValue") {
  Result<ValueSource> source = ValueSource::Open("hello", false);
  REQUIRE(source.ok());
  CHECK(source->bytes() == 5);
  CHECK(*source->Rest() == "hello");
  CHECK(ValueSource::Open("", false)->bytes() == 0);
}

TEST_CASE("LiteralTakesDashAndAtAsTheyAre") {
  CHECK(*ValueSource::Open("@/no/such", true)->Rest() == "@/no/such");
  CHECK(*ValueSource::Open("-", true)->Rest() == "-");
  CHECK(*ValueSource::Open("@", false)->Rest() == "@");
}

TEST_CASE("AFileComesInPiecesOfAnyBytes") {
  const std::string content = std::string(10'000, '\0') + "\n\xFF" + std::string(5, 'x');
  const TemporaryFile file(content);
  Result<ValueSource> source = ValueSource::Open("@" + file.path(), false);
  REQUIRE(source.ok());
  CHECK(source->bytes() == content.size());
  std::string all;
  for (;;) {
    const Result<std::string_view> piece = source->Next(4'096);
    REQUIRE(piece.ok());
    CHECK(piece->size() <= 4'096);
    if (piece->empty()) break;
    all += *piece;
  }
  CHECK(all == content);
}

TEST_CASE("AFileThatShrinksIsAnErrorAndNotAShorterValue") {
  const TemporaryFile file(std::string(10'000, 'x'));
  Result<ValueSource> source = ValueSource::Open("@" + file.path(), false);
  REQUIRE(source.ok());
  REQUIRE(truncate(file.path().c_str(), 100) == 0);
  CHECK(source->Rest().code() == StatusCode::kAborted);
}

TEST_CASE("AFileThatGrowsIsAnErrorAndNotAnotherValue") {
  const TemporaryFile file(std::string(10'000, 'x'));
  Result<ValueSource> source = ValueSource::Open("@" + file.path(), false);
  REQUIRE(source.ok());
  std::ofstream(file.path(), std::ios::app) << "more";
  CHECK(source->Rest().code() == StatusCode::kAborted);
}

TEST_CASE("AFileWithoutASizeIsReadToItsEnd") {
  Result<ValueSource> source = ValueSource::Open("@/proc/version", false);
  REQUIRE(source.ok());
  std::ifstream file("/proc/version");
  std::string line;
  std::getline(file, line);
  CHECK(source->bytes() == line.size() + 1);
  CHECK(*source->Rest() == line + "\n");
}

TEST_CASE("WhatIsNoFileIsNamed") {
  const auto missing = ValueSource::Open("@/no/such/file", false);
  CHECK(missing.code() == StatusCode::kNotFound);
  CHECK(std::string(missing.status().what()).find("/no/such/file") != std::string::npos);
  CHECK(ValueSource::Open("@/tmp", false).code() == StatusCode::kInvalidArgument);
}

TEST_CASE("AValueAboveTheLimitIsRefusedBeforeItIsRead") {
  const TemporaryFile file("");
  REQUIRE(truncate(file.path().c_str(), static_cast<off_t>(limits::kValueBytesMax + 1)) == 0);
  CHECK(ValueSource::Open("@" + file.path(), false).code() == StatusCode::kInvalidArgument);
  CHECK(ValueSource::Open("@/dev/zero", false).code() == StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tidepool::cli
