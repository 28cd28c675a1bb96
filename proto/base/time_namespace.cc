#include "proto/base/time_namespace.h"

#include <fstream>
#include <string>

namespace tidepool {

bool MonotonicIsMachineWide() {
  // "monotonic  <seconds>  <nanoseconds>", against the machine's own.
  std::ifstream file("/proc/self/timens_offsets");
  std::string name;
  long long seconds = 0;
  long long nanoseconds = 0;
  while (file >> name >> seconds >> nanoseconds) {
    if (name == "monotonic") return seconds == 0 && nanoseconds == 0;
  }
  return true;
}

}  // namespace tidepool
