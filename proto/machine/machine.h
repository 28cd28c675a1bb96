// What a machine and its control groups leave to this process: memory and CPUs.
//
// kvd's defaults and SDK-free programs (kvctl doctor) -> [machine] -> /proc, /sys/fs/cgroup
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tidepool::machine {

inline constexpr std::uint64_t kNoLimit = UINT64_MAX;

// CPUs on which this process may run, in order. Empty if the kernel does not say.
std::vector<int> AllowedCpus();

// The least memory limit of this process's control group and those above it, version 1 or 2: a
// batch system sets the job's, not ours. kNoLimit: none.
std::uint64_t GroupMemoryBytes();

// The same of the time that its threads may run, in CPUs: 1.5 is three halves of one. 0: no limit.
double GroupCpus();

// A line of /proc/meminfo ("MemAvailable:"); 0 if there is none.
std::uint64_t MemInfoBytes(const std::string& name);

}  // namespace tidepool::machine
