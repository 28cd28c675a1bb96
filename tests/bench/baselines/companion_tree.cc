#include "tests/bench/baselines/companion_tree.h"

#include <bit>
#include <cstdio>
#include <string>
#include <vector>

#include "client/examples/tree/cell.h"
#include "client/examples/tree/plain.h"

namespace tidepool::baselines {
namespace {

using tree::Cell;
using tree::Centre;

enum TreeTable { kProjected, kShared, kCompressed, kReconstructed, kDerivatives };

// Down to here the first client alone works; each subtree below is one client's.
constexpr int kSharedLevels = 3;

double Sign(unsigned m, unsigned j) { return std::popcount(m & j) % 2 == 0 ? 1.0 : -1.0; }

Element Leaf(double value) { return {1, {value}}; }

class CompanionTree {
 public:
  CompanionTree(const Ranks& clients, const TreeProblem& problem, CompanionClient* table)
      : clients_(clients), problem_(problem), table_(*table) {}

  void Run() {
    Step("project", [&] { Project(Cell{}, tree::MakeCentres(problem_.centres)); });
    Step("compress", [&] {
      for (const Cell& root : OwnSubtrees()) {
        table_.Put(kShared, root.Key(), Leaf(Compress(root)));
      }
      table_.Barrier();
      if (clients_.rank() == 0) Compress(Cell{});
    });
    Step("reconstruct", [&] {
      if (clients_.rank() == 0) {
        // The root keeps its own mean, as its first number.
        Reconstruct(Cell{}, Get(kCompressed, Cell{}).numbers[0]);
      }
      table_.Barrier();
      for (const Cell& root : OwnSubtrees()) {
        Reconstruct(root, Get(kShared, root).numbers[0]);
      }
    });
    Step("differentiate", [&] {
      if (clients_.rank() == 0) DifferentiateBelow(Cell{});
      for (const Cell& root : OwnSubtrees()) DifferentiateBelow(root);
    });
    const double look_ups = clients_.Sum(static_cast<double>(look_ups_));
    const double misses = clients_.Sum(static_cast<double>(misses_));
    if (clients_.rank() != 0) return;
    std::printf("{\"phase\": \"look-ups\", \"operations\": %.0f, \"misses\": %.0f}\n", look_ups,
                misses);
    if (problem_.verify) Verify();
  }

 private:
  template <typename Work>
  void Step(const std::string& name, Work&& work) {
    PrintPhase(clients_, name, {Measure(clients_, &table_, 1, work)});
  }
  Element Get(TreeTable table, const Cell& cell) {
    ++look_ups_;
    const Element element = table_.Get(table, cell.Key());
    if (element.count < 0) ++misses_;
    return element;
  }
  // The subtree is this client's.
  bool IsOwn(const Cell& root) const {
    return tree::SplitMix64(root.Key()) % static_cast<std::uint64_t>(clients_.size()) ==
           static_cast<std::uint64_t>(clients_.rank());
  }
  std::vector<Cell> OwnSubtrees() {
    if (!subtrees_.empty()) return subtrees_;
    constexpr std::uint32_t kCells = 1u << kSharedLevels;
    for (std::uint32_t i = 0; i < kCells * kCells * kCells; ++i) {
      const Cell root{kSharedLevels, {i / (kCells * kCells), i / kCells % kCells, i % kCells}};
      if (IsOwn(root) && Get(kProjected, root).count >= 0) subtrees_.push_back(root);
    }
    return subtrees_;
  }

  void Project(const Cell& cell, const std::vector<Centre>& above) {
    if (cell.n == kSharedLevels && !IsOwn(cell)) return;
    const std::vector<Centre> near = tree::Near(cell, above);
    const bool refined = tree::IsRefined(cell, problem_.levels, near);
    if (cell.n >= kSharedLevels || clients_.rank() == 0) {
      table_.Put(kProjected, cell.Key(), refined ? Element{0, {}} : Leaf(tree::LeafValue(cell)));
    }
    for (unsigned j = 0; refined && j < 8; ++j) Project(cell.Child(j), near);
  }

