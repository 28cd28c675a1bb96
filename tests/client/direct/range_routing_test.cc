#include "client/direct/range_routing.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace tidepool::internal {
namespace {

std::shared_ptr<const placement::Ranges> Make(std::vector<std::string> begins) {
  return std::make_shared<const placement::Ranges>(
      placement::Ranges::Create(std::move(begins)).value());
}

TEST_CASE("BoundsHoldWhatLiesFromTheirBeginToTheNext") {
  const auto ranges = Make({"", "m", "\x80"});
  const KeyBounds low = KeyBounds::Of(*ranges, 0);
  CHECK(low.Hold(AsBytes("")));
  CHECK(low.Hold(AsBytes("lz")));
  CHECK_FALSE(low.Hold(AsBytes("m")));
  const KeyBounds middle = KeyBounds::Of(*ranges, 1);
  CHECK(middle.Hold(AsBytes("m")));
  CHECK(middle.Hold(AsBytes("\x7f")));
  CHECK_FALSE(middle.Hold(AsBytes("\x80")));  // Bytes are unsigned.
  const KeyBounds high = KeyBounds::Of(*ranges, 2);
  CHECK(high.Hold(AsBytes("\xff\xff")));
  CHECK_FALSE(high.Hold(AsBytes("z")));
}

TEST_CASE("WithoutRangesNoPartitionIsKnown") {
  RangeRouting routing;
  CHECK_FALSE(routing.IndexOf(AsBytes("a")).has_value());
}

TEST_CASE("ASplitIsSeenByTheNextLookOfEachThread") {
  RangeRouting routing;
  routing.Set(Make({""}));
  CHECK(routing.IndexOf(AsBytes("x")) == 0u);
  const auto of_another_thread = [&] {
    std::optional<std::uint32_t> index;
    std::thread([&] { index = routing.IndexOf(AsBytes("x")); }).join();
    return index;
  };
  CHECK(of_another_thread() == 0u);
  routing.Set(Make({"", "m"}));
  CHECK(routing.IndexOf(AsBytes("x")) == 1u);
  CHECK(routing.IndexOf(AsBytes("a")) == 0u);
  CHECK(of_another_thread() == 1u);
}

// Splits take the upper part: the partition of the highest key only grows.
TEST_CASE("ThreadsThatLookDuringSplitsNeverGoBack") {
  constexpr std::uint32_t kSplits = 300;
  RangeRouting routing;
  std::vector<std::string> begins = {""};
  routing.Set(Make(begins));
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> answers{0};
  std::atomic<bool> went_back{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      std::uint32_t last = 0;
      while (!stop) {
        const auto index = routing.IndexOf(AsBytes("\xff"));
        if (!index.has_value()) continue;
        if (*index < last) went_back = true;
        last = *index;
        ++answers;
      }
    });
  }
  for (std::uint32_t i = 1; i <= kSplits; ++i) {
    begins.push_back("k" + std::to_string(1000 + i));
    routing.Set(Make(begins));
    const std::uint64_t before = answers;
    while (answers == before) std::this_thread::yield();
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  CHECK_FALSE(went_back);
  CHECK(routing.IndexOf(AsBytes("\xff")) == kSplits);
}

}  // namespace
}  // namespace tidepool::internal
