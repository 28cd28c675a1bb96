// Limits of a machine and its control groups for this process: memory and CPUs.
//
// kvd's defaults and SDK-free programs (kvctl doctor) -> [machine] -> /proc, /sys/fs/cgroup
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tidepool::machine {

inline constexpr std::uint64_t kNoLimit = UINT64_MAX;

// Returns the CPUs on which this process may run, in order. Empty if the kernel gives no answer.
std::vector<int> AllowedCpus();

// Returns the least memory limit of this process's control group and its ancestors, version 1 or 2.
// A batch system sets the job's, not ours. kNoLimit: no limit.
std::uint64_t GroupMemoryBytes();

// Returns the limit of its threads' running time, in CPUs: 1.5 is three halves of a CPU. 0: no
// limit.
double GroupCpus();

// Returns a line of /proc/meminfo ("MemAvailable:"); 0 if it is absent.
std::uint64_t MemInfoBytes(const std::string& name);

}  // namespace tidepool::machine
