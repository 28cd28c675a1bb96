#include "client/examples/tree/plain.h"

#include <bit>
#include <unordered_map>
#include <vector>

namespace tree {
namespace {

double Sign(unsigned m, unsigned j) { return std::popcount(m & j) % 2 == 0 ? 1.0 : -1.0; }

class PlainTree {
 public:
  PlainTree(int levels, int axis) : levels_(levels), axis_(axis) {}

  Fingerprints Run(std::uint64_t centres) {
    Project(Cell{}, MakeCentres(centres));
    Print(projected_, &prints_.projected);
    root_ = Compress(Cell{});
    for (const auto& [key, c] : compressed_) {
      if (Cell::Of(key).n == 0) {
        prints_.compressed.Add(key, c.data(), 8);
      } else {
        prints_.compressed.Add(key, c.data() + 1, 7);
      }
    }
    Reconstruct(Cell{}, root_);
    Print(reconstructed_, &prints_.reconstructed);
    for (const auto& [key, leaf] : reconstructed_) {
      if (!leaf.empty()) Differentiate(Cell::Of(key));
    }
    return prints_;
  }

 private:
  using Form = std::unordered_map<std::uint64_t, std::vector<double>>;

  static void Print(const Form& form, Fingerprint* print) {
    for (const auto& [key, numbers] : form) {
      print->Add(key, numbers.data(), static_cast<int>(numbers.size()));
    }
  }
  void Project(const Cell& cell, const std::vector<Centre>& above) {
    const std::vector<Centre> near = Near(cell, above);
    std::vector<double>& node = projected_[cell.Key()];
    if (!IsRefined(cell, levels_, near)) return node.push_back(LeafValue(cell));
    for (unsigned j = 0; j < 8; ++j) Project(cell.Child(j), near);
  }
  double Compress(const Cell& cell) {
    const std::vector<double>& node = projected_[cell.Key()];
    if (!node.empty()) return node[0];
    std::vector<double> c(8);
    for (unsigned j = 0; j < 8; ++j) {
      const double s = Compress(cell.Child(j));
      for (unsigned m = 0; m < 8; ++m) c[m] += Sign(m, j) * s / 8;
    }
    return (compressed_[cell.Key()] = std::move(c))[0];
  }
  void Reconstruct(const Cell& cell, double value) {
    const auto found = compressed_.find(cell.Key());
    if (found == compressed_.end()) {
      reconstructed_[cell.Key()] = {value};
      return;
    }
    reconstructed_[cell.Key()] = {};
    for (unsigned j = 0; j < 8; ++j) {
      double s = value;
      for (unsigned m = 1; m < 8; ++m) s += Sign(m, j) * found->second[m];
      Reconstruct(cell.Child(j), s);
    }
  }
  // False: beside it are smaller cells.
  bool Beside(const Cell& cell, int by, double* value) const {
    for (Cell other = cell.Beside(axis_, by);; other = other.Parent()) {
      const auto found = reconstructed_.find(other.Key());
      if (found == reconstructed_.end()) continue;
      if (found->second.empty()) return false;
      *value = found->second[0];
      return true;
    }
  }
  void Differentiate(const Cell& cell) {
    double before = 0;
    double after = 0;
    if (Beside(cell, -1, &before) && Beside(cell, 1, &after)) {
      const double difference = after - before;
      return prints_.derivatives.Add(cell.Key(), &difference, 1);
    }
    for (unsigned j = 0; j < 8; ++j) Differentiate(cell.Child(j));
  }

  const int levels_;
  const int axis_;
  double root_ = 0;
  Form projected_;
  Form compressed_;
  Form reconstructed_;
  Fingerprints prints_;
};

}  // namespace

void Fingerprint::Add(std::uint64_t key, const double* numbers, int count) {
  std::uint64_t mixed = SplitMix64(key ^ static_cast<std::uint64_t>(count));
  for (int i = 0; i < count; ++i) {
    mixed = SplitMix64(mixed ^ std::bit_cast<std::uint64_t>(numbers[i]));
  }
  Join(1, mixed);
}

Fingerprints PlainRun(std::uint64_t centres, int levels, int axis) {
  return PlainTree(levels, axis).Run(centres);
}

}  // namespace tree
