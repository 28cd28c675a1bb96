// The tree in the cluster, and the four operations of the MADNESS pattern on it.
//
//   Project -> leaves with values -> Compress -> inner nodes with differences -> Reconstruct
//   -> leaves with values -> Differentiate -> leaves with derivatives
//
// Each form of the tree is a namespace, and each process works on the nodes of its own partitions
// (owner computes); what it needs of others it looks up, thousands of keys at a time.
#pragma once

#include <tidepool/tidepool.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "client/examples/support/team.h"
#include "client/examples/tree/cell.h"

namespace tree {

// A node's numbers: of a leaf its value; of an inner one none, or, compressed, c[1..7] and of the
// root c[0] before them. A derivative is one number.
using NodeMap = tidepool::HashMap<std::uint64_t, std::vector<double>>;
using Numbers = std::array<double, 8>;  // As many as the record has; the others are 0.

struct Counts {
  std::uint64_t look_ups = 0;
  std::uint64_t misses = 0;
};

// One process's end of the whole calculation. Not thread-safe.
class Forms {
 public:
  // Errors: as Client::OpenOrCreate.
  static tidepool::Result<Forms> Open(tidepool::Client& client, support::Team* team, int levels);

  // All processes call each, in this order. Errors: those of the operations below, kDataLoss (a
  // node that must be there is not), kAborted.
  tidepool::Status Project(std::uint64_t centres);
  tidepool::Status Compress();
  tidepool::Status Reconstruct();
  tidepool::Status Differentiate(int axis);

  const NodeMap& projected() const { return projected_; }
  const NodeMap& compressed() const { return compressed_; }
  const NodeMap& reconstructed() const { return reconstructed_; }
  const NodeMap& derivatives() const { return derivatives_; }
  const Counts& counts() const { return counts_; }

  using Keys = std::vector<std::uint64_t>;
  using Found = std::vector<std::pair<int, Numbers>>;  // How many numbers; -1: no such node.
  // Keys whose node is not there are no failure.
  tidepool::Status LookUp(const NodeMap& map, const Keys& keys, Found* found);

 private:
  Forms(support::Team* team, int levels, std::vector<NodeMap> maps)
      : team_(team),
        levels_(levels),
        projected_(maps[0]),
        sums_(maps[1]),
        compressed_(maps[2]),
        reconstructed_(maps[3]),
        derivatives_(maps[4]) {}
  tidepool::Status FindOwn();
  tidepool::Status MeetAt(const char* step, int level);

  support::Team* team_;
  int levels_;
  NodeMap projected_;
  NodeMap sums_;  // What goes up while it is compressed.
  NodeMap compressed_;
  NodeMap reconstructed_;
  NodeMap derivatives_;
  std::vector<Keys> inner_;  // Of this process, by level.
  Counts counts_;
};

}  // namespace tree
