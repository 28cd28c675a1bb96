// Work of uneven size, shared by a global counter. Each process takes the next piece when it is
// done with a piece. No process waits for the slowest, and no process hands out work.
//
//   balance [PROCESSES]     counts primes with PROCESSES processes (default 4)
//   srun -n 64 balance      uses Slurm's processes
#include <sys/wait.h>
#include <tidepool/tidepool.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

constexpr std::int64_t kPieces = 400;
constexpr std::int64_t kPieceNumbers = 5'000;
constexpr std::int64_t kPrimesBelowEnd = 148'933;  // pi(2,000,000), to check the result.

bool IsPrime(std::int64_t n) {
  if (n < 2) return false;
  for (std::int64_t d = 2; d * d <= n; ++d) {
    if (n % d == 0) return false;
  }
  return true;
}

int Run(std::uint32_t size, std::int32_t rank) {
  auto client = tidepool::Client::Connect();
  if (!client.ok()) return tidepool::Report(client.status());
  auto group = tidepool::Group::Join(*client, "balance", size, {.rank = rank});
  if (!group.ok()) return tidepool::Report(group.status());
  auto tally = client->OpenOrCreate<tidepool::HashMap<std::string, std::int64_t>>("balance");
  if (!tally.ok()) return tidepool::Report(tally.status());

  // Counters of an earlier run are useless. They must be gone before any process takes a piece.
  if (group->rank() == 0) (void)tally->Delete("next");
  if (auto met = group->Barrier(); !met.ok()) return tidepool::Report(met);

  std::int64_t pieces = 0, primes = 0;
  for (;; ++pieces) {
    const auto next = tally->FetchAdd("next", 1);  // No other process gets this number.
    if (!next.ok()) return tidepool::Report(next.status());
    if (*next >= kPieces) break;
    for (std::int64_t n = *next * kPieceNumbers; n < (*next + 1) * kPieceNumbers; ++n) {
      primes += IsPrime(n) ? 1 : 0;
    }
  }
  std::printf("rank %u counted %lld of %lld pieces\n", group->rank(),
              static_cast<long long>(pieces), static_cast<long long>(kPieces));

  const auto sum = group->AllReduce(primes);
  if (!sum.ok()) return tidepool::Report(sum.status());
  if (group->rank() == 0) std::printf("%lld primes\n", static_cast<long long>(*sum));
  return *sum == kPrimesBelowEnd ? 0 : 1;
}

// A launcher gives each process a rank: mpirun, or srun. An mpirun inside of a Slurm job comes
// first, since its processes have the variables of the batch script, too.
struct Launcher {
  const char* rank;
  const char* size;
};
constexpr Launcher kLaunchers[] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                   {"PMI_RANK", "PMI_SIZE"},
                                   {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}};

}  // namespace

int main(int argc, char** argv) {
  for (const Launcher& launcher : kLaunchers) {
    const char* const rank = std::getenv(launcher.rank);
    const char* const size = std::getenv(launcher.size);
    if (rank == nullptr || size == nullptr) continue;
    return Run(static_cast<std::uint32_t>(std::atoi(size)), std::atoi(rank));
  }
  const int processes = argc > 1 ? std::atoi(argv[1]) : 4;
  if (processes < 1 || processes > 1'000) {
    std::fprintf(stderr, "usage: balance [PROCESSES]\n");
    return 2;
  }
  // Before anything is connected: a client does not outlive a fork.
  std::vector<pid_t> children;
  for (int rank = 0; rank < processes; ++rank) {
    const pid_t child = fork();
    if (child == 0) return Run(static_cast<std::uint32_t>(processes), rank);
    children.push_back(child);
  }
  int worst = 0;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    worst = code > worst ? code : worst;
  }
  return worst;
}
