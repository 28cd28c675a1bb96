// The result: each process iterates a part of the namespace, sorts it and writes it. The first
// process joins the parts.
#pragma once

#include <tidepool/tidepool.h>

#include <cstdint>

#include "client/examples/kmers/options.h"
#include "client/examples/support/count.h"
#include "client/examples/support/team.h"

namespace kmers {

using support::CountMap;
using support::Team;
using support::Word16;
using support::Word8;

// Writes the files that the options name. All processes call it, after counting. Each process
// writes `FILE.part-RANK` beside the file, in a folder that all processes see.
// Returns: the number of distinct k-mers of this process's part. Errors: kPermissionDenied,
// kNotFound, kResourceExhausted (a file cannot be written), kAborted, and the errors of an
// iteration.
template <typename Word>
tidepool::Result<std::uint64_t> WriteResults(const Options& options, const CountMap<Word>& map,
                                             Team* team);

extern template tidepool::Result<std::uint64_t> WriteResults<Word8>(const Options&,
                                                                    const CountMap<Word8>&, Team*);
extern template tidepool::Result<std::uint64_t> WriteResults<Word16>(const Options&,
                                                                     const CountMap<Word16>&,
                                                                     Team*);

}  // namespace kmers
