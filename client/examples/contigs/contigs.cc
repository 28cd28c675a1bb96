// Puts reads together: the unitigs of the de Bruijn graph of their k-mers, which lies in the memory
// of a cluster. A node of the graph is a k-mer that comes often enough; see graph.h and walk.h.
//
//   contigs --k 31 --min 2 --processes 4 --out unitigs.txt reads_1.fq.gz reads_2.fq.gz
#include <tidepool/tidepool.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "client/examples/contigs/graph.h"
#include "client/examples/contigs/plain.h"
#include "client/examples/contigs/walk.h"
#include "client/examples/support/count.h"
#include "client/examples/support/lap.h"
#include "client/examples/support/out_parts.h"
#include "client/examples/support/program.h"
#include "client/examples/support/reads.h"
#include "client/examples/support/reads_options.h"

namespace {

using support::Team;
using tidepool::Status;
using tidepool::StatusCode;

struct Options {
  support::ProgramOptions program;
  int letters = 0;
  std::uint64_t count_min = 2;
  std::string out;
  bool verify = false;
  std::vector<std::string> reads;
};

int ParseOptions(int argc, char** argv, Options* options) {
  CLI::App app(std::string("Puts reads together: the unitigs of the de Bruijn graph of their "
                           "k-mers, in a cluster's memory.\n\n"
                           "A unitig is written as the smaller of its two directions, one in a "
                           "line, sorted. ") +
                   support::kAboutProcesses,
               "contigs");
  support::AddProgramOptions(&app, &options->program);
  support::AddReadsOptions(&app, &options->letters, &options->reads);
  app.add_option("--min", options->count_min, "Only k-mers that come so often, 1 or more")
      ->type_name("MIN")
      ->check(CLI::Range(std::uint64_t{1}, ~std::uint64_t{0} >> 1));
  app.add_option("--out", options->out, "Write the unitigs here")->type_name("FILE")->required();
  app.add_flag("--verify", options->verify,
               "Compare with what the first process finds in its own memory alone");
  return support::Parse(&app, argc, argv);
}

template <typename Word>
Status Verify(const Options& options) {
  support::Lap lap;
  const auto plain = contigs::PlainUnitigs<Word>(options.reads, options.letters, options.count_min);
  if (!plain.ok()) return plain.status();
  const double seconds = lap.Seconds();
  std::ifstream file(options.out);
  std::vector<std::string> written;
  for (std::string line; std::getline(file, line);) written.push_back(line);
  if (written != *plain) {
    return Status(StatusCode::kDataLoss, "one process alone finds other unitigs: " +
                                             std::to_string(plain->size()) + " of them");
  }
  std::fprintf(stderr, "contigs: verified, by one process in %.2f s\n", seconds);
  return {};
}

template <typename Word>
Status Run(const Options& options, tidepool::Client& client, Team* team) {
  Status possible = support::CheckOut(options.out, options.reads, team->size());
  for (const std::string& path : options.reads) {
    if (!possible.ok() || (team->size() == 1 && !options.verify)) break;
    possible = support::CheckRereadable(path);
  }
  if (possible.ok() && options.verify) possible = support::CheckRereadable(options.out);
  if (!possible.ok()) return possible;
  if (team->rank() == 0) {
    // Creates a new table: counts would be added to the counts of an earlier run.
    const auto made = client.Create<support::CountMap<Word>>(team->NameOf("table"));
    if (!made.ok()) return made.status();
  }
  if (Status status = team->Meet("begun"); !status.ok()) return status;
  auto counts = client.Open<support::CountMap<Word>>(team->NameOf("table"));
  if (!counts.ok()) return counts.status();
  support::Lap lap;
  const auto counted = support::CountReads<Word>(options.reads, options.letters,
                                                 support::Pass::kCountAll, *counts, team);
  if (!counted.ok()) return counted.status();
  if (Status status = team->Meet("counted"); !status.ok()) return status;
  const double counting = lap.Seconds();
  auto graph =
      contigs::Graph<Word>::Build(client, options.letters, options.count_min, *counts, team);
  if (!graph.ok()) return graph.status();
  const double building = lap.Seconds();
  auto unitigs = contigs::Walk<Word>(client, &*graph, team);
  if (!unitigs.ok()) return unitigs.status();
  const double walking = lap.Seconds();

  std::uint64_t covered = 0;
  for (const std::string& unitig : *unitigs) {
    covered += unitig.size() - static_cast<std::size_t>(options.letters) + 1;
  }
  const tidepool::ClientStats stats = client.Stats();
  const std::pair<const char*, std::uint64_t> numbers[] = {{"nodes", graph->own.size()},
                                                           {"covered", covered},
                                                           {"unitigs", unitigs->size()},
                                                           {"look-ups", graph->look_ups},
                                                           {"messages", stats.frames_sent}};
  std::vector<unsigned long long> sums;
  for (const auto& [name, number] : numbers) {
    const auto sum = team->SumOfAll(name, number);
    if (!sum.ok()) return sum.status();
    sums.push_back(*sum);
  }
  if (sums[1] != sums[0]) {
    return Status(StatusCode::kInternal, "the unitigs have " + std::to_string(sums[1]) +
                                             " nodes, and the graph " + std::to_string(sums[0]));
  }
  Status status = support::WriteSorted(options.out, *std::move(unitigs), "written", team);
  if (!status.ok() || team->rank() != 0) return status;
  std::fprintf(stderr, "contigs: %llu nodes of %d letters, %llu unitigs, %d processes\n", sums[0],
               options.letters, sums[2], team->size());
  std::fprintf(stderr, "contigs: counted in %.3f s, graph made in %.3f s, walked in %.3f s\n",
               counting, building, walking);
  std::fprintf(stderr, "contigs: %llu look-ups, %llu messages\n", sums[3], sums[4]);
  return options.verify ? Verify<Word>(options) : Status();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (const int code = ParseOptions(argc, argv, &options); code >= 0) return code;
  return support::RunProgram("contigs", options.program, argv,
                             [&](tidepool::Client& client, Team* team) {
                               return options.letters <= support::kLettersInOneWord
                                          ? Run<support::Word8>(options, client, team)
                                          : Run<support::Word16>(options, client, team);
                             });
}
