// The tree in the cluster, and the four operations of the MADNESS pattern on it.
//
//   Project -> leaves with values -> Compress -> inner nodes with differences -> Reconstruct
//   -> leaves with values -> Differentiate -> leaves with derivatives
//
// Each form of the tree is a namespace. Each process works on the nodes of its own partitions
// (owner computes). It looks up the nodes of other processes, thousands of keys at a time.
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

// A node's numbers. A leaf has its value. An inner node has no number or, if compressed, c[1..7];
// the root has c[0] before them. A derivative is a single number.
using NodeMap = tidepool::HashMap<std::uint64_t, std::vector<double>>;
using Numbers = std::array<double, 8>;  // Numbers of the record, followed by zeros.

struct Counts {
  std::uint64_t look_ups = 0;
  std::uint64_t misses = 0;
};

// A process's part of the calculation. Not thread-safe.
class Forms {
 public:
  // Errors: as Client::OpenOrCreate.
  static tidepool::Result<Forms> Open(tidepool::Client& client, support::Team* team, int levels);

  // All processes call the methods in this order. Errors: the errors of the operations below,
  // kDataLoss (a required node is absent), kAborted.
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
  using Found = std::vector<std::pair<int, Numbers>>;  // Count of numbers, or -1 for an absent
                                                       // node; the numbers.
  // Absent nodes are no failure.
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
  NodeMap sums_;  // Sums that go up during the compression.
  NodeMap compressed_;
  NodeMap reconstructed_;
  NodeMap derivatives_;
  std::vector<Keys> inner_;  // Inner nodes of this process, by level.
  Counts counts_;
};

}  // namespace tree
