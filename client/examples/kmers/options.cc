#include "client/examples/kmers/options.h"

#include <CLI/CLI.hpp>

#include "client/examples/kmers/kmer.h"

namespace kmers {
namespace {

constexpr char kAbout[] =
    "Counts the k-mers of reads in a cluster's memory.\n\n"
    "A k-mer and its reverse complement are one; windows with letters other than A, C, G and T "
    "are\n"
    "left out. With --processes P this program starts P processes on this machine; under srun or\n"
    "mpirun its tasks are the processes, and files are read and written by all of them.";

std::string CheckLetters(const std::string& text) {
  int letters = 0;
  if (!CLI::detail::lexical_cast(text, letters) || letters < 1) return "k is a number from 1 on";
  if (letters % 2 == 0) return "k must be odd: an even k-mer can be its own reverse complement";
  if (letters > kLettersMax) return "k is at most " + std::to_string(kLettersMax);
  return {};
}

}  // namespace

int ParseOptions(int argc, char** argv, Options* options) {
  CLI::App app(kAbout, "kmers");
  app.add_option("--cluster", options->cluster, "Connection file; default: as every client")
      ->type_name("FILE");
  app.add_option("-k,--k", options->letters, "Letters of a k-mer: odd, at most 63")
      ->type_name("K")
      ->required()
      ->check(CheckLetters);
  app.add_option("--processes", options->processes, "Processes to start (1 to 256)")
      ->type_name("P")
      ->check(CLI::Range(1, 256));
  app.add_flag("--admit", options->admit,
               "Only k-mers that come twice or more: those that come once pass a filter in the "
               "daemons and are not stored; reads twice, and the counts are exact");
  app.add_option("--out", options->table, "Write 'KMER COUNT' lines here, sorted")
      ->type_name("TABLE");
  app.add_option("--histogram", options->histogram, "Write 'COUNT NUMBER_OF_KMERS' lines here")
      ->type_name("H");
  app.add_option("--run", options->run,
                 "Name of this run, the same for all tasks; needed where neither srun nor Open MPI "
                 "gives one")
      ->type_name("NAME");
  app.add_option("--silence", options->silence_seconds,
                 "Give up when another process is silent for so many seconds")
      ->type_name("SECONDS")
      ->check(CLI::Range(1, 86'400));
  app.add_option("reads", options->reads, "FASTA or FASTQ, plain or gz")
      ->type_name("READS")
      ->required();
  try {
    app.parse(argc, argv);
    if (!options->table.empty() && options->table == options->histogram) {
      throw CLI::ValidationError("--out and --histogram name the same file");
    }
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return -1;
}

}  // namespace kmers
