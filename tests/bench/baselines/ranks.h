// The processes of a baseline: MPI's ranks, whatever carries their data, and what one phase of
// theirs has cost.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tidepool::baselines {

// All processes of the mpirun, from MPI_Init to MPI_Finalize, or some of them.
class Ranks {
 public:
  Ranks(int* argc, char*** argv);
  // Those of `all` that say the same of themselves; all call it.
  Ranks(const Ranks& all, bool is_member);
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  // At every rank.
  double Sum(double number) const;
  double Max(double number) const;
  void Barrier() const;

 private:
  struct Communicator;  // MPI's: not all who use this have its header.
  std::unique_ptr<Communicator> ranks_;
  int rank_ = 0;
  int size_ = 1;
};

// Ends all ranks: there is nothing sensible to go on with.
[[noreturn]] void Fail(const std::string& what);

// Of the wall clock.
double Seconds();

// Of this process and all its threads.
double CpuSeconds();

// What one phase has cost, of all ranks together.
struct Sample {
  double operations = 0;
  double clients = 0;  // Ranks that had any.
  double seconds = 0;  // From the first one's beginning to the last one's end.
  double cpu_us = 0;   // Per operation.
  double calls = 0;    // One-sided calls or messages per operation.
};

// Samples of one phase; prints their medians, one JSON object in a line.
void PrintPhase(const Ranks& ranks, const std::string& phase, const std::vector<Sample>& samples);

// Runs a phase of `operations` of this rank between two barriers. The CPU time is that until a
// rank's own end: whoever then waits for the others polls, which is no work. Of a rank without
// operations it is all: it polls so that the others are served.
template <typename Window, typename Work>
Sample Measure(const Ranks& ranks, Window* window, std::uint64_t operations, Work&& work) {
  window->Barrier();
  const std::uint64_t calls = window->calls();
  const double cpu = CpuSeconds();
  const double begin = Seconds();
  work();
  double own_cpu = CpuSeconds() - cpu;
  window->Barrier();
  if (operations == 0) own_cpu = CpuSeconds() - cpu;
  Sample sample;
  sample.seconds = ranks.Max(Seconds() - begin);
  sample.operations = ranks.Sum(static_cast<double>(operations));
  sample.clients = ranks.Sum(operations > 0 ? 1 : 0);
  sample.cpu_us = ranks.Sum(own_cpu) * 1e6 / sample.operations;
  sample.calls = ranks.Sum(static_cast<double>(window->calls() - calls)) / sample.operations;
  return sample;
}

}  // namespace tidepool::baselines