  // The mean of a subtree. In the shared levels those of the subtrees below are there.
  double Compress(const Cell& cell, bool is_root = true) {
    if (cell.n == kSharedLevels && !is_root) return Get(kShared, cell).numbers[0];
    const Element node = Get(kProjected, cell);
    if (node.count == 1) return node.numbers[0];
    if (node.count != 0) Fail("the tree has lost a node");
    Element c;
    for (unsigned j = 0; j < 8; ++j) {
      const double s = Compress(cell.Child(j), false);
      for (unsigned m = 0; m < 8; ++m) c.numbers[m] += Sign(m, j) * s / 8;
    }
    const double mean = c.numbers[0];
    c.count = cell.n == 0 ? 8 : 7;
    if (cell.n > 0) {
      for (unsigned m = 1; m < 8; ++m) c.numbers[m - 1] = c.numbers[m];
    }
    table_.Put(kCompressed, cell.Key(), c);
    return mean;
  }

  void Reconstruct(const Cell& cell, double value, bool is_root = true) {
    if (cell.n == kSharedLevels && !is_root) {
      return table_.Put(kShared, cell.Key(), Leaf(value));
    }
    const Element node = Get(kCompressed, cell);
    if (node.count < 0) return table_.Put(kReconstructed, cell.Key(), Leaf(value));
    table_.Put(kReconstructed, cell.Key(), Element{0, {}});
    const unsigned first = cell.n == 0 ? 0 : 1;  // Where c[1] is, less one.
    for (unsigned j = 0; j < 8; ++j) {
      double s = value;
      for (unsigned m = 1; m < 8; ++m) s += Sign(m, j) * node.numbers[m - first];
      Reconstruct(cell.Child(j), s, false);
    }
  }

  void DifferentiateBelow(const Cell& cell, bool is_root = true) {
    if (cell.n == kSharedLevels && !is_root) return;  // That of a subtree, whose owner does it.
    const Element node = Get(kReconstructed, cell);
    if (node.count == 1) return Differentiate(cell);
    if (node.count != 0) Fail("the tree has lost a node");
    for (unsigned j = 0; j < 8; ++j) DifferentiateBelow(cell.Child(j), false);
  }
  // False: beside it are smaller cells.
  bool Beside(const Cell& cell, int by, double* value) {
    for (Cell other = cell.Beside(problem_.axis, by);; other = other.Parent()) {
      const Element found = Get(kReconstructed, other);
      if (found.count < 0) continue;
      *value = found.numbers[0];
      return found.count == 1;
    }
  }
  void Differentiate(const Cell& cell) {
    double before = 0;
    double after = 0;
    if (Beside(cell, -1, &before) && Beside(cell, 1, &after)) {
      return table_.Put(kDerivatives, cell.Key(), Leaf(after - before));
    }
    for (unsigned j = 0; j < 8; ++j) Differentiate(cell.Child(j));
  }

  void Verify() {
    const tree::Fingerprints plain =
        tree::PlainRun(problem_.centres, problem_.levels, problem_.axis);
    const auto check = [&](TreeTable table, const tree::Fingerprint& wanted) {
      const Contents got = table_.ContentsOf(table);
      if (got.records != wanted.records() || got.sum != wanted.sum()) {
        Fail("the tree is not that of one process alone: form " + std::to_string(table));
      }
    };
    check(kProjected, plain.projected);
    check(kCompressed, plain.compressed);
    check(kReconstructed, plain.reconstructed);
    check(kDerivatives, plain.derivatives);
    std::printf("verified\n");
  }

  const Ranks& clients_;
  const TreeProblem& problem_;
  CompanionClient& table_;
  std::vector<Cell> subtrees_;
  std::uint64_t look_ups_ = 0;
  std::uint64_t misses_ = 0;
};

}  // namespace

void RunCompanionTree(const Ranks& clients, const TreeProblem& problem, CompanionClient* table) {
  CompanionTree(clients, problem, table).Run();
}

}  // namespace tidepool::baselines
