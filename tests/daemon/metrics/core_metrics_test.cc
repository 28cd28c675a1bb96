#include "daemon/metrics/core_metrics.h"

#include <catch2/catch.hpp>
#include <set>

namespace tidepool::daemon {
namespace {

constexpr NamespaceId kOne(1);
constexpr NamespaceId kTwo(2);

std::uint64_t Puts(SpaceCounters& counters) {
  return ++counters.operations[static_cast<std::size_t>(wire::Opcode::kPut)];
}

TEST_CASE("NamespacesAreCountedApart") {
  CoreMetrics metrics(0);
  CHECK(Puts(metrics.Of(kOne)) == 1);
  CHECK(Puts(metrics.Of(kTwo)) == 1);
  CHECK(Puts(metrics.Of(kTwo)) == 2);
  CHECK(Puts(metrics.Of(kOne)) == 2);
  std::set<std::uint32_t> seen;
  metrics.ForEach([&seen](NamespaceId space, const SpaceCounters&) { seen.insert(space.value()); });
  CHECK(seen == std::set<std::uint32_t>{1, 2});
}

TEST_CASE("AFrameCountsOnceForEachOfItsNamespaces") {
  CoreMetrics metrics(0);
  metrics.BeginFrame();
  metrics.AddToFrame(&metrics.Of(kOne));
  metrics.AddToFrame(&metrics.Of(kTwo));
  metrics.AddToFrame(&metrics.Of(kOne));
  metrics.EndFrame(5'000);
  metrics.BeginFrame();
  metrics.AddToFrame(&metrics.Of(kTwo));
  metrics.EndFrame(7'000);
  CHECK(metrics.Of(kOne).frames.count() == 1);
  CHECK(metrics.Of(kTwo).frames.count() == 2);
  CHECK(metrics.Of(kTwo).frames.sum_ns() == 12'000);
}

TEST_CASE("DroppedNamespacesAreForgotten") {
  CoreMetrics metrics(0);
  Puts(metrics.Of(kOne));
  Puts(metrics.Of(kTwo));
  metrics.Forget([](NamespaceId space) { return space == kTwo; });
  CHECK(Puts(metrics.Of(kTwo)) == 1);
  CHECK(Puts(metrics.Of(kOne)) == 2);
}

TEST_CASE("OneOperationIn128IsSampled") {
  CoreMetrics metrics(0);
  std::size_t samples = 0;
  constexpr std::size_t kOperations = 1'000'000;
  for (std::size_t done = 0; done < kOperations;) {
    const std::size_t frame = done % 7 == 0 ? 1'000 : 1;
    metrics.SampleEach(frame, [&](std::size_t i) {
      CHECK(i < frame);
      ++samples;
    });
    done += frame;
  }
  CHECK(static_cast<double>(samples) == Approx(kOperations / 127.5).epsilon(0.05));
}

TEST_CASE("NothingIsSlowWithoutAThreshold") {
  CHECK_FALSE(CoreMetrics(0).IsSlow(UINT64_MAX));
  CHECK(CoreMetrics(1'000).IsSlow(1'001));
  CHECK_FALSE(CoreMetrics(1'000).IsSlow(1'000));
}

TEST_CASE("HotKeysFadeWithTime") {
  CoreMetrics metrics(0);
  metrics.OnTimer(1);
  for (int i = 0; i < 4; ++i) metrics.hot_keys().Add(kOne, 1, AsBytes("k"), false);
  metrics.OnTimer(5'000'000'000);
  CHECK(metrics.hot_keys().samples() == 4);
  metrics.OnTimer(11'000'000'000);
  CHECK(metrics.hot_keys().samples() == 2);
}

}  // namespace
}  // namespace tidepool::daemon
