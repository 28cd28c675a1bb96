// An adaptive tree in three dimensions, with its nodes in a cluster. The pattern is from MADNESS:
// look-ups miss and climb. See forms.h.
//
//   tree --m 1000 --nmax 10 --processes 4
#include <tidepool/tidepool.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include "client/examples/support/lap.h"
#include "client/examples/support/out_parts.h"
#include "client/examples/support/program.h"
#include "client/examples/tree/check.h"
#include "client/examples/tree/forms.h"

namespace {

using support::Team;
using tidepool::Status;

struct Options {
  support::ProgramOptions program;
  tree::Problem problem{.centres = 12, .levels = 8, .axis = 0};
  std::string dump;
  bool verify = false;
};

int ParseOptions(int argc, char** argv, Options* options) {
  CLI::App app(std::string("Makes an adaptive tree of cells around random points in a cluster's "
                           "memory, and compresses, reconstructs and differentiates it.\n\n") +
                   support::kAboutProcesses,
               "tree");
  support::AddProgramOptions(&app, &options->program);
  app.add_option("--m", options->problem.centres, "Points around which the tree is deep")
      ->type_name("M")
      ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1'000'000}));
  app.add_option("--nmax", options->problem.levels, "Levels of the tree (2 to 10)")
      ->type_name("N")
      ->check(CLI::Range(2, tree::kLevelsMax));
  app.add_option("--axis", options->problem.axis, "To differentiate along: 0, 1 or 2")
      ->type_name("A")
      ->check(CLI::Range(0, 2));
  app.add_option("--dump", options->dump,
                 "Write the tree's forms into this folder, as sorted lines of numbers: project, "
                 "compress and diff")
      ->type_name("DIR");
  app.add_flag("--verify", options->verify,
               "Compare with a run in the first process's memory alone, and check the identities "
               "that must hold");
  return support::Parse(&app, argc, argv);
}

Status Run(const Options& options, tidepool::Client& client, Team* team) {
  if (!options.dump.empty()) {
    Status possible = support::CheckOut(options.dump + "/project", {}, team->size());
    if (!possible.ok()) return possible;
  }
  auto forms = tree::Forms::Open(client, team, options.problem.levels);
  if (!forms.ok()) return forms.status();
  if (Status status = team->Meet("begun"); !status.ok()) return status;
  support::Lap lap;
  if (Status status = forms->Project(options.problem.centres); !status.ok()) return status;
  const double projecting = lap.Seconds();
  if (Status status = forms->Compress(); !status.ok()) return status;
  const double compressing = lap.Seconds();
  if (Status status = forms->Reconstruct(); !status.ok()) return status;
  const double reconstructing = lap.Seconds();
  if (Status status = forms->Differentiate(options.problem.axis); !status.ok()) return status;
  const double differentiating = lap.Seconds();

  std::uint64_t sums[3] = {forms->counts().look_ups, forms->counts().misses,
                           client.Stats().frames_sent};
  for (int i = 0; i < 3; ++i) {
    const auto sum = team->SumOfAll("count-" + std::to_string(i), sums[i]);
    if (!sum.ok()) return sum.status();
    sums[i] = *sum;
  }
  const auto sizes = tree::SizesOf(*forms, team);
  if (!sizes.ok()) return sizes.status();
  if (team->rank() == 0) {
    const auto number = [](std::uint64_t n) { return static_cast<unsigned long long>(n); };
    std::printf("nodes          %llu, of which %llu leaves\n", number(sizes->nodes),
                number(sizes->leaves));
    std::printf("derivatives    %llu\n", number(sizes->derivatives));
    std::printf("look-ups       %llu, of which %llu misses\n", number(sums[0]), number(sums[1]));
    std::printf("messages       %llu\n", number(sums[2]));
    std::printf("projected      %8.5f s\n", projecting);
    std::printf("compressed     %8.5f s\n", compressing);
    std::printf("reconstructed  %8.5f s\n", reconstructing);
    std::printf("differentiated %8.5f s\n", differentiating);
    std::fflush(stdout);
  }
  if (!options.dump.empty()) {
    Status status = tree::Dump(options.problem, *forms, options.dump, team);
    if (!status.ok()) return status;
  }
  if (!options.verify) return {};
  lap.Seconds();
  if (Status status = tree::Check(options.problem, &*forms, team); !status.ok()) return status;
  if (team->rank() == 0) {
    std::printf("verified       %8.5f s  equal to a run of one process alone, and to itself\n",
                lap.Seconds());
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (const int code = ParseOptions(argc, argv, &options); code >= 0) return code;
  return support::RunProgram(
      "tree", options.program, argv,
      [&](tidepool::Client& client, Team* team) { return Run(options, client, team); });
}
