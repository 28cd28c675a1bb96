// The imperative client: BCL's algorithms, by which clients change another's memory themselves,
// written anew over MPI-3 windows and over UCX's one-sided calls.
//
//   mpirun -n 2 imperative --over mpi --test table --value-bytes 8 --operations 100000
//
// Its advantages over a service: the memory is the ranks' own, and goes with them; a table has one
// size for all values, is never larger than it was made, and nobody else can reach it. Its ranks
// poll all the time.
#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "client/examples/support/program.h"
#include "tests/bench/baselines/imperative.h"
#include "tests/bench/baselines/ucx_window.h"

namespace tidepool::baselines {
namespace {

// -1: go on.
int ParseOptions(int argc, char** argv, ImperativeOptions* options) {
  CLI::App app(
      "BCL's data structures over one-sided calls, by the ranks of an mpirun. One JSON object per "
      "phase: wall time of all, microseconds and CPU microseconds per operation, one-sided calls "
      "per operation.");
  app.add_option("--over", options->over, "mpi: an MPI-3 window; ucx: UCX over TCP")
      ->check(CLI::IsMember({"mpi", "ucx"}));
  app.add_option("--test", options->test, "What to do: table, queues, isx, kmers, contigs")
      ->check(CLI::IsMember({"table", "queues", "isx", "kmers", "contigs"}));
  app.add_option("--operations", options->operations, "Of each rank and phase")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 32));
  app.add_option("--value-bytes", options->value_bytes, "Of each value or item")
      ->check(CLI::Range(std::size_t{8}, std::size_t{64} << 20));
  app.add_option("--runs", options->runs, "The median counts")->check(CLI::Range(1, 1'000));
  app.add_option("--clients", options->clients,
                 "Ranks that do anything in --test table; the others only serve. 0: all")
      ->check(CLI::Range(0, 1'000));
  app.add_flag("--others", options->others, "Only keys that are another rank's");
  app.add_option("-k", options->letters, "Letters of a k-mer (odd, up to 31)")
      ->check(CLI::Range(3, 31));
  app.add_option("--min", options->count_min, "Contigs: k-mers that come at least so often");
  app.add_option("--entries", options->entries, "Distinct k-mers; the table has twice the buckets")
      ->check(CLI::Range(std::uint64_t{16}, std::uint64_t{1} << 32));
  app.add_flag("--filter", options->filter, "Kmers: only those that come twice, by a Bloom filter");
  app.add_option("--out", options->out, "Each rank writes its table or unitigs to FILE.RANK")
      ->type_name("FILE");
  app.add_option("reads", options->reads, "FASTA or FASTQ files");
  app.add_flag("--insert-only", options->insert_only, "No phase but inserts");
  const int code = support::Parse(&app, argc, argv);
  if (code == 2) std::fputs(app.help().c_str(), stderr);
  return code;
}

template <typename Window>
void Run(const Ranks& ranks, const ImperativeOptions& options) {
  if (options.test == "table") RunTable<Window>(ranks, options);
  if (options.test == "queues") RunQueues<Window>(ranks, options);
  if (options.test == "isx") RunIsx<Window>(ranks, options);
  if (options.test == "kmers" || options.test == "contigs") RunReads<Window>(ranks, options);
}

}  // namespace
}  // namespace tidepool::baselines

int main(int argc, char** argv) {
  using namespace tidepool::baselines;
  ImperativeOptions options;
  if (const int code = ParseOptions(argc, argv, &options); code >= 0) return code;
  // Open MPI's own first choice on one machine, osc/rdma over vader, emulates swaps by messages and
  // crashes on those to the caller's own memory (4.1.4); osc/sm makes them in shared memory.
  setenv("OMPI_MCA_osc", "sm", 0);
  const Ranks ranks(&argc, &argv);
  if (options.over == "mpi") Run<MpiWindow>(ranks, options);
  if (options.over == "ucx") Run<UcxWindow>(ranks, options);
  return 0;
}
