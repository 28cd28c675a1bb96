#include "proto/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace tidepool {

void CheckFailed(const char* file, int line, const char* condition) {
  // stderr, not the log: the log itself may be broken.
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, condition);
  std::fflush(stderr);
  std::abort();
}

}  // namespace tidepool
