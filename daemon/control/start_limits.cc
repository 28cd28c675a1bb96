#include "daemon/control/start_limits.h"

#include <algorithm>
#include <cstdint>

#include "proto/base/limits.h"
#include "proto/machine/machine.h"

namespace tidepool::daemon {
namespace {

// A daemon of two cores takes 980 MiB of addresses beside its records: stacks, heaps, libraries.
constexpr std::uint64_t kAddressesBesideBytes = 1ull << 30;
// The index of the records.
constexpr std::uint64_t kMemoryPerIndexByte = 8;
// Heaps and stacks of an idle daemon of two cores: 160 MiB.
constexpr std::uint64_t kDataBytesMin = 256ull << 20;

Status LimitTooSmall(const std::string& limit, std::uint64_t bytes, const std::string& need,
                     const std::string& remedy) {
  return Status(StatusCode::kResourceExhausted,
                "the limit of " + limit + " is " + FormatSize(bytes) + ", below " + need, remedy);
}

}  // namespace

std::uint64_t AddressesNeeded(std::uint64_t memory_bytes) {
  return memory_bytes + memory_bytes / kMemoryPerIndexByte + kAddressesBesideBytes;
}

Status CheckStartLimits(const Options& options, const machine::ProcessLimits& given) {
  const std::uint64_t memory = options.memory_bytes;
  if (given.file_bytes < memory) {
    return LimitTooSmall("the size of files (ulimit -f), which holds for shared memory, too,",
                         given.file_bytes, "--memory " + FormatSize(memory),
                         "ulimit -f unlimited before kvd starts" +
                             (given.file_bytes < limits::kMemoryBytesMin
                                  ? std::string()
                                  : ", or --memory " + FormatSize(given.file_bytes) + " at most") +
                             "; in Slurm: PropagateResourceLimitsExcept=FSIZE");
  }
  if (given.file_bytes < options.nvm_bytes) {
    return LimitTooSmall("the size of files (ulimit -f)", given.file_bytes,
                         "--nvm-size " + FormatSize(options.nvm_bytes),
                         "ulimit -f unlimited before kvd starts, or a smaller --nvm-size");
  }
  if (given.address_bytes < AddressesNeeded(memory)) {
    return LimitTooSmall("address space (ulimit -v)", given.address_bytes,
                         "the " + FormatSize(AddressesNeeded(memory)) +
                             " that kvd needs with --memory " + FormatSize(memory),
                         "ulimit -v unlimited before kvd starts, or less --memory");
  }
  if (given.data_bytes < kDataBytesMin) {
    return LimitTooSmall("private memory (ulimit -d)", given.data_bytes,
                         "the " + FormatSize(kDataBytesMin) + " that kvd needs",
                         "ulimit -d unlimited before kvd starts");
  }
  return OkStatus();
}

std::vector<std::string> LimitWarnings(const machine::ProcessLimits& limits) {
  std::vector<std::string> lines;
  if (limits.cpu_seconds != machine::kNoLimit) {
    lines.push_back("the kernel kills this daemon when it has used " +
                    std::to_string(limits.cpu_seconds) +
                    " s of CPU time (ulimit -t), and the data in its memory is lost; ulimit -t "
                    "unlimited before kvd starts, or a batch job, lifts the limit");
  }
  return lines;
}

}  // namespace tidepool::daemon
