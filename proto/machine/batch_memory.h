// The memory that a batch system has granted to this process's job on this node.
//
// kvd's default of --memory -> [batch_memory] -> variables of Slurm
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "proto/machine/machine.h"

namespace tidepool::machine {

struct MemoryGrant {
  std::uint64_t bytes = kNoLimit;
  // For people: "SLURM_MEM_PER_CPU=2000 x 8 CPUs"; empty without a limit.
  std::string source;
  // A line about a variable that is no size and hence has no effect; empty: all is well.
  std::string warning;
};

// Returns the least of SLURM_MEM_PER_NODE, SLURM_MEM_PER_CPU x CPUs and SLURM_MEM_PER_GPU x GPUs,
// in MiB unless a unit follows; 0 means all of the node. CPUs are the CPUs of the whole job on this
// node, also in a job step with fewer CPUs. `cpus_allowed`: used if Slurm names no number.
MemoryGrant SlurmMemory(const std::map<std::string, std::string>& environment,
                        std::uint32_t cpus_allowed);

}  // namespace tidepool::machine
