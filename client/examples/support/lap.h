// A stop watch.
#pragma once

#include <chrono>

namespace support {

class Lap {
 public:
  // Since the last call, or since this was made.
  double Seconds() {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - begin_).count();
    begin_ = now;
    return seconds;
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace support
