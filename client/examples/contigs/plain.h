// The same unitigs in the memory of a single process, without a cluster: the expected result.
#pragma once

#include <tidepool/tidepool.h>

#include <cstdint>
#include <string>
#include <vector>

namespace contigs {

// Sorted, each as the smaller of its two directions. Errors: as support::ReadSequences.
template <typename Word>
tidepool::Result<std::vector<std::string>> PlainUnitigs(const std::vector<std::string>& reads,
                                                        int letters, std::uint64_t count_min);

}  // namespace contigs
