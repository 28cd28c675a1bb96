#include "client/examples/kmers/options.h"

#include <CLI/CLI.hpp>
#include <filesystem>

#include "client/examples/support/reads_options.h"

namespace kmers {
namespace {

constexpr char kAbout[] =
    "Counts the k-mers of reads in a cluster's memory.\n\n"
    "A k-mer and its reverse complement are one; windows with letters other than A, C, G and T "
    "are\n"
    "left out. ";

}  // namespace

int ParseOptions(int argc, char** argv, Options* options) {
  CLI::App app(std::string(kAbout) + support::kAboutProcesses, "kmers");
  support::AddProgramOptions(&app, &options->program);
  support::AddReadsOptions(&app, &options->letters, &options->reads);
  app.add_flag("--admit", options->admit,
               "Only k-mers that come twice or more: those that come once pass a filter in the "
               "daemons and are not stored; reads twice, and the counts are exact");
  app.add_option("--out", options->table, "Write 'KMER COUNT' lines here, sorted")
      ->type_name("TABLE");
  app.add_option("--histogram", options->histogram, "Write 'COUNT NUMBER_OF_KMERS' lines here")
      ->type_name("H");
  app.callback([options] {
    // A file that does not exist yet has a name too, as has a file that cannot be examined.
    const auto file = [](const std::string& path) {
      std::error_code error;
      const std::filesystem::path plain = std::filesystem::absolute(path, error).lexically_normal();
      const std::filesystem::path led = std::filesystem::weakly_canonical(plain, error);
      return error ? plain : led;
    };
    if (!options->table.empty() && !options->histogram.empty() &&
        file(options->table) == file(options->histogram)) {
      throw CLI::ValidationError("--out and --histogram name the same file");
    }
  });
  return support::Parse(&app, argc, argv);
}

}  // namespace kmers
