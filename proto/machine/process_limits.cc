#include "proto/machine/process_limits.h"

#include <pthread.h>
#include <sys/resource.h>

#include <cstddef>

#include "proto/machine/machine.h"

namespace tidepool::machine {
namespace {

constexpr std::size_t kThreadStackBytes = 8 << 20;

rlimit LimitsOf(int resource) {
  rlimit limits{};
  if (getrlimit(static_cast<__rlimit_resource>(resource), &limits) == 0) return limits;
  return {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
}

std::uint64_t NumberOf(rlim_t limit) { return limit == RLIM_INFINITY ? kNoLimit : limit; }

}  // namespace

ProcessLimits ReadProcessLimits() {
  ProcessLimits limits;
  limits.file_bytes = NumberOf(LimitsOf(RLIMIT_FSIZE).rlim_cur);
  limits.address_bytes = NumberOf(LimitsOf(RLIMIT_AS).rlim_cur);
  limits.data_bytes = NumberOf(LimitsOf(RLIMIT_DATA).rlim_cur);
  limits.cpu_seconds = NumberOf(LimitsOf(RLIMIT_CPU).rlim_max);
  limits.processes = NumberOf(LimitsOf(RLIMIT_NPROC).rlim_cur);
  limits.core_bytes = NumberOf(LimitsOf(RLIMIT_CORE).rlim_cur);
  limits.locked_bytes = NumberOf(LimitsOf(RLIMIT_MEMLOCK).rlim_cur);
  limits.open_files = NumberOf(LimitsOf(RLIMIT_NOFILE).rlim_cur);
  limits.open_files_possible = NumberOf(LimitsOf(RLIMIT_NOFILE).rlim_max);
  return limits;
}

void AdjustProcessLimits() {
  rlimit cpu = LimitsOf(RLIMIT_CPU);
  cpu.rlim_cur = cpu.rlim_max;
  setrlimit(RLIMIT_CPU, &cpu);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kThreadStackBytes);
  pthread_setattr_default_np(&attributes);
  pthread_attr_destroy(&attributes);
}

}  // namespace tidepool::machine
