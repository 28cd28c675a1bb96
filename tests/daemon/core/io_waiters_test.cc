// The lines of operations that wait for a device or for memory: a line per key.
#include "daemon/core/io_waiters.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace tidepool::daemon {
namespace {

using Ids = std::vector<std::uint64_t>;

const PartitionId kPartition(NamespaceId(1), 0);

struct Lines {
  IoWaiters waiters;
  std::uint16_t next_index = 0;

  IoWaiter* Add(std::vector<std::uint64_t> hashes, std::uint64_t session = 1,
                std::uint64_t frame_id = 1, std::uint64_t deadline_ns = 1'000) {
    auto waiter = std::make_unique<IoWaiter>();
    waiter->operation.partition = kPartition;
    waiter->operation.session = SessionId(session);
    waiter->operation.frame_id = frame_id;
    waiter->operation.index = next_index++;
    waiter->operation.deadline_ns = deadline_ns;
    waiter->hashes = std::move(hashes);
    return waiters.Add(std::move(waiter));
  }
  Ids Remove(std::uint64_t id) {
    Ids next;
    waiters.Remove(id, &next);
    return next;
  }
};

TEST_CASE("operations on one key run in the order of arrival, on other keys at once") {
  Lines lines;
  const IoWaiter* first = lines.Add({7});
  const IoWaiter* second = lines.Add({7});
  const IoWaiter* other = lines.Add({8});
  const IoWaiter* keyless = lines.Add({});
  CHECK(lines.waiters.HasTurn(*first));
  CHECK_FALSE(lines.waiters.HasTurn(*second));
  CHECK(lines.waiters.HasTurn(*other));
  CHECK(lines.waiters.HasTurn(*keyless));
  CHECK(lines.waiters.Blocks(kPartition, 7));
  CHECK_FALSE(lines.waiters.Blocks(kPartition, 9));
  CHECK_FALSE(lines.waiters.Blocks(PartitionId(NamespaceId(1), 1), 7));
  const std::uint64_t id = second->id;
  CHECK(lines.Remove(first->id) == Ids{id});
  CHECK(lines.Remove(id).empty());
  CHECK_FALSE(lines.waiters.Blocks(kPartition, 7));
}

TEST_CASE("an operation on several keys has its turn when it is the first on all of them") {
  Lines lines;
  const std::uint64_t one = lines.Add({1})->id;
  const std::uint64_t two = lines.Add({2})->id;
  const std::uint64_t both = lines.Add({1, 2})->id;
  const std::uint64_t behind = lines.Add({2})->id;
  CHECK(lines.Remove(one).empty());
  CHECK(lines.Remove(two) == Ids{both});  // Once, although it is the first in two lines.
  CHECK(lines.Remove(both) == Ids{behind});
}

TEST_CASE("an operation that goes from the middle of its line gives its turn to nobody") {
  Lines lines;
  lines.Add({1});
  const std::uint64_t middle = lines.Add({1})->id;
  const IoWaiter* last = lines.Add({1});
  CHECK(lines.Remove(middle).empty());
  CHECK_FALSE(lines.waiters.HasTurn(*last));
  CHECK(lines.waiters.Find(middle) == nullptr);
}

TEST_CASE("operations are found by deadline, by frame, and by what they wait for") {
  Lines lines;
  CHECK(lines.waiters.next_deadline_ns() == UINT64_MAX);
  IoWaiter* early = lines.Add({1}, 1, 1, 100);
  IoWaiter* late = lines.Add({2}, 1, 2, 300);
  IoWaiter* behind = lines.Add({1}, 2, 1, 200);
  CHECK(lines.waiters.next_deadline_ns() == 100);
  CHECK(lines.waiters.Expired(99).empty());
  CHECK(lines.waiters.Expired(200) == Ids{early->id, behind->id});
  CHECK(lines.waiters.Below(SessionId(1), 2) == Ids{early->id});
  CHECK(lines.waiters.Holds(SessionId(1), 2, late->operation.index));
  CHECK_FALSE(lines.waiters.Holds(SessionId(1), 3, late->operation.index));
  late->parked = true;
  behind->parked = true;  // It has not its turn.
  CHECK(lines.waiters.Parked() == Ids{late->id});
}

}  // namespace
}  // namespace tidepool::daemon
