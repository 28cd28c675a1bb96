#include "cli/spawn.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>

namespace tidepool::cli {
namespace {

constexpr std::uint64_t kPatienceMs = 60'000;

TEST_CASE("OutputOfACommandIsAllThatItPrints") {
  CHECK(OutputOf({"sh", "-c", "echo a; echo b >&2; printf c"}, kPatienceMs).value() == "a\nb\nc");
  CHECK(OutputOf({"true"}, kPatienceMs).value().empty());
  CHECK(OutputOf({"head", "-c", "200000", "/dev/zero"}, kPatienceMs).value().size() == 200'000);
}

TEST_CASE("OutputOfACommandThatFailsIsWhyItDoes") {
  const auto failed = OutputOf({"sh", "-c", "echo out of order; exit 3"}, kPatienceMs);
  CHECK(failed.code() == StatusCode::kUnavailable);
  CHECK(failed.status().what() == "sh fails: out of order");
  CHECK(OutputOf({"no-such-program"}, kPatienceMs).code() == StatusCode::kNotFound);
}

TEST_CASE("ACommandThatTakesTooLongIsKilled") {
  const auto late = OutputOf({"sleep", "3600"}, 50);
  CHECK(late.code() == StatusCode::kUnavailable);
  CHECK(late.status().what() == "sleep takes too long");
}

class Log {
 public:
  explicit Log(const std::string& text) { std::ofstream(path_) << text; }
  ~Log() { unlink(path_.c_str()); }
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_ = "/tmp/spawn_test." + std::to_string(getpid());
};

TEST_CASE("TheLastLinesOfALogAreThoseThatSaySomething") {
  const Log log("one\ntwo\n\nthree\n  \n");
  CHECK(LastLines(log.path(), 2) == std::vector<std::string>{"two", "three"});
  CHECK(LastLines(log.path(), 9) == std::vector<std::string>{"one", "two", "three"});
  CHECK(LastLine(log.path()) == "three");
  CHECK(LastLines("/nowhere", 9).empty());
}

TEST_CASE("ALogThatEndsWithAReasonSaysWhyTheDaemonHasEnded") {
  const auto reason = [](const std::string& text) { return ReasonIn(Log(text).path()); };
  CHECK(reason("[info] hello\nkvd: no memory\n") == "kvd: no memory");
  CHECK(reason("slurmstepd-n1: error: execve(): /kvd: No such file or directory\n") ==
        "slurmstepd-n1: error: execve(): /kvd: No such file or directory");
  CHECK(reason("[info] joined\n").empty());
  CHECK(reason("").empty());
}

}  // namespace
}  // namespace tidepool::cli
