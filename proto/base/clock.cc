#include "proto/base/clock.h"

#include <ctime>

namespace tidepool {
namespace {

class RealClock final : public Clock {
 public:
  std::uint64_t MonotonicNs() const override {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(now.tv_nsec);
  }
  std::uint64_t WallMs() const override {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000 +
           static_cast<std::uint64_t>(now.tv_nsec) / 1'000'000;
  }
};

}  // namespace

const Clock& Clock::Real() {
  static const RealClock clock;
  return clock;
}

}  // namespace tidepool
