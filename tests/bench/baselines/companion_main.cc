// Companion processes and their clients (companion.h): look-ups by number of entries, and the tree.
//
//   mpirun -n 3 companion --test tree --m 12 --nmax 8      two clients and one companion
//
// Its advantages: the table is the program's own and goes with it, holds numbers under numbers
// only, and all processes poll. Its disadvantage is what PDHT is about: each look-up is a message,
// which a process serves that has nothing else to do.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "client/examples/support/program.h"
#include "client/examples/tree/cell.h"
#include "tests/bench/baselines/companion.h"
#include "tests/bench/baselines/companion_tree.h"
#include "tests/bench/baselines/mix.h"

namespace tidepool::baselines {
namespace {

struct Options {
  std::string test = "look-ups";
  int companions = 1;
  std::uint64_t operations = 100'000;  // Of each client.
  std::uint64_t entries = 100'000;
  int runs = 5;
  TreeProblem tree;
};

// -1: go on.
int ParseOptions(int argc, char** argv, Options* options) {
  CLI::App app(
      "A hash table by companion processes over MPI. One JSON object per phase: wall time of all, "
      "microseconds and CPU microseconds of the clients per operation, messages per operation.");
  app.add_option("--test", options->test, "look-ups, neighbours, tree")
      ->check(CLI::IsMember({"look-ups", "neighbours", "tree"}));
  app.add_option("--companions", options->companions, "Ranks, the last ones, that only serve")
      ->check(CLI::Range(1, 1'000));
  app.add_option("--operations", options->operations, "Of each client and phase")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 32));
  app.add_option("--entries", options->entries, "Keys of --test look-ups")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 32));
  app.add_option("--runs", options->runs, "The median counts")->check(CLI::Range(1, 1'000));
  app.add_option("--m", options->tree.centres, "Points around which the tree is deep")
      ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1'000'000}));
  app.add_option("--nmax", options->tree.levels, "Levels of the tree")
      ->check(CLI::Range(2, tree::kLevelsMax));
  app.add_option("--axis", options->tree.axis, "To differentiate along")->check(CLI::Range(0, 2));
  app.add_flag("--verify", options->tree.verify, "Compare with a run in one process's memory");
  const int code = support::Parse(&app, argc, argv);
  if (code == 2) std::fputs(app.help().c_str(), stderr);
  return code;
}

// As figures_own does.
void RunLookUps(const Ranks& clients, const Options& options, CompanionClient* table) {
  if (clients.rank() == 0) table->Fill(0, options.entries);
  std::vector<std::uint64_t> keys;
  for (std::uint64_t i = 0; i < options.operations; ++i) {
    const std::uint64_t number = i * static_cast<std::uint64_t>(clients.size()) +
                                 static_cast<std::uint64_t>(clients.rank()) + 1;
    table->Get(0, 1 + Mix(~number) % options.entries);  // Warms up by other keys than are measured.
    keys.push_back(1 + Mix(number) % options.entries);
  }
  std::map<std::string, std::vector<Sample>> samples;
  for (int run = 0; run < options.runs; ++run) {
    samples["hit"].push_back(Measure(clients, table, options.operations, [&] {
      for (const std::uint64_t key : keys) {
        if (table->Get(0, key).numbers[0] != static_cast<double>(key)) Fail("another's element");
      }
    }));
    samples["miss"].push_back(Measure(clients, table, options.operations, [&] {
      for (const std::uint64_t key : keys) {
        if (table->Get(0, key + options.entries).count >= 0) Fail("what was never put");
      }
    }));
  }
  for (auto& [name, of_phase] : samples) PrintPhase(clients, name, of_phase);
}

// Each client puts its keys, and reads them and those of the next one.
void RunNeighbours(const Ranks& clients, const Options& options, CompanionClient* table) {
  const auto size = static_cast<std::uint64_t>(clients.size());
  const auto rank = static_cast<std::uint64_t>(clients.rank());
  std::map<std::string, std::vector<Sample>> samples;
  const auto phase = [&](const std::string& name, std::uint64_t whose, bool put) {
    samples[name].push_back(Measure(clients, table, options.operations, [&] {
      for (std::uint64_t i = 0; i < options.operations; ++i) {
        const std::uint64_t key = i * size + whose + 1;
        if (put) {
          table->Put(0, key, {1, {static_cast<double>(key)}});
        } else if (table->Get(0, key).numbers[0] != static_cast<double>(key)) {
          Fail("another's element");
        }
      }
      table->Fence();
    }));
  };
  for (int run = 0; run < options.runs; ++run) {
    phase("insert", rank, true);
    phase("find", rank, false);
    phase("neighbour find", (rank + 1) % size, false);
  }
  for (auto& [name, of_phase] : samples) PrintPhase(clients, name, of_phase);
}

void RunClient(const Ranks& clients, const Options& options, const Companions& companions) {
  CompanionClient table(clients, companions);
  if (options.test == "look-ups") RunLookUps(clients, options, &table);
  if (options.test == "neighbours") RunNeighbours(clients, options, &table);
  if (options.test == "tree") RunCompanionTree(clients, options.tree, &table);
  table.Barrier();
}

}  // namespace
}  // namespace tidepool::baselines

int main(int argc, char** argv) {
  using namespace tidepool::baselines;
  Options options;
  if (const int code = ParseOptions(argc, argv, &options); code >= 0) return code;
  const Ranks all(&argc, &argv);
  const Companions companions{all.size() - options.companions, options.companions};
  if (companions.clients < 1)
    Fail("there are no clients beside the companions: mpirun -n 2 or more");
  const bool is_client = all.rank() < companions.clients;
  const Ranks alike(all, is_client);
  if (is_client) {
    RunClient(alike, options, companions);
  } else {
    ServeCompanions(companions, all.rank() - companions.clients);
  }
  return 0;
}
