#include "daemon/metrics/slow_log.h"

#include <catch2/catch.hpp>
#include <string>

namespace tidepool::daemon {
namespace {

SlowEntry EntryAt(std::uint64_t at_ms) {
  SlowEntry entry;
  entry.at_ms = at_ms;
  entry.operations = 3;
  entry.reason = SlowReason::kCommit;
  return entry;
}

TEST_CASE("TheSlowLogShowsTheNewestFirst") {
  SlowLog log;
  log.Add(EntryAt(1), AsBytes("a"));
  log.Add(EntryAt(2), AsBytes("bb"));
  const auto list = log.List();
  REQUIRE(list.size() == 2);
  CHECK(list[0].at_ms == 2);
  CHECK(list[0].key == "bb");
  CHECK(list[0].key_bytes == 2);
  CHECK(list[0].operations == 3);
  CHECK(SlowReasonName(list[0].reason) == "commit");
  CHECK(list[1].at_ms == 1);
}

TEST_CASE("TheSlowLogKeepsTheLastOnes") {
  SlowLog log;
  for (std::uint64_t i = 1; i <= 2 * SlowLog::kEntries + 5; ++i) log.Add(EntryAt(i), {});
  const auto list = log.List();
  REQUIRE(list.size() == SlowLog::kEntries);
  CHECK(list.front().at_ms == 2 * SlowLog::kEntries + 5);
  CHECK(list.back().at_ms == SlowLog::kEntries + 6);
  CHECK(log.total() == 2 * SlowLog::kEntries + 5);
  log.Clear();
  CHECK(log.List().empty());
  CHECK(log.total() == 0);
}

TEST_CASE("OfALongKeyTheSlowLogKeepsItsBeginning") {
  SlowLog log;
  log.Add(EntryAt(1), AsBytes(std::string(5'000, 'x')));
  CHECK(log.List()[0].key == std::string(SlowLog::kKeyBytes, 'x'));
  CHECK(log.List()[0].key_bytes == 5'000);
}

}  // namespace
}  // namespace tidepool::daemon
