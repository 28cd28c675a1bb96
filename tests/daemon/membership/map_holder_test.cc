#include "daemon/membership/map_holder.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "tests/integration/harness.h"

namespace tidepool::daemon {
namespace {

using testing::WaitUntil;

placement::PlacementMapPtr MapOf(std::uint64_t epoch) {
  auto map = std::make_shared<placement::PlacementMap>();
  map->epoch = Epoch(epoch);
  return map;
}

TEST_CASE("OnlyNewerMapsAreTaken") {
  MapHolder holder;
  CHECK(holder.Get() == nullptr);
  holder.Set(MapOf(5));
  holder.Set(MapOf(4));
  CHECK(holder.Get()->epoch == Epoch(5));
  holder.Set(MapOf(6));
  CHECK(holder.Get()->epoch == Epoch(6));
}

TEST_CASE("AWaiterSeesTheMapThatItWaitsFor") {
  MapHolder holder;
  std::thread setter([&] { holder.Set(MapOf(3)); });
  CHECK(holder.WaitFor(Epoch(3), Deadline::AfterMs(testing::kPatienceMs)));
  setter.join();
  CHECK_FALSE(holder.WaitFor(Epoch(4), Deadline::AfterMs(1)));
}

TEST_CASE("ACallbackComesWithTheMapOrAtItsDeadline") {
  MapHolder holder;
  std::atomic<int> by_map{0};
  std::atomic<int> by_deadline{0};
  std::atomic<int> at_once{0};
  holder.OnEpoch(Epoch(2), Deadline::AfterMs(testing::kPatienceMs * 10), [&] { ++by_map; });
  holder.OnEpoch(Epoch(99), Deadline::AfterMs(5), [&] { ++by_deadline; });
  CHECK(WaitUntil([&] { return by_deadline == 1; }));
  CHECK(by_map == 0);
  holder.Set(MapOf(2));
  CHECK(by_map == 1);
  holder.OnEpoch(Epoch(1), Deadline::AfterMs(testing::kPatienceMs), [&] { ++at_once; });
  CHECK(at_once == 1);
}

TEST_CASE("AnEarlierDeadlineIsKeptThoughALaterOneWaitsAlready") {
  MapHolder holder;
  std::atomic<int> early{0};
  holder.OnEpoch(Epoch(1), Deadline::AfterMs(testing::kPatienceMs * 10), [] {});
  holder.OnEpoch(Epoch(1), Deadline::AfterMs(5), [&] { ++early; });
  CHECK(WaitUntil([&] { return early == 1; }));
}

TEST_CASE("ClosingEndsAllWaitsOnce") {
  std::atomic<int> done{0};
  {
    MapHolder holder;
    for (int i = 0; i < 100; ++i) {
      holder.OnEpoch(Epoch(1), Deadline::AfterMs(testing::kPatienceMs), [&] { ++done; });
    }
    std::thread waiter([&] { holder.WaitFor(Epoch(1), Deadline::AfterMs(testing::kPatienceMs)); });
    holder.Close();
    waiter.join();
    CHECK(done == 100);
    holder.OnEpoch(Epoch(1), Deadline::AfterMs(testing::kPatienceMs), [&] { ++done; });
    CHECK(done == 101);
  }
  CHECK(done == 101);
}

}  // namespace
}  // namespace tidepool::daemon
