#include "daemon/control/stop_signal.h"

#include <catch2/catch.hpp>
#include <thread>

namespace tidepool::daemon {
namespace {

TEST_CASE("TheFirstRequestToStopCounts") {
  StopSignal stop;
  CHECK_FALSE(stop.requested());
  stop.Request({.loss_agreed = true});
  stop.Request({.failure = Status(StatusCode::kInternal, "later")});
  CHECK(stop.requested());
  CHECK(stop.request().loss_agreed);
  CHECK(stop.request().failure.ok());
}

TEST_CASE("AWaiterWakesAtTheRequest") {
  StopSignal stop;
  std::thread requester([&] { stop.Request({}); });
  stop.Wait();
  requester.join();
  CHECK(stop.WaitUntil(Deadline::AfterMs(0)));
}

TEST_CASE("WaitingEndsAtItsDeadline") {
  StopSignal stop;
  CHECK_FALSE(stop.WaitUntil(Deadline::AfterMs(1)));
}

TEST_CASE("TheHookRunsOnceWhicheverComesFirst") {
  int runs = 0;
  StopSignal hook_first;
  hook_first.SetHook([&] { ++runs; });
  hook_first.Request({});
  hook_first.Request({});
  CHECK(runs == 1);
  StopSignal request_first;
  request_first.Request({});
  request_first.SetHook([&] { ++runs; });
  CHECK(runs == 2);
  StopSignal removed;
  removed.SetHook([&] { ++runs; });
  removed.SetHook({});
  removed.Request({});
  CHECK(runs == 2);
}

}  // namespace
}  // namespace tidepool::daemon
