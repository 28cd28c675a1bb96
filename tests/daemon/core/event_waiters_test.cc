// The lines of operations that wait, against a plain list of them.
#include "daemon/core/event_waiters.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <utility>
#include <vector>

#include "tests/support/random.h"

namespace tidepool::daemon {
namespace {

using Outcome = EventWaiters::Outcome;
using Place = std::pair<std::uint64_t, std::uint64_t>;  // Session and frame.

// Known facts of a waiter.
struct Known {
  std::uint32_t partition;
  WaitFor wait_for;
  std::uint64_t hash;
  std::uint64_t deadline_ns;
  std::uint64_t session;
  std::uint64_t frame_id;
  bool skipped;  // Its client is not connected.

  Place place() const { return {session, frame_id}; }
  bool on_key() const { return wait_for == WaitFor::kChange || wait_for == WaitFor::kGroup; }
};

class Model {
 public:
  EventWaiters waits;
  std::vector<Known> known;  // In the order of arrival.
  // Places of the attempts, in order.
  std::vector<Place> tried;
  std::uint64_t gains = 0;  // Attempts left that answer a waiter each.

  void Add(const Known& added) {
    auto operation = std::make_unique<EventWaiter>();
    operation->partition = PartitionId(NamespaceId(1), added.partition);
    operation->wait_for = added.wait_for;
    operation->hash = added.hash;
    operation->deadline_ns = added.deadline_ns;
    operation->session = SessionId(added.session);
    operation->frame_id = added.frame_id;
    waits.Add(std::move(operation));
    known.push_back(added);
  }
  Outcome Try(const EventWaiter& waiter, bool last) {
    const Place place(waiter.session.value(), waiter.frame_id);
    const auto at = Find(place);
    REQUIRE(at != known.end());
    tried.push_back(place);
    if (at->skipped && !last) return Outcome::kSkipped;
    if (!last && gains == 0) return Outcome::kWaits;
    if (!last) --gains;
    known.erase(at);
    return Outcome::kAnswered;
  }
  auto Attempt() {
    return [this](const EventWaiter& waiter, bool last) { return Try(waiter, last); };
  }
  std::vector<Known>::iterator Find(Place place) {
    return std::find_if(known.begin(), known.end(),
                        [&](const Known& each) { return each.place() == place; });
  }
  template <typename Condition>
  std::vector<Place> PlacesOf(Condition condition) const {
    std::vector<Place> places;
    for (const Known& each : known) {
      if (condition(each)) places.push_back(each.place());
    }
    return places;
  }
  void Check() {
    REQUIRE(waits.size() == known.size());
    REQUIRE(waits.empty() == known.empty());
    for (const Known& each : known) {
      REQUIRE(waits.Holds(SessionId(each.session), each.frame_id, 0));
      REQUIRE(waits.WaitsOn(PartitionId(NamespaceId(1), each.partition)));
    }
  }
};

TEST_CASE("WhatWaitsIsTriedInItsOrderAndForgottenWithItsEnd") {
  test::Random random("WhatWaitsIsTriedInItsOrderAndForgottenWithItsEnd");
  Model model;
  std::uint64_t frame_id = 0;
  for (int step = 0; step < 20'000; ++step) {
    model.tried.clear();
    const auto partition = static_cast<std::uint32_t>(random.Below(3));
    const PartitionId id(NamespaceId(1), partition);
    switch (random.Below(model.known.size() > 200 ? 8 : 12)) {
      case 0: {  // Gives up old waiters of a session.
        const std::uint64_t session = random.Below(4);
        const std::uint64_t below = frame_id - std::min<std::uint64_t>(frame_id, random.Below(300));
        std::vector<Place> dropped;
        model.waits.DropBelow(SessionId(session), below, [&](const EventWaiter& waiter) {
          dropped.emplace_back(waiter.session.value(), waiter.frame_id);
        });
        const auto gone = [&](const Known& each) {
          return each.session == session && each.frame_id < below;
        };
        REQUIRE(dropped == model.PlacesOf(gone));
        std::erase_if(model.known, gone);
        break;
      }
      case 1: {
        model.gains = random.Below(4);
        const std::size_t before = model.known.size();
        const std::uint64_t gains = model.gains;
        model.waits.RetryItems(id, model.Attempt());
        REQUIRE(model.known.size() == before - (gains - model.gains));
        break;
      }
      case 2: {
        const WaitFor wait_for = random.OneIn(2) ? WaitFor::kChange : WaitFor::kGroup;
        const std::uint64_t hash = random.Below(5);
        const auto expected = model.PlacesOf([&](const Known& each) {
          return each.partition == partition && each.wait_for == wait_for && each.hash == hash;
        });
        model.gains = ~0ull;
        model.waits.RetryKey(id, wait_for, hash, model.Attempt());
        REQUIRE(model.tried == expected);
        break;
      }
      case 3: {
        auto expected = model.PlacesOf([&](const Known& each) {
          return each.partition == partition && each.wait_for == WaitFor::kChange;
        });
        model.gains = random.Below(3);
        model.waits.RetryChanges(id, model.Attempt());
        std::sort(expected.begin(), expected.end());
        std::sort(model.tried.begin(), model.tried.end());
        REQUIRE(model.tried == expected);
        break;
      }
      case 4: {
        const std::uint64_t now_ns = static_cast<std::uint64_t>(step);
        const auto due = model.PlacesOf(
            [&](const Known& each) { return each.on_key() && each.deadline_ns <= now_ns; });
        model.gains = 0;
        model.waits.RetryAll(now_ns, model.Attempt());
        for (const Place& place : due) REQUIRE(model.Find(place) == model.known.end());
        REQUIRE(
            model.PlacesOf([&](const Known& each) { return each.deadline_ns <= now_ns; }).empty());
        // In addition to the due waiters: the first of each line, and the waiters skipped before
        // it.
        REQUIRE(model.tried.size() <= due.size() + 2 * (6 + 200 * 2));
        break;
      }
      case 5: {
        auto expected = model.PlacesOf([](const Known&) { return true; });
        model.gains = random.Below(3);
        model.waits.Recheck(model.Attempt());
        std::sort(expected.begin(), expected.end());
        std::sort(model.tried.begin(), model.tried.end());
        REQUIRE(model.tried == expected);
        break;
      }
      default: {
        constexpr WaitFor kReasons[] = {WaitFor::kItem, WaitFor::kRoom, WaitFor::kChange,
                                        WaitFor::kGroup};
        model.Add({partition, kReasons[random.Below(4)], random.Below(5),
                   static_cast<std::uint64_t>(step) + random.Below(400), random.Below(4),
                   ++frame_id, random.OneIn(4)});
      }
    }
    if (step % 16 == 0) model.Check();
  }
}

TEST_CASE("ThoseBehindOneThatGainsNothingAreNotTried") {
  Model model;
  for (std::uint64_t frame = 1; frame <= 5; ++frame) {
    model.Add({0, WaitFor::kItem, 0, ~0ull, 1, frame, frame == 1});
  }
  model.gains = 1;
  model.waits.RetryItems(PartitionId(NamespaceId(1), 0), model.Attempt());
  // The first is not connected, the second gets the answer, and the third gets nothing. Then all
  // try again: the second's action may help the rest.
  CHECK(model.tried == std::vector<Place>{{1, 1}, {1, 2}, {1, 3}, {1, 1}, {1, 3}});
}

}  // namespace
}  // namespace tidepool::daemon
