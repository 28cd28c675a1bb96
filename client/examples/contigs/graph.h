// The de Bruijn graph of reads in a cluster: its nodes are the k-mers that come often enough, and
// its edges follow from them.
//
//   counts of k-mers -> [Graph::Build] -> nodes with their edges -> walkers (walk.h)
#pragma once

#include <tidepool/tidepool.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "client/examples/support/count.h"
#include "client/examples/support/kmer.h"
#include "client/examples/support/team.h"

namespace contigs {

// A stored node, as a number that a compare-and-swap claims. The lowest 8 bits are its edges. Above
// them is the walker that has claimed it; 0: no walker.
using Node = std::uint64_t;
inline std::uint64_t ClaimOf(Node node) { return node >> 8; }
inline Node Claimed(Node node, std::uint64_t walker) { return walker << 8 | (node & 0xff); }

// Edges: bit c for the letter that follows, bit 4 + c for the letter before.
using Edges = std::uint8_t;
inline std::uint8_t Following(Edges edges) { return edges & 15; }
inline std::uint8_t Before(Edges edges) { return edges >> 4; }
// Returns the edges of the reverse complement: successors become predecessors, and letter c is 3 -
// c.
inline Edges Reversed(Edges edges) {
  Edges reversed = 0;
  for (int bit = 0; bit < 8; ++bit) reversed |= (edges >> bit & 1) << (7 - bit);
  return reversed;
}
// Returns the only letter of four bits; -1: there are none or several.
inline int OnlyOne(std::uint8_t letters) {
  return std::has_single_bit(letters) ? std::countr_zero(letters) : -1;
}

// k-mers of one length as numbers, in two directions.
template <typename Word>
class Kmers {
 public:
  explicit Kmers(int letters) : letters_(letters), mask_((Word{1} << (2 * letters - 1) << 1) - 1) {}
  int letters() const { return letters_; }
  Word Next(Word word, int letter) const { return (word << 2 | Word(letter)) & mask_; }
  Word Previous(Word word, int letter) const {
    return word >> 2 | Word(letter) << (2 * (letters_ - 1));
  }
  Word Reverse(Word word) const { return support::ReverseComplement(word, letters_); }
  // Returns the direction that is a key.
  Word Key(Word word) const { return std::min(word, Reverse(word)); }

 private:
  int letters_;
  Word mask_;
};

template <typename Word>
using NodeMap = tidepool::HashMap<support::KeyOf<Word>, Node>;

// A node as this process knows it.
template <typename Word>
struct OwnNode {
  Word word;  // Its key.
  Edges edges;
};

template <typename Word>
struct Graph {
  Kmers<Word> kmers;
  NodeMap<Word> map;
  std::vector<OwnNode<Word>> own;  // Nodes of this process's partitions.
  std::uint64_t look_ups = 0;      // Look-ups of this process.

  // Reads the nodes of words in any direction. Edges are in the direction of the word. Errors:
  // kDataLoss (a node is absent), and the errors of a MultiGet.
  tidepool::Status Read(const std::vector<Word>& words, std::vector<Node>* nodes);

  // Makes the nodes of k-mers with a count of at least `count_min`. All processes call it, after
  // counting.
  // Errors: the errors of the called operations, kAborted.
  static tidepool::Result<Graph> Build(tidepool::Client& client, int letters,
                                       std::uint64_t count_min,
                                       const support::CountMap<Word>& counts, support::Team* team);
};

extern template struct Graph<support::Word8>;
extern template struct Graph<support::Word16>;

}  // namespace contigs
