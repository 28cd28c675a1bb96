// C = A x B with matrices in the cluster: blocks of 512 x 512 doubles are values of 2 MiB in a hash
// namespace. The owner computes: the processes form a grid, and each process makes the blocks of C
// at its place in the grid. In each step it reads the needed blocks of a column of A and a row of B
// (SUMMA). The entries are integers, so C is equal to the last bit in any run.
//
//   summa --n 2048 --processes 3     starts 3 processes
//   srun -n 64 summa --n 8192        uses Slurm's processes
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "client/examples/summa/worker.h"
#include "client/examples/support/team.h"

namespace {

// Ends the program after --help, and where the arguments make no sense.
summa::Options ParseOptions(int argc, char** argv, int* processes) {
  summa::Options options;
  CLI::App app("Multiplies two matrices that lie in a cluster's memory.", "summa");
  app.add_option("--n", options.n, "Rows and columns of the matrices: a multiple of 512")
      ->check(CLI::Range(summa::kBlock, 1 << 17))
      ->check([](const std::string& text) {
        return std::atoi(text.c_str()) % summa::kBlock == 0 ? std::string()
                                                            : "it must be a multiple of 512";
      });
  app.add_option("--processes", *processes, "Processes to start (1 to 256); not under srun")
      ->check(CLI::Range(1, 256));
  app.add_option("--seed", options.seed, "Of the entries; results of equal seeds are equal");
  app.add_option("--cluster", options.cluster, "Connection file; default: as every client")
      ->type_name("FILE");
  app.add_option("--namespace", options.name,
                 "That holds the blocks; default: one of this run alone")
      ->type_name("NAME");
  app.add_flag("--keep", options.keep, "Leaves the namespace there");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& ended) {
    std::exit(app.exit(ended) == 0 ? 0 : 2);
  }
  return options;
}

// Runs `processes` workers. When a worker fails, it ends the rest of them. Returns the exit code of
// the first failed worker.
int Launch(const summa::Options& options, int processes) {
  // Before anything is connected: a client does not outlive a fork.
  std::vector<pid_t> children;
  for (int rank = 0; rank < processes; ++rank) {
    const pid_t child = fork();
    if (child < 0) {
      std::perror("summa: cannot start a process");
      for (const pid_t started : children) kill(started, SIGTERM);
      return 1;
    }
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      std::exit(summa::RunWorker(options, processes, rank));
    }
    children.push_back(child);
  }
  int result = 0;
  for (int left = processes; left > 0; --left) {
    int status = 0;
    const pid_t ended = wait(&status);
    for (pid_t& child : children) child = child == ended ? -1 : child;
    if (result != 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) continue;
    if (WIFSIGNALED(status)) {
      std::fprintf(stderr, "summa: a process was killed by signal %d\n", WTERMSIG(status));
    }
    result = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    for (const pid_t child : children) {
      if (child > 0) kill(child, SIGTERM);
    }
  }
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  int processes = 2;
  summa::Options options = ParseOptions(argc, argv, &processes);
  auto place = support::FindPlace("summa", options.name);
  // The launcher does not name its runs, so only one run at a time is possible.
  if (!place.ok()) place = support::FindPlace("summa", "summa");
  // Simultaneous runs need their own namespaces.
  if (options.name.empty() && place.ok()) options.name = support::NameOf(*place, "blocks");
  if (place.ok() && place->launched) return summa::RunWorker(options, place->size, place->rank);
  return Launch(options, processes);
}
