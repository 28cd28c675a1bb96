// The same tree and operations in the memory of a single process, without a cluster: the expected
// results.
#pragma once

#include <cstdint>

#include "client/examples/tree/cell.h"

namespace tree {

// Digest of a form of the tree, independent of the order. Equal forms have equal digests, and
// unequal forms hardly ever.
class Fingerprint {
 public:
  void Add(std::uint64_t key, const double* numbers, int count);
  void Join(std::uint64_t records, std::uint64_t sum) {
    records_ += records;
    sum_ += sum;
  }
  std::uint64_t records() const { return records_; }
  std::uint64_t sum() const { return sum_; }
  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;

 private:
  std::uint64_t records_ = 0;
  std::uint64_t sum_ = 0;
};

struct Fingerprints {
  Fingerprint projected;
  Fingerprint compressed;
  Fingerprint reconstructed;
  Fingerprint derivatives;
};

// Takes memory for the whole tree.
Fingerprints PlainRun(std::uint64_t centres, int levels, int axis);

}  // namespace tree
