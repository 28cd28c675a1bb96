// A store that spills to a device in memory, and how the tests of that fill it.
#pragma once

#include <catch2/catch.hpp>
#include <string>

#include "tests/storage/store_fixture.h"

namespace tidepool::storage {

inline constexpr std::uint64_t kBlockBytes = 64 * 1024;

inline StoreOptions Spilling(std::uint64_t blocks = 48, std::uint64_t slots = 256) {
  StoreOptions options = TinyStore(blocks * kBlockBytes, kBlockBytes);
  options.slots = slots;
  return options;
}

inline std::string KeyOf(int i) { return "key" + std::to_string(i); }
inline std::string ValueOf(int i) { return std::string(1'000, static_cast<char>('a' + i % 26)); }

// Does the work of the core's loop between operations.
inline void Work(StoreFixture& fixture) {
  fixture.core->BackgroundSlice(1'000'000);
  fixture.core->Poll();
}

inline void PutAll(StoreFixture& fixture, int begin, int end) {
  for (int i = begin; i < end; ++i) {
    REQUIRE(fixture.Put(KeyOf(i), ValueOf(i)).code == StatusCode::kOk);
    if (i % 16 == 0) Work(fixture);
  }
}

// Until nothing more happens by itself.
inline void Quiesce(StoreFixture& fixture) {
  for (int idle = 0; idle < 50;) {
    const bool more = fixture.core->BackgroundSlice(1'000'000);
    idle = fixture.core->Poll() == 0 && !more ? idle + 1 : 0;
  }
}

inline SpillCounters Counters(const StoreFixture& fixture) {
  return fixture.core->counters().spill;
}

}  // namespace tidepool::storage
