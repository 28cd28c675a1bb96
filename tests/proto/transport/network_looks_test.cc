#include "proto/transport/network_looks.h"

#include <catch2/catch.hpp>

namespace tidepool::transport {
namespace {

// How many of `rounds` ask the network, which has nothing.
unsigned IdleLooks(NetworkLooks& looks, unsigned rounds, unsigned ring_frames = 0) {
  unsigned count = 0;
  for (unsigned round = 0; round < rounds; ++round) {
    if (!looks.Due(ring_frames)) continue;
    ++count;
    looks.Looked(false, false);
  }
  return count;
}

TEST_CASE("EachRoundAsksAfterSomethingCame") {
  NetworkLooks looks;
  IdleLooks(looks, 100'000);
  while (!looks.Due(0)) continue;
  looks.Looked(true, false);
  CHECK(IdleLooks(looks, 64) == 64);
}

TEST_CASE("EachRoundAsksAfterSomethingWasSent") {
  NetworkLooks looks;
  IdleLooks(looks, 100'000);
  looks.Expect();
  CHECK(IdleLooks(looks, 64) == 64);
}

TEST_CASE("EachRoundAsksWhileSomethingHasNotLeft") {
  NetworkLooks looks;
  IdleLooks(looks, 100'000);
  while (!looks.Due(0)) continue;
  looks.Looked(false, true);
  for (unsigned round = 0; round < 1'000; ++round) {
    REQUIRE(looks.Due(0));
    looks.Looked(false, true);
  }
}

TEST_CASE("ASilentNetworkIsAskedSeldomButNeverForgotten") {
  NetworkLooks looks;
  IdleLooks(looks, 100'000);
  CHECK(IdleLooks(looks, 100 * 1'024) == 100);
}

TEST_CASE("FramesOfRingsCountForSeveralRounds") {
  NetworkLooks looks;
  IdleLooks(looks, 100'000);
  const unsigned looks_beside_frames = IdleLooks(looks, 10'240, 1);
  CHECK(looks_beside_frames > 150);
  CHECK(looks_beside_frames < 200);
}

TEST_CASE("TheFirstRoundsAfterASleepAsk") {
  NetworkLooks looks;
  IdleLooks(looks, 100'000);
  looks.ExpectAtWake();
  CHECK(IdleLooks(looks, 2) == 2);
  CHECK(IdleLooks(looks, 1'000) < 10);
}

}  // namespace
}  // namespace tidepool::transport
