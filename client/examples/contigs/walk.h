// Walkers: each begins at an end of a unitig and claims its nodes, node by node.
//
//   Graph -> [Walk] -> unitigs of this process
//
// A unitig has two ends, so two walkers approach each other, mostly in two processes. They have met
// when a walker finds a claimed node, and the walker with the higher number hands its piece over.
// Rings have no end. They are walked after all other nodes are claimed, from their least node.
#pragma once

#include <tidepool/tidepool.h>

#include <string>
#include <vector>

#include "client/examples/contigs/graph.h"
#include "client/examples/support/team.h"

namespace contigs {

// Returns the unitigs of this process, each as the smaller of its two directions. All processes
// call it.
// Errors: the errors of the called operations, kAborted.
template <typename Word>
tidepool::Result<std::vector<std::string>> Walk(tidepool::Client& client, Graph<Word>* graph,
                                                support::Team* team);

extern template tidepool::Result<std::vector<std::string>> Walk<support::Word8>(
    tidepool::Client&, Graph<support::Word8>*, support::Team*);
extern template tidepool::Result<std::vector<std::string>> Walk<support::Word16>(
    tidepool::Client&, Graph<support::Word16>*, support::Team*);

}  // namespace contigs
