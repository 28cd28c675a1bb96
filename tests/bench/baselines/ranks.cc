#include "tests/bench/baselines/ranks.h"

#include <mpi.h>
#include <time.h>

#include <cstdio>
#include <cstdlib>

#include "tests/bench/baselines/median.h"

namespace tidepool::baselines {

struct Ranks::Communicator {
  MPI_Comm comm = MPI_COMM_WORLD;
};

Ranks::Ranks(int* argc, char*** argv) : ranks_(std::make_unique<Communicator>()) {
  MPI_Init(argc, argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
}

Ranks::Ranks(const Ranks& all, bool is_member) : ranks_(std::make_unique<Communicator>()) {
  MPI_Comm_split(all.ranks_->comm, is_member ? 1 : 0, all.rank_, &ranks_->comm);
  MPI_Comm_rank(ranks_->comm, &rank_);
  MPI_Comm_size(ranks_->comm, &size_);
}

Ranks::~Ranks() {
  if (ranks_->comm == MPI_COMM_WORLD) {
    MPI_Finalize();
  } else {
    MPI_Comm_free(&ranks_->comm);
  }
}

void Ranks::Barrier() const { MPI_Barrier(ranks_->comm); }

double Ranks::Sum(double number) const {
  MPI_Allreduce(MPI_IN_PLACE, &number, 1, MPI_DOUBLE, MPI_SUM, ranks_->comm);
  return number;
}

double Ranks::Max(double number) const {
  MPI_Allreduce(MPI_IN_PLACE, &number, 1, MPI_DOUBLE, MPI_MAX, ranks_->comm);
  return number;
}

void Fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();  // MPI_Abort does not return, but does not say so.
}

double Seconds() { return MPI_Wtime(); }

double CpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

void PrintPhase(const Ranks& ranks, const std::string& phase, const std::vector<Sample>& samples) {
  if (ranks.rank() != 0 || samples.empty()) return;
  const double operations = MedianOf(samples, &Sample::operations);
  const double seconds = MedianOf(samples, &Sample::seconds);
  std::printf(
      "{\"phase\": \"%s\", \"operations\": %.0f, \"seconds\": %.6g, \"us\": %.6g, "
      "\"cpu_us\": %.6g, \"calls\": %.4g}\n",
      phase.c_str(), operations, seconds, seconds * 1e6 * samples[0].clients / operations,
      MedianOf(samples, &Sample::cpu_us), MedianOf(samples, &Sample::calls));
  std::fflush(stdout);
}

}  // namespace tidepool::baselines
