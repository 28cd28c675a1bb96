// Counting: the reads' k-mers become adds to counters of the cluster.
//
//   reads -> KmerWindow -> combiner -> [buffered adds] => daemons
#pragma once

#include <tidepool/tidepool.h>

#include <cstdint>
#include <string>
#include <vector>

#include "client/examples/support/kmer.h"
#include "client/examples/support/team.h"

namespace support {

template <typename Word>
using CountMap = tidepool::HashMap<KeyOf<Word>, std::int64_t>;

// What a pass over the reads does. A table of all k-mers takes one pass. One of those that come
// twice or more takes two, on a namespace with prefilter "admit": there the first sighting of a
// k-mer only marks it, and the second one stores a count of 0; the second pass counts what is
// stored. By then that is all of them, and a few that come once, for which the filter has erred:
// their counts are 1, and they are left out of the table.
enum class Pass { kCountAll, kSight, kCountStored };

struct Counted {
  std::uint64_t windows = 0;  // Of this process.
  std::uint64_t adds = 0;     // Sent for them.
};

// Passes over this process's share of all reads (files), k-mers of so many `letters`, and returns
// when the cluster has it. Errors: as ReadSequences; kAborted (another process failed); what a
// buffered add may end with.
template <typename Word>
tidepool::Result<Counted> CountReads(const std::vector<std::string>& reads, int letters, Pass pass,
                                     const CountMap<Word>& map, Team* team);

extern template tidepool::Result<Counted> CountReads<Word8>(const std::vector<std::string>&, int,
                                                            Pass, const CountMap<Word8>&, Team*);
extern template tidepool::Result<Counted> CountReads<Word16>(const std::vector<std::string>&, int,
                                                             Pass, const CountMap<Word16>&, Team*);

}  // namespace support
