// Counting: the reads' k-mers become adds to counters of the cluster.
//
//   reads -> KmerWindow -> combiner -> [buffered adds] => daemons
#pragma once

#include <tidepool/tidepool.h>

#include <cstdint>

#include "client/examples/kmers/kmer.h"
#include "client/examples/kmers/options.h"
#include "client/examples/kmers/team.h"

namespace kmers {

template <typename Word>
using CountMap = tidepool::HashMap<KeyOf<Word>, std::int64_t>;

struct Counted {
  std::uint64_t windows = 0;  // Of this process.
  std::uint64_t adds = 0;     // Sent for them.
};

// Counts this process's share of all reads, and returns when the cluster has it.
// Errors: as ReadSequences; kAborted (another process failed); what a buffered add may end with.
template <typename Word>
tidepool::Result<Counted> CountReads(const Options& options, const CountMap<Word>& map, Team* team);

extern template tidepool::Result<Counted> CountReads<Word8>(const Options&, const CountMap<Word8>&,
                                                            Team*);
extern template tidepool::Result<Counted> CountReads<Word16>(const Options&,
                                                             const CountMap<Word16>&, Team*);

}  // namespace kmers
