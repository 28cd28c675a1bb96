// The resource limits of this process (getrlimit), which shells and batch systems hand on.
#pragma once

#include <cstdint>

namespace tidepool::machine {

// Soft limits, which the kernel enforces. kNoLimit of machine.h: no limit. A limit that cannot be
// read counts as no limit.
struct ProcessLimits {
  std::uint64_t file_bytes = 0;     // RLIMIT_FSIZE, of a file and of a shared memory object.
  std::uint64_t address_bytes = 0;  // RLIMIT_AS.
  std::uint64_t data_bytes = 0;     // RLIMIT_DATA.
  std::uint64_t cpu_seconds = 0;    // RLIMIT_CPU, the hard limit: the kernel then sends SIGKILL.
  std::uint64_t processes = 0;      // RLIMIT_NPROC, with the threads of all processes of this user.
  std::uint64_t core_bytes = 0;     // RLIMIT_CORE.
  std::uint64_t locked_bytes = 0;   // RLIMIT_MEMLOCK.
  std::uint64_t open_files = 0;     // RLIMIT_NOFILE.
  std::uint64_t open_files_possible = 0;  // The hard limit, to which the process may raise it.
};

ProcessLimits ReadProcessLimits();

// Raises the soft limit of CPU time to the hard limit, because a daemon has no use for the SIGXCPU
// of each second between them. Gives threads to come stacks of 8 MiB, whatever RLIMIT_STACK is.
// Called before any thread is started.
void AdjustProcessLimits();

}  // namespace tidepool::machine
