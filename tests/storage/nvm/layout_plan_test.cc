#include "storage/nvm/layout_plan.h"

#include <catch2/catch.hpp>
#include <random>

#include "tests/storage/nvm/samples.h"

namespace tidepool::storage {
namespace {

TEST_CASE("AnyPlannedLayoutIsSoundAndUsesTheDevice") {
  const std::uint32_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 2'000; ++round) {
    LayoutOptions options;
    options.cores = static_cast<std::uint32_t>(1 + random() % limits::kCoresPerNodeMax);
    options.slot_bytes = 4096ull << random() % 11;
    const std::uint64_t least = LayoutBytesMin(options);
    const std::uint64_t bytes = least + random() % (1ull << (20 + random() % 25));
    const auto layout = PlanLayout(bytes, options);
    REQUIRE(layout.ok());
    REQUIRE(IsSound(*layout));
    REQUIRE(layout->slot_count >= options.slots_per_core_min * options.cores);
    REQUIRE(layout->slots_begin % options.slot_bytes == 0);
    REQUIRE(layout->device_bytes - layout->SlotOffset(layout->slot_count) < options.slot_bytes);
    // Half of a device of some size at the least is for segments.
    REQUIRE(layout->slots_begin <= std::max(least, bytes / 2));
  }
}

TEST_CASE("TheLeastSizeIsTheLeast") {
  for (const std::uint32_t cores : {1u, 2u, 7u, 64u}) {
    LayoutOptions options;
    options.cores = cores;
    const std::uint64_t least = LayoutBytesMin(options);
    CHECK(PlanLayout(least, options).ok());
    const auto refused = PlanLayout(least - 1, options);
    CHECK(refused.code() == StatusCode::kResourceExhausted);
    CHECK(refused.status().remedy().find(std::to_string(least)) != std::string::npos);
  }
}

TEST_CASE("ALargeDeviceHasTheFullRingsAndCatalog") {
  LayoutOptions options;
  options.cores = 4;
  const auto layout = PlanLayout(256ull << 30, options);
  REQUIRE(layout.ok());
  CHECK(layout->ring_bytes == 64ull << 20);
  CHECK(layout->catalog_area_bytes == 16ull << 20);
}

TEST_CASE("OptionsThatCannotBeAreRefused") {
  const auto code = [](auto change) {
    LayoutOptions options;
    change(options);
    return PlanLayout(1ull << 40, options).code();
  };
  CHECK(code([](LayoutOptions& o) { o.cores = 0; }) == StatusCode::kInvalidArgument);
  CHECK(code([](LayoutOptions& o) { o.cores = 65; }) == StatusCode::kInvalidArgument);
  CHECK(code([](LayoutOptions& o) { o.slot_bytes = 5000; }) == StatusCode::kInvalidArgument);
  CHECK(code([](LayoutOptions& o) { o.slot_bytes = 2048; }) == StatusCode::kInvalidArgument);
  CHECK(code([](LayoutOptions& o) { o.ring_bytes = UINT64_MAX; }) == StatusCode::kInvalidArgument);
}

TEST_CASE("ALayoutWhosePartsOverlapIsNotSound") {
  const DeviceLayout good = test::SmallSuperblock().layout;
  REQUIRE(IsSound(good));
  std::uint64_t DeviceLayout::*const fields[] = {
      &DeviceLayout::device_bytes,  &DeviceLayout::slot_bytes,
      &DeviceLayout::slots_begin,   &DeviceLayout::checkpoints_begin,
      &DeviceLayout::rings_begin,   &DeviceLayout::ring_bytes,
      &DeviceLayout::catalog_begin, &DeviceLayout::catalog_area_bytes};
  for (const auto field : fields) {
    for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{1}, good.*field + 1,
                                      UINT64_MAX, UINT64_MAX - 4095, std::uint64_t{1} << 63}) {
      DeviceLayout bad = good;
      bad.*field = value;
      CHECK_FALSE(IsSound(bad));
    }
  }
  DeviceLayout more = good;
  ++more.slot_count;
  CHECK_FALSE(IsSound(more));
  more.slot_count = UINT64_MAX / 4096 + 1;
  CHECK_FALSE(IsSound(more));
  DeviceLayout cores = good;
  ++cores.cores;
  CHECK_FALSE(IsSound(cores));
}

}  // namespace
}  // namespace tidepool::storage
