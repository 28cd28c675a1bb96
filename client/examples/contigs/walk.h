// Walkers: each begins at one end of a unitig and claims its nodes, one after the other.
//
//   Graph -> [Walk] -> unitigs of this process
//
// A unitig has two ends, so two walkers come towards each other, mostly of two processes: where one
// finds a node claimed they have met, and the one with the higher number hands its piece over.
// Rings have no end: they are walked, once all else is claimed, from their least node.
#pragma once

#include <tidepool/tidepool.h>

#include <string>
#include <vector>

#include "client/examples/contigs/graph.h"
#include "client/examples/support/team.h"

namespace contigs {

// The unitigs that fall to this process, each as the smaller of its two directions; all processes
// call it. Errors: as those of what it calls, kAborted.
template <typename Word>
tidepool::Result<std::vector<std::string>> Walk(tidepool::Client& client, Graph<Word>* graph,
                                                support::Team* team);

extern template tidepool::Result<std::vector<std::string>> Walk<support::Word8>(
    tidepool::Client&, Graph<support::Word8>*, support::Team*);
extern template tidepool::Result<std::vector<std::string>> Walk<support::Word16>(
    tidepool::Client&, Graph<support::Word16>*, support::Team*);

}  // namespace contigs
