// The line of answers that wait for a commit.
#include "daemon/core/commit_waiters.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <utility>
#include <vector>

namespace tidepool::daemon {
namespace {

using Ended = std::vector<std::pair<std::uint64_t, bool>>;  // Position, and whether it is durable.

void Add(CommitWaiters& waiters, std::uint64_t position) {
  CommitWaiter waiter;
  waiter.position = position;
  waiters.Add(std::move(waiter));
}

Ended Release(CommitWaiters& waiters, std::uint64_t durable, bool failed) {
  Ended ended;
  const unsigned released =
      waiters.Release(durable, failed, [&ended](const CommitWaiter& waiter, bool is_durable) {
        ended.emplace_back(waiter.position, is_durable);
      });
  CHECK(released == ended.size());
  return ended;
}

TEST_CASE("answers leave once their position is durable, in the order in which they came") {
  CommitWaiters waiters;
  for (const std::uint64_t position : {10, 20, 20, 30}) Add(waiters, position);
  CHECK(Release(waiters, 9, false).empty());
  CHECK(waiters.size() == 4);
  CHECK(Release(waiters, 20, false) == Ended{{10, true}, {20, true}, {20, true}});
  CHECK(waiters.newest().position == 30);
  CHECK(Release(waiters, 31, false) == Ended{{30, true}});
  CHECK(waiters.empty());
}

TEST_CASE("answers do not overtake those that wait for a later position") {
  CommitWaiters waiters;
  Add(waiters, 20);
  Add(waiters, 10);
  CHECK(Release(waiters, 15, false).empty());
  CHECK(Release(waiters, 20, false) == Ended{{20, true}, {10, true}});
}

TEST_CASE("a failed device ends all that wait, and says what is durable nevertheless") {
  CommitWaiters waiters;
  for (const std::uint64_t position : {10, 20, 30}) Add(waiters, position);
  CHECK(Release(waiters, 15, true) == Ended{{10, true}, {20, false}, {30, false}});
  CHECK(waiters.empty());
}

TEST_CASE("what comes while others leave takes its turn in the same walk") {
  CommitWaiters waiters;
  Add(waiters, 10);
  Ended ended;
  waiters.Release(20, false, [&](const CommitWaiter& waiter, bool is_durable) {
    ended.emplace_back(waiter.position, is_durable);
    if (waiter.position < 30) Add(waiters, waiter.position + 10);
  });
  CHECK(ended == Ended{{10, true}, {20, true}});
  CHECK(waiters.newest().position == 30);
  waiters.Clear();
  CHECK(waiters.empty());
}

}  // namespace
}  // namespace tidepool::daemon
