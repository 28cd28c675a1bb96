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

// Kind of a pass over the reads. A table of all k-mers takes a single pass. A table of repeated
// k-mers takes two passes, on a namespace with prefilter "admit". In the first pass, the first
// sighting of a k-mer only marks it, and the second sighting stores a count of 0. The second pass
// counts the stored k-mers. A few of them come only once, by an error of the filter: their counts
// are 1, and the table leaves them out.
enum class Pass { kCountAll, kSight, kCountStored };

struct Counted {
  std::uint64_t windows = 0;  // Windows of this process.
  std::uint64_t adds = 0;     // Sent for them.
};

// Counts the k-mers of `letters` letters in this process's share of all reads (files). Returns when
// the cluster has the counts. Errors: the errors of ReadSequences and of a buffered add; kAborted
// (another process failed).
template <typename Word>
tidepool::Result<Counted> CountReads(const std::vector<std::string>& reads, int letters, Pass pass,
                                     const CountMap<Word>& map, Team* team);

extern template tidepool::Result<Counted> CountReads<Word8>(const std::vector<std::string>&, int,
                                                            Pass, const CountMap<Word8>&, Team*);
extern template tidepool::Result<Counted> CountReads<Word16>(const std::vector<std::string>&, int,
                                                             Pass, const CountMap<Word16>&, Team*);

}  // namespace support
